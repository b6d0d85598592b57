// Command restart measures how long a server with many tenants takes to be ready again, on
// all cores and on one, and whether it then goes on: a minute later the process is the same,
// and a new Tenant becomes Ready. It prints Markdown.
//
//	make build && go run ./test/bench/restart -tenants 40000
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tenantry/tenantry/internal/process/signal"
	"github.com/tenantry/tenantry/test/harness"
)

// readyTimeout is what a Tenant gets to be Ready, at a rate that many others share.
const readyTimeout = 5 * time.Minute

func main() {
	binary := flag.String("tenantry", "bin/tenantry", "Binary of this project.")
	count := flag.Int("tenants", 40_000, "Number of tenants.")
	workers := flag.Int("workers", 16, "Tenants created at once.")
	rest := flag.Duration("rest", time.Minute, "Time after which a server that is ready again must go on.")
	flag.Parse()
	fmt.Printf("%d cores, %s, %d tenants.\n\n| what | measured |\n|---|---|\n", runtime.NumCPU(), runtime.Version(), *count)
	harness.Main("restart", func(ctx context.Context) error {
		return harness.Install("restart", *binary, func(at harness.Installation) error {
			if err := fill(ctx, at, *count, *workers); err != nil {
				return err
			}
			for _, cores := range []int{runtime.NumCPU(), 1} {
				if err := restart(ctx, at, cores, *rest); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// fill creates the tenants, in a server that then ends.
func fill(ctx context.Context, at harness.Installation, count, workers int) error {
	p, err := at.Up(ctx)
	if err != nil {
		return err
	}
	defer p.End(syscall.SIGTERM)
	tenants, err := harness.NewTenants(p.Config)
	if err != nil {
		return err
	}
	_, err = harness.Each(0, count, workers, func(i int) error {
		return tenants.CreateReady(ctx, fmt.Sprintf("tenant-%05d", i), 100*time.Millisecond, readyTimeout)
	})
	return err
}

// restart starts the server on some cores and looks at it again after a time.
func restart(ctx context.Context, at harness.Installation, cores int, rest time.Duration) error {
	p, err := upOn(ctx, at, cores)
	if err != nil {
		return err
	}
	defer p.End(syscall.SIGTERM)
	harness.Row(fmt.Sprintf("ready after a restart, cores: %d", cores), "%.1f s", p.Started.Seconds())
	if err := signal.Pause(ctx, rest); err != nil {
		return err
	}
	tenants, err := harness.NewTenants(p.Config)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := tenants.CreateReady(ctx, fmt.Sprintf("new-on-%d", cores), 20*time.Millisecond, readyTimeout); err != nil {
		return fmt.Errorf("the server does not go on: %w", err)
	}
	harness.Row("a new Tenant then, applied to Ready", "%d ms", time.Since(began).Milliseconds())
	return nil
}

// upOn runs everything on some of the cores. A process has those of the thread that starts it.
func upOn(ctx context.Context, at harness.Installation, cores int) (*harness.Tenantry, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, some unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return nil, fmt.Errorf("reading the cores of this process: %w", err)
	}
	for cpu := 0; some.Count() < min(cores, all.Count()); cpu++ {
		if all.IsSet(cpu) {
			some.Set(cpu)
		}
	}
	if err := unix.SchedSetaffinity(0, &some); err != nil {
		return nil, fmt.Errorf("choosing %d cores: %w", cores, err)
	}
	p, err := at.Up(ctx)
	return p, errors.Join(err, unix.SchedSetaffinity(0, &all))
}
