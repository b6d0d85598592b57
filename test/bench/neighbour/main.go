package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tenantry/tenantry/test/harness"
)

const (
	quiet = "quiet"
	busy  = "busy"
)

// settings are the flags.
type settings struct {
	tenantry string
	args     string
	duration time.Duration
	workers  int
	objects  int
	count    time.Duration
	only     string
}

func main() {
	var s settings
	flag.StringVar(&s.tenantry, "tenantry", "bin/tenantry", "Binary of this project.")
	flag.StringVar(&s.args, "args", "", "Further arguments of \"tenantry up\", separated by spaces.")
	flag.DurationVar(&s.duration, "duration", 10*time.Second, "Time of each measurement.")
	flag.IntVar(&s.workers, "workers", 64, "Concurrent requests of the busy tenant.")
	flag.IntVar(&s.objects, "objects", 5000, "Objects of 1 KB in the busy tenant's big lists.")
	flag.DurationVar(&s.count, "count", 80*time.Second, "Time for the server to count the objects; it does so once a minute.")
	flag.StringVar(&s.only, "only", "", "The only loads to measure, separated by semicolons: "+strings.Join(loadNames(), "; ")+". A part of a name is enough.")
	load := flag.String("load", "", "Be the busy tenant. For the command itself.")
	kubeconfig := flag.String("kubeconfig", "", "Credentials of the busy tenant.")
	flag.Parse()
	harness.Main("neighbour", func(ctx context.Context) error {
		if *load != "" {
			return saturate(ctx, *load, *kubeconfig, s)
		}
		if err := scheduleFirst(ctx); err != nil {
			return err
		}
		return harness.Install("neighbour", s.tenantry, func(at harness.Installation) error { return run(ctx, at, s) })
	})
}

func run(ctx context.Context, at harness.Installation, s settings) error {
	system, err := start(ctx, at, s)
	if err != nil {
		return err
	}
	defer system.process.End(os.Interrupt)
	victim, err := newTenant(system.kubeconfigs[quiet])
	if err != nil {
		return err
	}
	if err := victim.prepare(ctx, 50, ""); err != nil {
		return fmt.Errorf("preparing the quiet tenant: %w", err)
	}
	aggressor, err := newTenant(system.kubeconfigs[busy])
	if err != nil {
		return err
	}
	if err := aggressor.prepare(ctx, s.objects, strings.Repeat("x", 1000)); err != nil {
		return fmt.Errorf("preparing the busy tenant: %w", err)
	}
	if _, err := victim.measure(ctx, s.count); err != nil { // warms up
		return err
	}
	results := []result{}
	measure := func(load string) error {
		rate := ""
		if load != "" {
			stop, err := system.saturate(ctx, load, s)
			if err != nil {
				return err
			}
			defer func() { results[len(results)-1].rate = stop() }()
		}
		measured, err := victim.measure(ctx, s.duration)
		if err != nil {
			return err
		}
		results = append(results, result{load: load, rate: rate, latencies: measured})
		return nil
	}
	for _, load := range slices.Concat([]string{""}, loadNames(), []string{""}) {
		if load != "" && !s.wants(load) {
			continue
		}
		if err := measure(load); err != nil {
			return fmt.Errorf("measuring %q: %w", load, err)
		}
	}
	report(results, s)
	return nil
}

// wants reports whether a load is to be measured.
func (s settings) wants(load string) bool {
	return slices.ContainsFunc(strings.Split(s.only, ";"), func(part string) bool {
		return strings.Contains(load, strings.TrimSpace(part))
	})
}

// result is what one load did to the quiet tenant.
type result struct {
	load      string
	rate      string // of the busy tenant
	latencies map[string]samples
}

func report(results []result, s settings) {
	fmt.Printf("%s for each line, busy tenant with %d workers, lists of %d objects, %d cores, %s. Latencies of the quiet tenant in milliseconds; ratios to the first line.\n\n",
		s.duration, s.workers, s.objects, runtime.NumCPU(), runtime.Version())
	fmt.Println("| busy tenant | its requests, 1/s | request | p50 | p99 | p99 ratio | refused |")
	fmt.Println("|---|---|---|---|---|---|---|")
	for _, r := range results {
		load := cmp.Or(r.load, "idle")
		for _, kind := range kinds {
			m := r.latencies[kind]
			fmt.Printf("| %s | %s | %s | %.2f | %.2f | %.2f | %d |\n", load, r.rate, kind,
				milliseconds(m.quantile(0.5)), milliseconds(m.quantile(0.99)),
				float64(m.quantile(0.99))/float64(results[0].latencies[kind].quantile(0.99)), m.refused)
		}
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
