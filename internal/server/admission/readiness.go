package admission

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/server/healthz"
)

// Readiness reports which plugins have synced their informers. A plugin that has
// not refuses requests after ten seconds, so a server is not ready until all have.
type Readiness struct {
	mu      sync.Mutex
	plugins map[string]*awaited
}

// awaited are the instances of a plugin that may wait for informers.
type awaited struct {
	instances []waiter
	ready     atomic.Bool
}

// waiter is implemented by upstream's admission.Handler.
type waiter interface {
	// WaitForReady waits for ten seconds at most.
	WaitForReady() bool
}

// noting returns a decorator that registers the plugin and then calls inner.
func (r *Readiness) noting(inner admission.DecoratorFunc) admission.DecoratorFunc {
	return func(p admission.Interface, name string) admission.Interface {
		instances := []admission.Interface{p}
		if sampled, ok := p.(interface{ sample() admission.Interface }); ok {
			instances = append(instances, sampled.sample())
		}
		r.add(name, instances...)
		return inner(p, name)
	}
}

func (r *Readiness) add(name string, instances ...admission.Interface) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, instance := range instances {
		w, ok := instance.(waiter)
		if !ok {
			continue
		}
		if r.plugins[name] == nil {
			r.plugins[name] = &awaited{}
		}
		r.plugins[name].instances = append(r.plugins[name].instances, w)
	}
}

var errReading = errors.New("has not read all it decides by")

// Checks returns one check for each plugin, admission/NAME, which fails until the
// plugin is ready. It is called when all plugins have been built.
func (r *Readiness) Checks() []healthz.HealthChecker {
	r.mu.Lock()
	defer r.mu.Unlock()
	var checks []healthz.HealthChecker
	for _, name := range slices.Sorted(maps.Keys(r.plugins)) {
		p := r.plugins[name]
		checks = append(checks, healthz.NamedCheck("admission/"+name, func(*http.Request) error {
			if !p.ready.Load() {
				return errReading
			}
			return nil
		}))
	}
	return checks
}

// Run tracks which plugins are ready, and returns when all are or ctx ends.
func (r *Readiness) Run(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var waiting sync.WaitGroup
	for _, p := range r.plugins {
		waiting.Go(func() { p.await(ctx) })
	}
	waiting.Wait()
}

func (p *awaited) await(ctx context.Context) {
	for _, instance := range p.instances {
		for !instance.WaitForReady() {
			if ctx.Err() != nil {
				return
			}
		}
	}
	p.ready.Store(true)
}
