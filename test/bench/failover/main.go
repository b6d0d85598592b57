package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/test/harness"
)

// options are the flags.
type options struct {
	binary, before  string
	spaces, writers int
	quick           bool
}

func main() {
	harness.RunIfCalled(memberPart, runMember)
	var o options
	flag.StringVar(&o.binary, "binary", "bin/tenantry", "Binary of this project.")
	flag.StringVar(&o.before, "before", "", "Binary that runs at first, until servers are replaced. By default it is the same.")
	flag.IntVar(&o.spaces, "spaces", 4, "Number of spaces, each with a client that watches and some that write.")
	flag.IntVar(&o.writers, "writers", 2, "Number of clients that write in each space.")
	flag.BoolVar(&o.quick, "quick", false, "Do one of each kind only.")
	flag.Parse()
	fmt.Printf("%d cores, %s.\n\n## Three servers on an etcd of three members, %d clients that write in %d spaces\n\n| what | measured |\n|---|---|\n",
		runtime.NumCPU(), runtime.Version(), o.spaces*o.writers, o.spaces)
	harness.Main("failover", func(ctx context.Context) error {
		return harness.InTempDir("failover", func(dir string) error { return run(ctx, dir, o) })
	})
}

// run starts everything, and prints what comes of each event.
func run(ctx context.Context, dir string, o options) error {
	c, err := newCluster(ctx, dir, cmp.Or(o.before, o.binary), 3)
	if c != nil {
		defer c.end()
	}
	if err != nil {
		return err
	}
	c.binary = o.binary
	var spaces []*rest.Config
	for i := range o.spaces {
		space, err := harness.NewSpace(ctx, c.admin, fmt.Sprintf("space-%d", i), v1alpha1.TenantSpec{})
		if err != nil {
			return err
		}
		spaces = append(spaces, space)
	}
	users, err := withTokens(ctx, spaces)
	if err != nil {
		return err
	}
	l, err := startLoad(ctx, users, o.writers)
	if err != nil {
		return err
	}
	defer l.end()
	if err := l.each(ctx, around); err != nil {
		return err
	}
	l.take()
	var failures []error
	for _, e := range events(o.quick) {
		began := time.Now()
		if err := e.do(ctx, c, l); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
		failures = append(failures, e.report(l.take(), time.Since(began)))
	}
	l.end()
	return errors.Join(append(failures, verify(ctx, l))...)
}

// report prints what came of an event, and fails if a request failed that must not.
func (e event) report(c counts, took time.Duration) error {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	harness.Row(e.name, "%d acknowledged in %.0f s, %d failed; from one to the next p50 %.0f ms, p99 %.0f ms, longest %.0f ms; %d watches resumed, %d lists",
		c.acked, took.Seconds(), len(c.failed), ms(harness.Median(c.pauses)), ms(harness.Quantile(c.pauses, 0.99)), ms(slices.Max(c.pauses)), c.resumed, c.relisted)
	messages := map[string]int{}
	for _, err := range c.failed {
		messages[err.Error()]++
	}
	for _, message := range slices.Sorted(maps.Keys(messages)) {
		harness.Row("failed with: "+strings.ReplaceAll(message, "|", " "), "%d", messages[message])
	}
	if e.planned && len(c.failed) > 0 {
		return fmt.Errorf("%s: %d requests failed, the first with: %w", e.name, len(c.failed), c.failed[0])
	}
	return nil
}

// verify looks whether all that was acknowledged is there, and was seen by those who watch.
func verify(ctx context.Context, l *load) error {
	acked, lost := 0, []string{}
	var missing []string
	perSpace := len(l.writers) / len(l.watchers)
	for i, watcher := range l.watchers {
		var names []string
		for _, w := range l.writers[i*perSpace : (i+1)*perSpace] {
			gone, err := w.lost(ctx)
			if err != nil {
				return err
			}
			lost = append(lost, gone...)
			acked += w.acked + w.counted
			for n := range w.acked {
				names = append(names, w.object(n).Name)
			}
		}
		unseen, twice, err := watcher.catchUp(ctx, names)
		if err != nil {
			return err
		}
		missing = append(missing, slices.Concat(unseen, twice)...)
	}
	harness.Row("all of it", "%d writes acknowledged, %d lost; %d of them never seen by a watch or twice", acked, len(lost), len(missing))
	switch {
	case len(lost) > 0:
		return fmt.Errorf("%d acknowledged writes are lost: %v", len(lost), lost[:min(len(lost), 10)])
	case len(missing) > 0:
		return fmt.Errorf("watches have not seen, or seen twice: %v", missing[:min(len(missing), 10)])
	default:
		return nil
	}
}
