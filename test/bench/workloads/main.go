package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tenantry/tenantry/test/harness"
	"github.com/tenantry/tenantry/test/host"
)

// options are the flags.
type options struct {
	tenantry, hostPrograms                  string
	hostQPS                                 int
	pods, tenants, runs, workers            int
	lagPods, rate, greedy, greedyPods, idle int
	quietPods                               int
	settle, idleFor, kill, longest          time.Duration
	seed                                    uint64
	measured                                []string
}

// parts are what can be measured, in their order.
var parts = []struct {
	name    string
	measure func(*bench, context.Context) error
}{{"lag", (*bench).lag}, {"throughput", (*bench).throughput}, {"restart", (*bench).restart}, {"greedy", (*bench).besideGreedy}, {"stuck", (*bench).besideStuck}, {"idle", (*bench).besideIdle}}

func main() {
	host.RunIfCalled()
	harness.RunIfCalled(syncerPart, runSyncer)
	var o options
	flag.StringVar(&o.tenantry, "tenantry", "bin/tenantry", "Binary of this project.")
	flag.StringVar(&o.hostPrograms, "host", "bin/host", "Directory of kube-scheduler, kube-controller-manager, kwok and stages, as \"make bench-host\" makes it.")
	flag.IntVar(&o.hostQPS, "host-qps", 1000, "Requests a second that the host's scheduler and controller manager may send. With 0 they have no flags for it, and send 50 and 20.")
	flag.IntVar(&o.pods, "pods", 2000, "Pods of a turn.")
	flag.IntVar(&o.tenants, "tenants", 100, "Tenants, and namespaces of the host, that have them.")
	flag.IntVar(&o.runs, "runs", 3, "Number of runs, of which each has a turn in spaces and one directly on the host.")
	flag.IntVar(&o.workers, "workers", 32, "Pods created at once.")
	flag.IntVar(&o.lagPods, "lag-pods", 300, "Pods of which each one's way is measured.")
	flag.IntVar(&o.rate, "rate", 10, "Of them, pods created in a second.")
	flag.IntVar(&o.greedy, "greedy", 10, "Tenants that create pods as fast as they can, beside a quiet one.")
	flag.IntVar(&o.greedyPods, "greedy-pods", 200, "Pods of each of them.")
	flag.IntVar(&o.quietPods, "quiet-pods", 30, "Pods of the quiet tenant, each two seconds after the one before. The others create theirs for as long as these come.")
	flag.DurationVar(&o.longest, "longest", 0, "Fail if a pod of the quiet tenant takes longer than this, beside the others, from its creation until it is Running in its space. 0 is no bound.")
	flag.IntVar(&o.idle, "idle", 2000, "Idle tenants.")
	flag.DurationVar(&o.settle, "settle", 20*time.Second, "Time without requests before memory is measured.")
	flag.DurationVar(&o.idleFor, "idle-for", time.Minute, "Time for which a syncer is observed that has nothing to do.")
	flag.DurationVar(&o.kill, "kill", 0, "Kill the syncer at random moments for so long, while pods of all tenants come, change and go, and compare both sides, instead of measuring.")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "What kills and changes are derived from.")
	var names []string
	for _, part := range parts {
		names = append(names, part.name)
	}
	only := flag.String("only", strings.Join(names, ","), "What to measure, divided by commas.")
	flag.Parse()
	o.measured = strings.Split(*only, ",")
	harness.Main("workloads", func(ctx context.Context) error {
		for _, part := range o.measured {
			if !slices.Contains(names, part) {
				return fmt.Errorf("-only has %q, and can have %s", part, strings.Join(names, ", "))
			}
		}
		return harness.InTempDir("workloads", func(dir string) error {
			s, err := start(ctx, dir, o)
			if err != nil {
				return err
			}
			defer s.stop()
			return measure(ctx, s, o)
		})
	})
}

// bench has the places that are compared.
type bench struct {
	*system
	options
	spaces, direct []podNamespace
	// everywhere is the whole host.
	everywhere podNamespace
}

func measure(ctx context.Context, s *system, o options) error {
	load, _ := os.ReadFile("/proc/loadavg") // where there is none, nothing is said
	fmt.Printf("%d cores, %s, load %s; %d tenants, %d nodes, -host-qps %d.\n",
		runtime.NumCPU(), runtime.Version(), strings.Fields(string(load) + " ?")[0], o.tenants, nodes, o.hostQPS)
	b := &bench{system: s, options: o}
	var err error
	if b.everywhere, err = newPodNamespace(s.cluster.Config, ""); err != nil {
		return err
	}
	if b.spaces, err = s.newTenants(ctx, tenantPrefix, o.tenants); err != nil {
		return err
	}
	if o.kill > 0 {
		return b.survive(ctx)
	}
	if b.direct, err = s.newNamespaces(ctx, "direct", o.tenants); err != nil {
		return err
	}
	// Namespaces of the host, their policies and copies are made at the first pod of each; stock ones are there.
	if _, err := b.turn(ctx, "first", b.spaces, o.tenants); err != nil {
		return fmt.Errorf("warming up: %w", err)
	}
	if err := empty(ctx, b.spaces, b.everywhere); err != nil {
		return err
	}
	for _, part := range parts {
		if !slices.Contains(o.measured, part.name) {
			continue
		}
		if err := part.measure(b, ctx); err != nil {
			return fmt.Errorf("measuring %s: %w", part.name, err)
		}
	}
	return nil
}
