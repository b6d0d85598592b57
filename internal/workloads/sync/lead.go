package sync

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tenantry/tenantry/internal/election"
)

const leaseName = "tenantry-syncer"

// elected runs something while no other syncer does: one of the same etcd, if there may be several, and one
// of the same installation on the host, such as of an etcd that was restored beside the old one.
func (o *Options) elected(ctx context.Context, spaces, host kubernetes.Interface, installation string, run func(context.Context) error) error {
	onHost := func(ctx context.Context, _ *election.Term) error {
		return election.Run(ctx, election.Config{Client: host, Namespace: hostNamespaceOfOurs, Name: leaseName + "-" + installation},
			func(ctx context.Context, _ *election.Term) error { return run(ctx) })
	}
	if !o.LeaderElection {
		return onHost(ctx, nil)
	}
	return election.Run(ctx, election.Config{Client: spaces, Namespace: metav1.NamespaceSystem, Name: leaseName}, onHost)
}
