package kubecontrollers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/server/authentication"
	"github.com/tenantry/tenantry/internal/signing"
)

// Server is what the controllers need of the API server whose objects they look after.
type Server interface {
	// LoopbackConfig is that of a system administrator and names the server's plain URL.
	LoopbackConfig() *rest.Config
	// Informers are those of spaces.NewInformerFactory. Run starts what the
	// controllers add to them.
	Informers() informers.SharedInformerFactory
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

	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// errLostLease means that another replica runs the controllers now, or that the
// lease could not be renewed in time. The process should end and start again.
var errLostLease = errors.New("the lease of the controllers was lost")

// Run runs the controllers for all spaces of a server until ctx ends. With elected, it
// waits for the lease tenantry-controllers in kube-system of the system space, by which
// several replicas agree on one that does.
func Run(ctx context.Context, s Server, elected bool) error {
	if !elected {
		return run(ctx, s)
	}
	client, err := kubernetes.NewForConfig(s.LoopbackConfig())
	if err != nil {
		return fmt.Errorf("creating the client of the lease: %w", err)
	}
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, leaseNamespace, leaseName,
		client.CoreV1(), client.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: string(uuid.NewUUID())})
	if err != nil {
		return fmt.Errorf("creating the lease: %w", err)
	}
	result := make(chan error, 1)
	// A replica whose controllers do not start must not keep the lease.
	leading, stop := context.WithCancel(ctx)
	defer stop()
	leaderelection.RunOrDie(leading, leaderelection.LeaderElectionConfig{
		Lock:            lock,
		Name:            leaseName,
		ReleaseOnCancel: true,
		LeaseDuration:   leaseDuration,
		RenewDeadline:   renewDeadline,
		RetryPeriod:     retryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				result <- run(ctx, s)
				stop()
			},
			OnStoppedLeading: func() {},
		},
	})
	select {
	case err := <-result:
		if err != nil {
			return err
		}
	default: // never led, or still stopping
	}
	if ctx.Err() == nil {
		return errLostLease
	}
	return nil
}

// run builds all controllers, so that their informers are known, starts the
// informers, and runs the controllers until ctx ends.
func run(ctx context.Context, s Server) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	e, err := newShared(s)
	if err != nil {
		return err
	}
	runners := make([]runner, len(controllers))
	for i, c := range controllers {
		own, err := e.environment(c)
		if err != nil {
			return fmt.Errorf("preparing the %s controller: %w", c.name, err)
		}
		runners[i], err = c.build(klog.NewContext(ctx, klog.FromContext(ctx).WithName(c.name)), own)
		if ctx.Err() != nil { // and so does the server, which answers this one no more
			return nil
		}
		if err != nil {
			return fmt.Errorf("creating the %s controller: %w", c.name, err)
		}
	}
	e.start(ctx)
	var running sync.WaitGroup
	for i, c := range controllers {
		running.Go(func() { runners[i].Run(ctx, c.workers) })
	}
	running.Wait()
	return nil
}
