package main

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tenantry/tenantry/internal/process/signal"
	"github.com/tenantry/tenantry/test/harness"
)

func main() {
	binary := flag.String("tenantry", "bin/tenantry", "Binary of this project.")
	sizes := flag.String("tenants", "100,1000,10000", "Numbers of tenants; each is measured in a new installation.")
	workers := flag.Int("workers", 16, "Tenants created or deleted at once.")
	settle := flag.Duration("settle", 45*time.Second, "Time without requests before memory is measured.")
	history := flag.Duration("history", 11*time.Minute, "Time until etcd's history of a deletion is compacted; twice its interval.")
	flag.Parse()
	fmt.Printf("%d cores, %s, %d workers, %s to settle.\n", runtime.NumCPU(), runtime.Version(), *workers, *settle)
	harness.Main("tenants", func(ctx context.Context) error {
		for size := range strings.SplitSeq(*sizes, ",") {
			n, err := strconv.Atoi(size)
			if err != nil {
				return err
			}
			if err := harness.Install("tenants", *binary, func(at harness.Installation) error {
				return measure(ctx, at, n, *workers, *settle, *history)
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

func measure(ctx context.Context, at harness.Installation, n, workers int, settle, history time.Duration) error {
	p, err := at.Up(ctx)
	if err != nil {
		return err
	}
	defer func() { p.End(syscall.SIGTERM) }()
	c, err := newClients(p.Config)
	if err != nil {
		return err
	}
	fmt.Printf("\n## %d tenants\n\n| what | measured |\n|---|---|\n", n)
	harness.Row("ready after the first start", "%.1f s", p.Started.Seconds())

	// one tenant, which stays, with something to list
	const alone = 20
	one, err := c.each(ctx, 1, alone, 1, false, c.create)
	if err != nil {
		return err
	}
	harness.Row("Tenant applied to Ready, one at a time", "p50 %d ms", harness.Median(one.latencies).Milliseconds())
	if err := c.fill(ctx, tenantName(1)); err != nil {
		return err
	}
	if _, err := c.list(ctx, tenantName(1), 50); err != nil { // warms up
		return err
	}
	before, err := c.list(ctx, tenantName(1), 200)
	if err != nil {
		return err
	}
	_ = signal.Pause(ctx, settle)
	base, err := p.Footprint(ctx)
	if err != nil {
		return err
	}

	load, err := c.each(ctx, alone+1, alone+n, workers, false, c.create)
	if err != nil {
		return err
	}
	harness.Row("rate", "%.0f tenants/s", float64(n)/load.elapsed.Seconds())
	harness.Row("applied to Ready at that rate", "p50 %d ms", harness.Median(load.latencies).Milliseconds())
	_ = signal.Pause(ctx, settle)
	loaded, err := p.Footprint(ctx)
	if err != nil {
		return err
	}
	compare("after creation", base, loaded, n)
	after, err := c.list(ctx, tenantName(1), 200)
	if err != nil {
		return err
	}
	harness.Row(fmt.Sprintf("list of %d objects beside %d tenants", listed, n), "%.2f times that beside %d", float64(after)/float64(before), alone)
	spent, err := harness.Spent(p.CPU, func() error { return signal.Pause(ctx, settle) })
	if err != nil {
		return err
	}
	harness.Row("processor time while nothing happens", "%.1f %% of a core", 100*spent.Seconds()/settle.Seconds())

	p.End(syscall.SIGTERM)
	if p, err = at.Up(ctx); err != nil {
		return err
	}
	harness.Row("ready after a restart", "%.1f s", p.Started.Seconds())
	_ = signal.Pause(ctx, settle)
	restarted, err := p.Footprint(ctx)
	if err != nil {
		return err
	}
	compare("after a restart", base, restarted, n)

	deletion, err := c.each(ctx, alone+1, alone+n, workers, true, c.tenants.Delete)
	if err != nil {
		return err
	}
	harness.Row("deletion", "%.0f tenants/s", float64(n)/deletion.elapsed.Seconds())
	// The watch cache forgets its events of more than 75 seconds ago at the next
	// ones, etcd its history when it is compacted.
	_ = signal.Pause(ctx, max(settle, 80*time.Second))
	if _, err := c.each(ctx, alone+n+1, alone+n+alone, 1, false, c.create); err != nil {
		return err
	}
	if _, err := c.each(ctx, alone+n+1, alone+n+alone, 1, true, c.tenants.Delete); err != nil {
		return err
	}
	_ = signal.Pause(ctx, history)
	emptied, err := p.Footprint(ctx)
	if err != nil {
		return err
	}
	returned := func(of func(harness.Footprint) int64) float64 {
		return 100 * float64(of(restarted)-of(emptied)) / float64(of(restarted)-of(base))
	}
	harness.Row("memory returned after deletion", "%.0f %% of the heap, %.0f %% of resident anonymous memory",
		returned(func(f harness.Footprint) int64 { return f.Live }), returned(func(f harness.Footprint) int64 { return f.Anonymous }))
	return nil
}

// compare prints what n tenants have added.
func compare(when string, base, now harness.Footprint, n int) {
	kilobytes := func(bytes int64) float64 { return float64(bytes) / 1024 / float64(n) }
	harness.Row("heap per tenant "+when, "%.1f KiB (%d to %d MiB)", kilobytes(now.Live-base.Live), base.Live>>20, now.Live>>20)
	harness.Row("resident memory per tenant "+when, "%.1f KiB (%d to %d MiB); with mapped files %.1f KiB", kilobytes(now.Anonymous-base.Anonymous),
		base.Anonymous>>20, now.Anonymous>>20, kilobytes(now.Anonymous+now.Files-base.Anonymous-base.Files))
	harness.Row("goroutines "+when, "%d to %d", base.Goroutines, now.Goroutines)
	harness.Row("etcd watches "+when, "%d to %d", base.Watches, now.Watches)
	harness.Row("metric series "+when, "%d to %d", base.Series, now.Series)
}
