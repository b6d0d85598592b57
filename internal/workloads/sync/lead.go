package sync

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const (
	leaseName     = "tenantry-syncer"
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

var errLostLease = errors.New("the lease of the syncer was lost")

// lead runs something while a Lease is held.
func lead(ctx context.Context, client kubernetes.Interface, namespace, name string, run func(context.Context) error) error {
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, namespace, name, client.CoreV1(), client.CoordinationV1(),
		resourcelock.ResourceLockConfig{Identity: string(uuid.NewUUID())})
	if err != nil {
		return fmt.Errorf("creating the lease %s/%s: %w", namespace, name, err)
	}
	leading, stop := context.WithCancel(ctx)
	defer stop()
	result, began := make(chan error, 1), make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, Name: name, ReleaseOnCancel: true,
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				close(began)
				defer stop()
				result <- run(ctx)
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("electing a syncer: %w", err)
	}
	elector.Run(leading)
	stop()
	err = nil
	select {
	case <-began:
		err = <-result // nothing of it runs beside the next one
	default:
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil || errors.Is(err, context.Canceled):
		return errLostLease
	default:
		return err
	}
}

// elected runs something while no other syncer does: one of the same etcd, if there may be several, and one
// of the same installation on the host, such as of an etcd that was restored beside the old one.
func (o *Options) elected(ctx context.Context, spaces, host kubernetes.Interface, installation string, run func(context.Context) error) error {
	onHost := func(ctx context.Context) error {
		return lead(ctx, host, hostNamespaceOfOurs, leaseName+"-"+installation, run)
	}
	if !o.LeaderElection {
		return onHost(ctx)
	}
	return lead(ctx, spaces, metav1.NamespaceSystem, leaseName, onHost)
}
