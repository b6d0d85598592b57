package kubecontrollers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/election"
	"github.com/tenantry/tenantry/internal/process/signal"
	"github.com/tenantry/tenantry/internal/server/authentication"
	"github.com/tenantry/tenantry/internal/signing"
	"github.com/tenantry/tenantry/internal/spaces"
)

// Server is what the controllers need of the API server whose objects they look after.
type Server interface {
	// LoopbackConfig is that of a system administrator and names the server's plain URL.
	LoopbackConfig() *rest.Config
	// Informers are those of all spaces. The controllers have a scope of them.
	Informers() *spaces.Factory
	// RootCA is the PEM bundle published as config map kube-root-ca.crt in every
	// namespace.
	RootCA() []byte
	// LegacyTokens makes the tokens in secrets of service accounts, which it gets
	// flattened. Nil makes none.
	LegacyTokens() *authentication.LegacyTokens
	// Signing is the authority that signs CertificateSigningRequests. Without files,
	// none is signed.
	Signing() signing.Config
}

const (
	leaseNamespace = "kube-system"
	leaseName      = "tenantry-controllers"
	// startPeriod is after what time controllers that did not start are tried again.
	startPeriod = 2 * time.Second
)

// RunElected runs the controllers for all spaces of a server until ctx ends, while this process has the lease
// tenantry-controllers in kube-system of the system space, by which several replicas agree on one that does. When
// the lease is lost, or a controller does not start, the controllers end, and new ones start when this process gets it
// again: the server goes on. The error is one of the client.
func RunElected(ctx context.Context, s Server, timing election.Timing) error {
	client, err := kubernetes.NewForConfig(s.LoopbackConfig())
	if err != nil {
		return fmt.Errorf("creating the client of the lease: %w", err)
	}
	lease := election.Config{Client: client, Namespace: leaseNamespace, Name: leaseName, Identity: election.NewIdentity(), Timing: timing}
	for {
		err := election.Run(ctx, lease, func(ctx context.Context, term *election.Term) error { return run(ctx, s, term.Fence) })
		if ctx.Err() != nil {
			return nil
		}
		klog.ErrorS(err, "The controllers of all spaces have ended; they start again when this process gets the lease", "lease", klog.KRef(leaseNamespace, leaseName))
		if !errors.Is(err, election.ErrLost) { // another process may be first
			_ = signal.Pause(ctx, cmp.Or(timing.RetryPeriod, startPeriod))
		}
	}
}

// Run runs the controllers for all spaces of a server, which has no other replica, until ctx ends.
func Run(ctx context.Context, s Server) error { return run(ctx, s, nil) }

// run builds all controllers, so that their informers are known, starts the
// informers, and runs the controllers until ctx ends. Nothing of it is left then. All requests pass through fence, if
// there is one.
func run(ctx context.Context, s Server, fence func(http.RoundTripper) http.RoundTripper) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	views := s.Informers().Scope()
	defer views.End()
	e, err := newShared(s, views, fence)
	if err != nil {
		return err
	}
	runners, err := e.build(ctx)
	if err != nil || ctx.Err() != nil {
		cancel() // those that were built have goroutines, which end when they run
	}
	e.start(ctx)
	var running sync.WaitGroup
	for i, runner := range runners {
		running.Go(func() { runner.Run(ctx, controllers[i].workers) })
	}
	running.Wait()
	return err
}

// build builds the controllers, up to the first that fails.
func (e *shared) build(ctx context.Context) ([]runner, error) {
	var runners []runner
	for _, c := range controllers {
		own, err := e.environment(c)
		if err != nil {
			return runners, fmt.Errorf("preparing the %s controller: %w", c.name, err)
		}
		built, err := c.build(klog.NewContext(ctx, klog.FromContext(ctx).WithName(c.name)), own)
		switch {
		case err == nil:
			runners = append(runners, built)
		case ctx.Err() != nil: // and so does the server, which answers this one no more
			return runners, nil
		default:
			return runners, fmt.Errorf("creating the %s controller: %w", c.name, err)
		}
	}
	return runners, nil
}
