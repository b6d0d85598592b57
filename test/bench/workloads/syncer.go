package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	_ "net/http/pprof" // at the address of the syncer's process
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/transport"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/tenantry/tenantry/internal/process/memory"
	"github.com/tenantry/tenantry/internal/process/signal"
	"github.com/tenantry/tenantry/internal/roundtrip"
	workloads "github.com/tenantry/tenantry/internal/workloads/sync"
	"github.com/tenantry/tenantry/test/harness"
)

// syncerPart is the process of the syncer: "tenantry syncer" counts no requests.
const syncerPart = "SYNCER"

// runSyncer runs it, with the address at which it tells of itself, and the kubeconfigs of spaces and host.
func runSyncer(ctx context.Context, args []string) error {
	address, spaces, host := args[0], args[1], args[2]
	memory.Keep(ctx, 0)
	sent := &requests{counts: map[string]int{}}
	options := workloads.Options{
		LeaderElection: true, NetworkIsolation: string(workloads.Unenforced), DNSService: workloads.DefaultDNSService,
		OrphanLimit: workloads.DefaultOrphanLimit, MaxNamespaces: workloads.DefaultMaxNamespaces,
	}
	for side, of := range map[string]struct {
		file   string
		config **rest.Config
	}{"spaces": {spaces, &options.Spaces}, "host": {host, &options.Host}} {
		config, err := clientcmd.BuildConfigFromFlags("", of.file)
		if err != nil {
			return err
		}
		config.Wrap(sent.of(side))
		*of.config = config
	}
	http.Handle("/metrics", legacyregistry.Handler())
	http.HandleFunc("/requests", sent.serve)
	go func() { _ = http.ListenAndServe(address, nil) }() // without it, nobody starts to measure
	return workloads.Run(ctx, options)
}

// requests counts what has been sent, by side, verb and resource.
type requests struct {
	mu     sync.Mutex
	counts map[string]int
}

func (r *requests) of(side string) transport.WrapperFunc {
	resolver := request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	return func(next http.RoundTripper) http.RoundTripper {
		return roundtrip.Func(func(req *http.Request) (*http.Response, error) {
			plain := req.Clone(req.Context())
			if at := strings.Index(plain.URL.Path, "/api"); at > 0 { // in a space
				plain.URL.Path = plain.URL.Path[at:]
			}
			what := side + " " + req.Method
			if info, err := resolver.NewRequestInfo(plain); err == nil && info.IsResourceRequest {
				what = side + " " + info.Verb + " " + strings.TrimSuffix(info.Resource+"/"+info.Subresource, "/")
			}
			r.mu.Lock()
			r.counts[what]++
			r.mu.Unlock()
			return next.RoundTrip(req)
		})
	}
}

func (r *requests) serve(w http.ResponseWriter, _ *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = json.NewEncoder(w).Encode(r.counts) // whoever asked notices
}

// syncer is a running one.
type syncer struct {
	command *exec.Cmd
	config  *rest.Config
}

// startSyncer starts one, and returns when it can be asked.
func startSyncer(ctx context.Context, dir, spaces, host string) (*syncer, error) {
	port, err := harness.FreePort()
	if err != nil {
		return nil, err
	}
	address := "127.0.0.1:" + strconv.Itoa(port)
	log, err := os.OpenFile(filepath.Join(dir, "syncer.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s := &syncer{config: &rest.Config{Host: "http://" + address}}
	if s.command, err = harness.CallSelf(ctx, syncerPart, address, spaces, host); err != nil {
		return nil, err
	}
	s.command.Stdout, s.command.Stderr = log, log
	if err := s.command.Start(); err != nil {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "workloads: the syncer has pprof at %s\n", s.config.Host)
	return s, harness.Until(ctx, startTimeout, "the syncer tells of itself, see "+log.Name(), func(ctx context.Context) error {
		_, err := s.sent(ctx)
		return err
	})
}

// sent returns how many requests the syncer has sent, by side, verb and resource, without those of its leases.
func (s *syncer) sent(ctx context.Context) (map[string]int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.config.Host+"/requests", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	counts := map[string]int{}
	err = json.NewDecoder(response.Body).Decode(&counts)
	maps.DeleteFunc(counts, func(what string, _ int) bool { return strings.HasSuffix(what, " leases") })
	return counts, err
}

// awaitHost waits until it works, which it does when no other one does.
func (s *syncer) awaitHost(ctx context.Context) error {
	return harness.Until(ctx, startTimeout, "the syncer reads the host", func(ctx context.Context) error {
		sent, err := s.sent(ctx)
		if err == nil && sent["host watch pods"] == 0 {
			err = fmt.Errorf("it does not watch pods")
		}
		return err
	})
}

func (s *syncer) cpu() (time.Duration, error) { return harness.CPU(s.command) }

func (s *syncer) footprint(ctx context.Context) (harness.Footprint, error) {
	return harness.MeasureFootprint(ctx, s.config, s.command.Process.Pid)
}

// since returns what was sent after before.
func since(before, after map[string]int) map[string]int {
	sent := map[string]int{}
	for what, count := range after {
		if n := count - before[what]; n > 0 {
			sent[what] = n
		}
	}
	return sent
}

const (
	// quietFor is the time in which a syncer that has nothing to do takes less than quietShare of a core: it renews
	// leases, which is a step of 100 ms each time on a slow machine.
	quietFor   = 3 * time.Second
	quietShare = 0.03
	step       = 100 * time.Millisecond
)

// waitIdle waits until the syncer has nothing to do, and returns when it last had.
func (s *syncer) waitIdle(ctx context.Context) (time.Time, error) {
	type reading struct {
		at  time.Time
		cpu time.Duration
	}
	var last []reading // of quietFor
	for deadline := time.Now().Add(runTimeout); time.Now().Before(deadline); {
		cpu, err := s.cpu()
		if err != nil {
			return time.Time{}, err
		}
		now := reading{time.Now(), cpu}
		last = append(last, now)
		if first := last[0]; now.at.Sub(first.at) >= quietFor {
			if (now.cpu - first.cpu).Seconds() < quietShare*now.at.Sub(first.at).Seconds() {
				return first.at, nil
			}
			last = last[1:]
		}
		if err := signal.Pause(ctx, step); err != nil {
			return time.Time{}, err
		}
	}
	return time.Time{}, fmt.Errorf("the syncer has not come to rest within %s", runTimeout)
}
