package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/test/harness"
)

// event is what happens while clients write.
type event struct {
	name string
	// planned says that no request may fail.
	planned bool
	do      func(ctx context.Context, c *cluster, l *load) error
}

// around is how many writes of each client come before and after what happens.
const around = 20

// events are all that happens. Some of them are enough to see that nothing is wrong.
func events(quick bool) []event {
	replace := event{"servers are replaced by those of the binary, one by one, and managers then", true, replaceServers}
	all := []event{
		{"nothing happens", true, func(ctx context.Context, _ *cluster, l *load) error { return l.each(ctx, 5*around) }},
		replace, // first, because a binary of before may not know the rest
		{"servers have another certificate", true, func(ctx context.Context, c *cluster, l *load) error { return c.renewCertificate(ctx, l) }},
		{"tokens have another key", true, func(ctx context.Context, c *cluster, l *load) error { return c.rotateKey(ctx, l) }},
	}
	each := 3
	if quick {
		all, each = nil, 1
	}
	for i := range each {
		all = append(all, event{fmt.Sprintf("server %d is killed", i), false, func(ctx context.Context, c *cluster, l *load) error { return killServer(ctx, c, l, i) }})
	}
	for i := range each {
		all = append(all, event{fmt.Sprintf("member %d of etcd is killed", i), false, func(ctx context.Context, c *cluster, l *load) error { return killMember(ctx, c, l, i) }})
	}
	if !quick {
		all = append(all, event{"the managers are killed, and others are started", false, killManagers})
	}
	// At last: controllers and managers begin anew.
	return append(all, event{"two members of etcd are killed, and come back", false, loseQuorum})
}

// replaceServers does what the operator does when the pods of servers change: a new one is ready
// before an old one ends, which is no endpoint any more by then.
func replaceServers(ctx context.Context, c *cluster, l *load) error {
	for i, old := range c.servers {
		next, err := c.startServer(ctx)
		if err != nil {
			return err
		}
		c.servers[i] = next
		c.service.set(c.servers)
		harness.End(old.process, syscall.SIGTERM)
		if code := old.process.ProcessState.ExitCode(); code != 0 {
			return fmt.Errorf("a server that was asked to end ended with %d", code)
		}
		if err := l.each(ctx, around); err != nil {
			return err
		}
	}
	for _, old := range c.managers[:2] {
		if err := c.startManager(); err != nil {
			return err
		}
		harness.End(old, syscall.SIGTERM)
	}
	c.managers = c.managers[2:]
	return makeTenant(ctx, c, "after-a-replacement")
}

func killServer(ctx context.Context, c *cluster, l *load, i int) error {
	harness.End(c.servers[i].process, syscall.SIGKILL)
	if err := l.each(ctx, around); err != nil {
		return err
	}
	next, err := c.startServer(ctx)
	if err != nil {
		return err
	}
	c.servers[i] = next
	c.service.set(c.servers)
	return l.each(ctx, around)
}

func killMember(ctx context.Context, c *cluster, l *load, i int) error {
	c.members[i].kill()
	if err := l.each(ctx, around); err != nil {
		return err
	}
	if err := c.members[i].start(c.members); err != nil {
		return err
	}
	return errors.Join(c.healthy(ctx, c.members[i]), l.each(ctx, around))
}

// loseQuorum kills a majority of etcd, for longer than controllers keep their lease. Until it is back nothing is
// acknowledged, and servers say that they are not ready. No server ends, and controllers and the other manager go on
// afterwards.
func loseQuorum(ctx context.Context, c *cluster, l *load) error {
	if err := c.leads(ctx); err != nil {
		return err
	}
	lost := c.members[:2]
	for _, m := range lost {
		m.kill()
	}
	for _, s := range c.servers {
		if err := c.notReady(ctx, s); err != nil {
			return err
		}
	}
	before := l.acked()
	if err := l.failing(ctx); err != nil {
		return err
	}
	if err := c.lostLease(ctx); err != nil {
		return err
	}
	if after := l.acked(); after != before {
		return fmt.Errorf("%d writes were acknowledged without a majority of etcd", after-before)
	}
	for _, m := range lost {
		if err := m.start(c.members); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := l.each(ctx, 1); err != nil {
		return err
	}
	harness.Row("all clients write again, after etcd's members were started", "%.1f s", time.Since(began).Seconds())
	if err := c.recover(ctx); err != nil {
		return err
	}
	if err := makeTenant(ctx, c, "after-a-lost-majority"); err != nil {
		return err
	}
	harness.Row("controllers and managers have made a new Tenant ready, after etcd's members were started", "%.1f s", time.Since(began).Seconds())
	return l.each(ctx, around)
}

// killManagers kills both managers, starts others, and waits until one of these makes a tenant ready: when the lease
// of those before has ended.
func killManagers(ctx context.Context, c *cluster, l *load) error {
	for _, m := range c.managers {
		harness.End(m, syscall.SIGKILL)
	}
	c.managers = nil
	began := time.Now()
	if err := errors.Join(c.startManager(), c.startManager(), makeTenant(ctx, c, "after-a-kill")); err != nil {
		return err
	}
	harness.Row("a new Tenant is ready, after the managers were killed", "%.1f s", time.Since(began).Seconds())
	return l.each(ctx, around)
}

func makeTenant(ctx context.Context, c *cluster, name string) error {
	_, err := harness.NewSpace(ctx, c.admin, name, v1alpha1.TenantSpec{})
	return err
}
