package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// Main runs the command name until it ends or is interrupted.
func Main(name string, run func(ctx context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// RunIfCalled runs a part of a program, with its arguments, and ends the process, if the program has called itself for
// that by CallSelf. It belongs to the beginning of main.
func RunIfCalled(part string, run func(ctx context.Context, args []string) error) {
	if args := strings.Fields(os.Getenv(partVariable + part)); len(args) > 0 {
		Main(part, func(ctx context.Context) error { return run(ctx, args) })
		os.Exit(0)
	}
}

const partVariable = "TENANTRY_TEST_PART_"

// CallSelf returns a command that runs a part of this program in a process of its own. No argument has spaces.
func CallSelf(ctx context.Context, part string, args ...string) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, program)
	command.Env = append(os.Environ(), partVariable+part+"="+strings.Join(args, " "))
	return command, nil
}

// InTempDir does something in a new directory, which is kept if that fails.
func InTempDir(name string, do func(dir string) error) error {
	dir, err := os.MkdirTemp("", "tenantry-"+name+"-")
	if err != nil {
		return err
	}
	if err := do(dir); err != nil {
		return fmt.Errorf("state and logs are in %s: %w", dir, err)
	}
	return os.RemoveAll(dir)
}

// Row prints a row of a table of two columns.
func Row(what, format string, args ...any) {
	fmt.Printf("| %s | %s |\n", what, fmt.Sprintf(format, args...))
}

// Each calls do with the numbers from first on that are less than end, some at a time, and
// returns how long each call took.
func Each(first, end, workers int, do func(i int) error) ([]time.Duration, error) {
	took := make([]time.Duration, end-first)
	var group errgroup.Group
	group.SetLimit(workers)
	for i := first; i < end; i++ {
		group.Go(func() error {
			began := time.Now()
			err := do(i)
			took[i-first] = time.Since(began)
			return err
		})
	}
	return took, group.Wait()
}

// Quantile returns the value below which a part of values are, zero if there are none.
func Quantile[T cmp.Ordered](values []T, part float64) (value T) {
	if sorted := slices.Sorted(slices.Values(values)); len(sorted) > 0 {
		value = sorted[int(part*float64(len(sorted)))]
	}
	return value
}

// Median returns the value in the middle.
func Median[T cmp.Ordered](values []T) T { return Quantile(values, 0.5) }

// Spread returns the value in the middle, and the lowest and the highest.
func Spread(values []float64) string {
	return fmt.Sprintf("%.2f (%.2f to %.2f)", Median(values), slices.Min(values), slices.Max(values))
}

// Until waits until something is so, and says what was missing at last.
func Until(ctx context.Context, timeout time.Duration, what string, is func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		last = is(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until %s: %w", what, errors.Join(err, last))
	}
	return nil
}

// Follow reports what a watch sees after a version, until ctx ends. It begins again where it was when it is closed.
func Follow(ctx context.Context, version string, begin cache.WatchFuncWithContext, report func(watch.Event)) error {
	events, err := watchtools.NewRetryWatcherWithContext(ctx, version, &cache.ListWatch{WatchFuncWithContext: begin})
	if err != nil {
		return err
	}
	go func() {
		for event := range events.ResultChan() {
			report(event)
		}
	}()
	return nil
}

// FreePort returns a port of this machine that nobody listens at.
func FreePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("looking for a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// ManifestsVariable names a directory whose manifests stand in the place of those of config/workloads: make mutants
// sees by that whether a test notices what is taken away there.
const ManifestsVariable = "TENANTRY_TEST_WORKLOADS"

// WorkloadsFiles returns the manifests of config/workloads, in a directory that has those.
func WorkloadsFiles(dir string) (all []string) {
	dir = cmp.Or(os.Getenv(ManifestsVariable), dir)
	for _, name := range []string{"namespace", "serviceaccounts", "roles", "policy", "priorityclass", "dns"} {
		all = append(all, filepath.Join(dir, name+".yaml"))
	}
	return all
}
