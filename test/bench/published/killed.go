package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/test/harness"
)

const (
	// longest is the longest time from the begin of a round of changes to the kill,
	// and longestStart from the start of a process to that of one that starts.
	longest, longestStart = 12 * time.Second, 4 * time.Second
	// quiet is how long a process that has nothing to do is looked at.
	quiet = 30 * time.Second
)

// state is what an object is to be.
type state struct {
	there, published bool
	content          string
}

// trial kills a Tenantry again and again while objects and tenants come, change and
// go, and then looks at every space.
type trial struct {
	at     harness.Installation
	seed   uint64
	random *rand.Rand

	mu      sync.Mutex
	running *system // nil while nobody answers

	objects []state
	// spaces are the numbers of the tenants that are to be, next is that of the next.
	spaces []int
	next   int
}

// survive prints what came of so many kills, and fails if a single copy is wrong.
func survive(ctx context.Context, t *trial, spaces, count, kills int) error {
	t.random, t.objects, t.next = rand.New(rand.NewPCG(t.seed, 0)), make([]state, count), spaces
	for i := range spaces {
		t.spaces = append(t.spaces, i)
	}
	if err := t.start(ctx); err != nil {
		return err
	}
	defer func() { t.end(syscall.SIGTERM) }()
	if err := t.running.createTenants(ctx, 0, spaces); err != nil {
		return err
	}
	_, err := t.running.typed.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	for kill := range kills {
		if err := t.round(ctx, kill); err != nil {
			return fmt.Errorf("kill %d: %w", kill+1, err)
		}
	}
	began := time.Now()
	if err := t.settle(ctx); err != nil {
		return err
	}
	harness.Row("complete, after the last start", "%.1f s", time.Since(began).Seconds())
	return t.verify(ctx)
}

// round changes objects and tenants, and kills the process at a random moment of
// that or of what comes of it; at times also one that starts.
func (t *trial) round(ctx context.Context, kill int) error {
	done := make(chan error, 1)
	go func() { done <- t.change(ctx, kill) }()
	time.Sleep(time.Duration(t.random.Int64N(int64(longest))))
	t.end(syscall.SIGKILL)
	if kill%3 == 1 {
		if err := t.killAtStart(ctx); err != nil {
			return err
		}
	}
	if err := t.start(ctx); err != nil {
		return err
	}
	harness.Row(fmt.Sprintf("kill %d", kill+1), "ready again after %.1f s", t.running.Started.Seconds())
	return <-done
}

func (t *trial) killAtStart(ctx context.Context) error {
	command := exec.CommandContext(ctx, t.at.Binary, t.at.UpArgs()...)
	if err := command.Start(); err != nil {
		return err
	}
	time.Sleep(time.Duration(t.random.Int64N(int64(longestStart))))
	if err := command.Process.Kill(); err != nil {
		return err
	}
	_ = command.Wait()
	return nil
}

func (t *trial) start(ctx context.Context) error {
	s, err := start(ctx, t.at)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running = s
	return nil
}

func (t *trial) end(signal syscall.Signal) {
	t.mu.Lock()
	s := t.running
	t.running = nil
	t.mu.Unlock()
	if s != nil {
		s.End(signal)
	}
}

// change brings a third of the objects, or all in the first round, to new states,
// and lets a tenant go and one come. What nobody acknowledges, because the process
// is dead, is asked for again.
func (t *trial) change(ctx context.Context, kill int) error {
	random := rand.New(rand.NewPCG(t.seed, uint64(kill)+1))
	for done, i := range random.Perm(len(t.objects)) {
		if kill > 0 && done > len(t.objects)/3 {
			break
		}
		want := state{there: true, published: true, content: strconv.Itoa(kill)}
		switch random.IntN(8) {
		case 0:
			want.published = false
		case 1:
			want = state{}
		}
		if err := t.insist(ctx, func(s *system) error { return s.bring(ctx, i, want) }); err != nil {
			return err
		}
		t.objects[i] = want
	}
	place := random.IntN(len(t.spaces))
	if err := t.insist(ctx, func(s *system) error {
		return client.IgnoreNotFound(s.tenants.Delete(ctx, tenantName(t.spaces[place])))
	}); err != nil {
		return err
	}
	t.spaces[place] = t.next
	t.next++
	return t.insist(ctx, func(s *system) error {
		return client.IgnoreAlreadyExists(s.tenants.Create(ctx, tenantName(t.spaces[place]), v1alpha1.TenantSpec{}))
	})
}

// insist does something until it succeeds, with whichever process there is.
func (t *trial) insist(ctx context.Context, do func(*system) error) error {
	return harness.Until(ctx, 5*time.Minute, "a process does what it is asked for", func(context.Context) error {
		t.mu.Lock()
		s := t.running
		t.mu.Unlock()
		if s == nil {
			return errors.New("none runs")
		}
		return do(s)
	})
}

// bring makes the i-th object what it is to be.
func (c *clients) bring(ctx context.Context, i int, want state) error {
	resource, o := object(i)
	objects := c.at(resource, o)
	if !want.there {
		return client.IgnoreNotFound(objects.Delete(ctx, o.GetName(), metav1.DeleteOptions{}))
	}
	want.into(o)
	_, err := objects.Create(ctx, o, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = objects.Update(ctx, o, metav1.UpdateOptions{})
	}
	return err
}

// into writes what the object is to be into it.
func (s state) into(o *unstructured.Unstructured) {
	o.SetLabels(map[string]string{"edition": s.content})
	if !s.published {
		o.SetAnnotations(nil)
	}
	switch o.GetKind() {
	case "ConfigMap":
		o.Object["data"] = map[string]any{"text": s.content}
	case "Secret":
		o.Object["stringData"] = map[string]any{"text": s.content}
	default:
		o.Object["rules"].([]any)[0].(map[string]any)["resourceNames"] = []any{s.content}
	}
}

// settle waits until the tenants are those that are to be, and the reports say of
// all that is published, and of nothing else, that it is in every space.
func (t *trial) settle(ctx context.Context) error {
	want := 0
	for _, s := range t.objects {
		if s.published {
			want++
		}
	}
	var tenants v1alpha1.TenantList
	if err := poll(ctx, time.Second, func() (bool, error) {
		err := t.running.tenants.List(ctx, &tenants, fromCache)
		return len(tenants.Items) == len(t.spaces)+1, err // with that of the system
	}); err != nil {
		return fmt.Errorf("waiting for %d tenants: %w", len(t.spaces), err)
	}
	for _, i := range t.spaces {
		if err := t.running.tenants.Await(ctx, tenantName(i), 100*time.Millisecond, timeout); err != nil {
			return err
		}
	}
	if _, err := t.running.await(ctx, want, len(t.spaces)); err != nil {
		return fmt.Errorf("waiting for reports about %d objects in %d spaces: %w", want, len(t.spaces), err)
	}
	var reports v1alpha1.PublishedObjectList
	if err := poll(ctx, time.Second, func() (bool, error) {
		err := t.running.tenants.List(ctx, &reports, fromCache)
		return len(reports.Items) == want, err
	}); err != nil {
		return fmt.Errorf("waiting for reports about %d objects and no others: %w", want, err)
	}
	return nil
}
