package main

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/process/signal"
	"github.com/tenantry/tenantry/test/harness"
	"github.com/tenantry/tenantry/test/host"
)

// readyTimeout is what all Tenants of a turn get to be Ready, and quietTimeout what the operator
// gets to have nothing to do.
const readyTimeout, quietTimeout = 10 * time.Minute, 30 * time.Minute

// options are the flags.
type options struct {
	tenantry               string
	tenants, workers, runs int
	pause, quiet, idle     time.Duration
}

func main() {
	host.RunIfCalled()
	var o options
	flag.StringVar(&o.tenantry, "tenantry", "bin/tenantry", "Binary of this project.")
	flag.IntVar(&o.tenants, "tenants", 1000, "Number of Tenants of a turn.")
	flag.IntVar(&o.workers, "workers", 16, "Tenants created at once.")
	flag.IntVar(&o.runs, "runs", 3, "Number of runs, of which each has a turn on the host and one in the control plane.")
	flag.DurationVar(&o.pause, "pause", 90*time.Second, "Time between two turns. The host is told half a minute later of what a new Tenant may use.")
	flag.DurationVar(&o.quiet, "quiet", 3*time.Minute, "Time without a write after which the operator has nothing to do. A control plane counts what a new Tenant has stored after a minute or more.")
	flag.DurationVar(&o.idle, "idle", 10*time.Minute, "Time for which an operator that has nothing to do is observed.")
	flag.Parse()
	fmt.Printf("%d cores, %s, %d Tenants in a turn, %d at once.\n", runtime.NumCPU(), runtime.Version(), o.tenants, o.workers)
	harness.Main("host", func(ctx context.Context) error {
		return harness.InTempDir("host", func(dir string) error {
			s, err := start(ctx, dir, o.tenantry)
			if err != nil {
				return err
			}
			defer s.stop()
			if err := s.compare(ctx, o); err != nil {
				return err
			}
			return s.rest(ctx, o)
		})
	})
}

// compare applies Tenants on the host and in the control plane, in turns.
func (s *system) compare(ctx context.Context, o options) error {
	fmt.Print("\n| run | on the host, 1/s | in the control plane, 1/s | ratio | processor time of the operator for a Tenant |\n|---|---|---|---|---|\n")
	if err := s.warm(ctx, o); err != nil {
		return err
	}
	var ratios []float64
	for run := range o.runs {
		var onHost, direct, worked time.Duration
		turns := []func() error{
			func() (err error) {
				worked, err = harness.Spent(s.cpu, func() (err error) {
					onHost, err = create(ctx, s.host, fmt.Sprintf("host-%d", run), o)
					return err
				})
				return err
			},
			func() (err error) {
				direct, err = create(ctx, s.space, fmt.Sprintf("direct-%d", run), o)
				return err
			},
		}
		if run%2 == 1 {
			slices.Reverse(turns)
		}
		for _, turn := range turns {
			if err := turn(); err != nil {
				return err
			}
			if err := signal.Pause(ctx, o.pause); err != nil {
				return err
			}
		}
		ratios = append(ratios, direct.Seconds()/onHost.Seconds())
		rate := func(took time.Duration) float64 { return float64(o.tenants) / took.Seconds() }
		fmt.Printf("| %d | %.1f | %.1f | %.2f | %.1f ms |\n", run+1, rate(onHost), rate(direct), ratios[run],
			worked.Seconds()*1000/float64(o.tenants))
	}
	fmt.Printf("\nRatio: %s\n", harness.Spread(ratios))
	return nil
}

// warm creates some Tenants in both ways: what servers do once, the first turn would have to itself.
func (s *system) warm(ctx context.Context, o options) error {
	o.tenants = max(1, o.tenants/10)
	for prefix, in := range map[string]harness.Tenants{"first-host": s.host, "first-direct": s.space} {
		if _, err := create(ctx, in, prefix, o); err != nil {
			return err
		}
	}
	return nil
}

// create creates Tenants and returns how long it takes until all of them are Ready.
func create(ctx context.Context, in harness.Tenants, prefix string, o options) (time.Duration, error) {
	began := time.Now()
	name := func(i int) string { return fmt.Sprintf("%s-%04d", prefix, i) }
	if _, err := harness.Each(0, o.tenants, o.workers, func(i int) error { return in.Create(ctx, name(i), v1alpha1.TenantSpec{}) }); err != nil {
		return 0, err
	}
	for i := range o.tenants { // most are Ready when it is their turn
		if err := in.Await(ctx, name(i), 20*time.Millisecond, readyTimeout); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

// rest observes an operator that has nothing to do.
func (s *system) rest(ctx context.Context, o options) error {
	var quietSince time.Time
	last := -1
	if err := wait.PollUntilContextTimeout(ctx, time.Second, quietTimeout, true, func(context.Context) (bool, error) {
		all, err := s.writes()
		if err != nil {
			return false, err
		}
		if len(all) != last {
			last, quietSince = len(all), time.Now()
		}
		return time.Since(quietSince) >= o.quiet, nil
	}); err != nil {
		return fmt.Errorf("waiting for the operator to have nothing to do: %w", err)
	}
	spent, err := harness.Spent(s.cpu, func() error { return signal.Pause(ctx, o.idle) })
	if err != nil {
		return err
	}
	all, err := s.writes()
	if err != nil {
		return err
	}
	ready := 0
	found := &v1alpha1.TenantList{}
	if err := s.host.List(ctx, found, &client.ListOptions{}); err != nil {
		return err
	}
	for i := range found.Items {
		if meta.IsStatusConditionTrue(found.Items[i].Status.Conditions, v1alpha1.ConditionReady) {
			ready++
		}
	}
	fmt.Printf("\n| an operator that has nothing to do, for %s | measured |\n|---|---|\n", o.idle)
	harness.Row("Tenants on the host, all Ready", "%d of %d", ready, len(found.Items))
	harness.Row("writes to the host, but for its Lease", "%d %s", len(all)-last, all[last:])
	harness.Row("processor time", "%.2f %% of a core", 100*spent.Seconds()/o.idle.Seconds())
	return nil
}
