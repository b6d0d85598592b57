package sync

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/spaces"
)

// Isolation says how tenants' pods are kept apart on the network of the host.
type Isolation string

// Unenforced runs pods although nothing keeps tenants apart on the network.
const Unenforced Isolation = "Unenforced"

// DefaultWorkers is how many objects are worked on at once.
const DefaultWorkers = 32

// Options configure the syncer.
type Options struct {
	// Spaces is the configuration of a system administrator of the control plane, with its plain URL.
	Spaces *rest.Config
	// Informers are those of spaces.NewInformerFactory, if there are some already. Run has a scope of
	// them.
	Informers *spaces.Factory
	// Host is the configuration of the syncer's ServiceAccount on the host.
	Host *rest.Config
	// Connects is whether this process connects to pods as well, with the same ServiceAccount.
	Connects bool
	// NetworkIsolation must be Unenforced: this version cannot keep tenants apart on the network.
	NetworkIsolation string
	// TrustLocalImages leaves pull policies as they are, see translate.Options.
	TrustLocalImages bool
	// OrphanLimit is how many objects may go, however few there are, without anybody having been seen to
	// delete what they are made of. Beyond it, it is a tenth of all.
	OrphanLimit int
	// Workers is how many objects are worked on at once. Zero is DefaultWorkers.
	Workers int
	// LeaderElection has several replicas elect one, by a Lease in the namespace kube-system of the
	// system space. By a Lease on the host, there is one for the host in any case.
	LeaderElection bool
}

// AddFlags adds the flags that say how pods run on the host.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.NetworkIsolation, "network-isolation", o.NetworkIsolation,
		"How tenants' pods are kept apart on the network of the host cluster. This version cannot do that yet: it runs pods only if this is Unenforced, "+
			"by which whoever runs it accepts that every pod reaches every other tenant's.")
	fs.BoolVar(&o.TrustLocalImages, "trust-local-images", o.TrustLocalImages,
		"Leave the pull policies of images as pods have them. For hosts whose kubelets verify that a pod may pull an image that is on the node already "+
			"(imagePullCredentialsVerificationPolicy). Otherwise images are always pulled.")
	fs.IntVar(&o.OrphanLimit, "orphan-limit", DefaultOrphanLimit,
		"How many objects may be deleted whose counterpart is gone without having been seen to be deleted, within ten minutes. If it would be more than that, and more than a "+
			"tenth of all, nothing more of them is deleted: it is probably another etcd or host, or an old backup.")
}

// ErrNotIsolated is why no pods run where nothing keeps tenants apart on the network.
var ErrNotIsolated = errors.New("tenants' pods would not be kept apart on the network of the host cluster, which this version cannot do yet: " +
	"run no pods, without --host-kubeconfig, or accept it with --network-isolation=Unenforced")

// Validate reports what is wrong with the flags.
func (o *Options) Validate() error {
	switch Isolation(o.NetworkIsolation) {
	case Unenforced:
	case "":
		return ErrNotIsolated
	default:
		return fmt.Errorf("--network-isolation is %q, and can be Unenforced alone", o.NetworkIsolation)
	}
	if o.OrphanLimit < 0 {
		return fmt.Errorf("--orphan-limit is %d, and must not be negative", o.OrphanLimit)
	}
	return nil
}
