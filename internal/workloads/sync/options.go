package sync

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/util/parsers"

	"github.com/tenantry/tenantry/internal/spaces"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/network"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// Isolation says how tenants' pods are kept apart on the network of the host.
type Isolation string

const (
	// Enforced runs pods only while the host enforces network policies, which is tested.
	Enforced Isolation = "Enforced"
	// Unenforced runs pods although nobody knows whether anything keeps tenants apart on the network.
	Unenforced Isolation = "Unenforced"
)

// defaultWorkers is how many objects are worked on at once.
const defaultWorkers = 32

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
	// NetworkIsolation is an Isolation. Empty is Enforced.
	NetworkIsolation string
	// Image is Tenantry's on the host, for the pods by which it is tested whether that enforces network policies.
	Image string
	// ClusterCIDRs are all ranges of addresses of the host's pods, Services and nodes, and of whatever else is no outside
	// for pods of spaces. If there are none, all private ranges are. What the host tells of itself is added.
	ClusterCIDRs []string
	// AllowCIDRs are ranges of addresses that all pods reach, whatever policies say.
	AllowCIDRs []string
	// APIAddress is the IP address and port by which pods reach the API of their spaces. The serving certificate has the
	// address. If it is empty, pods do not reach the API.
	APIAddress string
	// TestPeriod is how often it is tested whether the host enforces network policies. Zero is defaultTestPeriod.
	TestPeriod time.Duration
	// DNSService is the NAMESPACE/NAME of the Service of the host at which pods of spaces ask for names. If it is empty,
	// or not there, they ask the name servers of their nodes.
	DNSService string
	// TrustLocalImages leaves pull policies as they are, see translate.Options.
	TrustLocalImages bool
	// OrphanLimit is how many objects may go, however few there are, without anybody having been seen to
	// delete what they are made of. Beyond it, it is a tenth of all.
	OrphanLimit int
	// MaxNamespaces is how many namespaces of the host each tenant has at most, 1 or more.
	MaxNamespaces int
	// Workers is how many objects are worked on at once. Zero is defaultWorkers.
	Workers int
	// HealthProbeBindAddress is where /healthz and /readyz are. Empty, or 0, is nowhere.
	HealthProbeBindAddress string
	// LeaderElection has several replicas elect one, by a Lease in the namespace kube-system of the
	// system space. By a Lease on the host, there is one for the host in any case.
	LeaderElection bool
}

// DefaultMaxNamespaces is how many namespaces of a host each tenant has at most.
const DefaultMaxNamespaces = 200

// AddFlags adds the flags that say how pods run on the host.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.NetworkIsolation, "network-isolation", o.NetworkIsolation,
		"How tenants' pods are kept apart on the network of the host cluster, by network policies: Enforced, which is the default, runs pods only if two pods of --workloads-image "+
			"find that the host enforces these. Unenforced runs them in any case, by which whoever runs it accepts that every pod may reach every other tenant's.")
	fs.StringVar(&o.Image, "workloads-image", o.Image,
		"Image of this version of Tenantry on the host cluster, for the pods by which it is tested whether that enforces network policies.")
	fs.StringSliceVar(&o.ClusterCIDRs, "network-isolation-cluster-cidrs", o.ClusterCIDRs,
		"Ranges of addresses of the host cluster's pods, Services and nodes, and of whatever else counts as inside the cluster for pods of spaces. If empty, these are all private ranges. "+
			"What the host's nodes and ServiceCIDRs tell is added, and link-local addresses.")
	fs.StringSliceVar(&o.AllowCIDRs, "network-isolation-allow-cidrs", o.AllowCIDRs,
		"Ranges of addresses that all pods of spaces reach, whatever policies say, such as those of Tenantry's servers and of name servers.")
	fs.StringVar(&o.DNSService, "dns-service", DefaultDNSService,
		"NAMESPACE/NAME of the Service of \"tenantry dns\" on the host cluster, at whose address pods of spaces ask for names. If it is empty, or not there when a pod begins, the pod asks the "+
			"name servers of its node, which know no names of spaces.")
	fs.StringVar(&o.APIAddress, "workloads-api-address", o.APIAddress,
		"IP address and port by which pods on the host cluster reach the API of their spaces, such as 192.0.2.7:6443: that of the servers, or of something before them. "+
			"Pods have it in KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT, and network policies let them reach it. The serving certificate must have the address. "+
			"If empty, pods do not reach the API.")
	fs.BoolVar(&o.TrustLocalImages, "trust-local-images", o.TrustLocalImages,
		"Leave the pull policies of images as pods have them. For hosts whose kubelets verify that a pod may pull an image that is on the node already "+
			"(imagePullCredentialsVerificationPolicy). Otherwise images are always pulled.")
	fs.IntVar(&o.MaxNamespaces, "max-namespaces-per-tenant", DefaultMaxNamespaces,
		"How many namespaces each tenant has on the host cluster at most. There is one for each namespace of its space that has pods, Services or claims, and it stays for an hour after the last one.")
	fs.IntVar(&o.OrphanLimit, "orphan-limit", DefaultOrphanLimit,
		"How many objects may be deleted whose counterpart is gone without having been seen to be deleted, within ten minutes. If it would be more than that, and more than a "+
			"tenth of all, nothing more of them is deleted: it is probably another etcd or host, or an old backup. Of one tenant it is half as many, and then nothing more of that tenant is deleted. "+
			"It holds as well for pods of spaces that the host does not have any more, if their namespace there is missing or another one.")
}

// fieldsOfFlags has the fields of spec.workloads by which a ControlPlane says what are flags elsewhere.
var fieldsOfFlags = strings.NewReplacer(
	"--network-isolation=Unenforced", "networkIsolation.mode: Unenforced in spec.workloads of the ControlPlane",
	"--network-isolation-cluster-cidrs", "networkIsolation.clusterCIDRs in spec.workloads of the ControlPlane",
	"--orphan-limit", "orphanLimit in spec.workloads of the ControlPlane",
	"--workloads-image", "the operator's image",
	" (--max-namespaces-per-tenant)", "",
)

// wayOut returns a message with what its reader can set: the syncer of a ControlPlane has flags from the operator
// alone.
func (s *syncer) wayOut(message string) string { return wayOut(s.owner, message) }

func wayOut(owner names.Owner, message string) string {
	if owner.ControlPlane == "" {
		return message
	}
	return fieldsOfFlags.Replace(message)
}

// isolation returns how tenants are kept apart.
func (o *Options) isolation() Isolation { return cmp.Or(Isolation(o.NetworkIsolation), Enforced) }

// errNoImage is that nothing can be tested.
var errNoImage = errors.New("--workloads-image is missing: pods of it test whether the host cluster keeps tenants' pods apart on its network. " +
	"Name the image of this version of Tenantry there, or accept with --network-isolation=Unenforced that nothing is tested")

// Validate reports what is wrong with the flags.
func (o *Options) Validate() error {
	switch isolation := o.isolation(); {
	case isolation != Enforced && isolation != Unenforced:
		return fmt.Errorf("--network-isolation is %q, and can be Enforced or Unenforced", o.NetworkIsolation)
	case isolation == Enforced && o.Image == "":
		return errNoImage
	}
	if o.Image != "" {
		if _, _, _, err := parsers.ParseImageName(o.Image); err != nil {
			return fmt.Errorf("--workloads-image is %q, and must be the name of an image, such as registry.example.com/tenantry:v1: %w", o.Image, err)
		}
	}
	for flag, ranges := range map[string][]string{"cluster": o.ClusterCIDRs, "allow": o.AllowCIDRs} {
		parsed, err := network.Parse(ranges)
		if err != nil {
			return fmt.Errorf("--network-isolation-%s-cidrs: %w", flag, err)
		}
		if i := slices.IndexFunc(parsed, func(p netip.Prefix) bool { return p.Bits() == 0 }); i >= 0 && flag == "allow" {
			return fmt.Errorf("--network-isolation-allow-cidrs: %s is everything, with nodes, the host's own pods and the metadata of clouds: name the networks that all pods are to reach", parsed[i])
		}
	}
	if namespace, name, _ := strings.Cut(o.DNSService, "/"); o.DNSService != "" && len(slices.Concat(validation.IsDNS1123Label(namespace), validation.IsDNS1035Label(name))) > 0 {
		return fmt.Errorf("--dns-service is %q, and must be NAMESPACE/NAME, such as %s, or empty", o.DNSService, DefaultDNSService)
	}
	if _, err := translate.ParseAPI(o.APIAddress); err != nil {
		return fmt.Errorf("--workloads-api-address: %w", err)
	}
	if o.MaxNamespaces < 1 {
		return fmt.Errorf("--max-namespaces-per-tenant is %d, and must be positive", o.MaxNamespaces)
	}
	if o.OrphanLimit < 0 {
		return fmt.Errorf("--orphan-limit is %d, and must not be negative", o.OrphanLimit)
	}
	return nil
}
