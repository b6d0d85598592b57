package sync

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/internal/election"
)

const leaseName = "tenantry-syncer"

// elected runs something while no other syncer does: one of the same etcd, if there may be several, and one of the same
// installation on the host, such as of an etcd that was restored beside the old one. A syncer that was killed has held
// both leases, which are over at the same time.
func (o *Options) elected(ctx context.Context, s *syncer, run func(context.Context) error) error {
	namespace, name := s.owner.Lease(s.installation)
	ofHost := election.Config{Client: s.host, Namespace: namespace, Name: name}
	onHost := func(ctx context.Context) error {
		return election.Run(ctx, ofHost, func(ctx context.Context, _ *election.Term) error { return run(ctx) })
	}
	if !o.LeaderElection {
		return onHost(ctx)
	}
	inner, end := context.WithCancel(ctx)
	defer end()
	first, result := make(chan struct{}), make(chan error, 1)
	ofHost.From = first
	go func() { result <- onHost(inner) }()
	return election.Run(ctx, election.Config{Client: s.spaces, Namespace: metav1.NamespaceSystem, Name: leaseName}, func(ctx context.Context, _ *election.Term) error {
		defer context.AfterFunc(ctx, end)()
		close(first)
		return <-result
	})
}
