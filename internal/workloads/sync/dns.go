package sync

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	netutils "k8s.io/utils/net"

	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/internal/workloads/canary"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

const (
	// DefaultDNSService is the Service of config/workloads.
	DefaultDNSService = names.Platform + "/dns"
	// reasonNoDNS is the reason of the event of a pod that finds no names of its space.
	reasonNoDNS = "MissingClusterDNS"
	noDNS       = "the host cluster has no DNS for spaces, so this pod finds no Services by their names, also later: whoever administers it is to apply config/workloads there. " +
		"Pods that begin after that have it"
	hiddenDNS = "the network of the host cluster hides the addresses of pods on the way to DNS, so it cannot be known which tenant asks, and this pod finds no Services by their names, also later: " +
		"whoever administers it is to have the network plugin, and kube-proxy, leave the addresses of pods as they are (no masquerading between pods and Services)"
)

// dnsService follows the Service of the host at which pods of spaces ask for names.
type dnsService struct {
	key      string
	informer cache.SharedIndexInformer
	// hidden is whether a canary has seen that the host hides the addresses of pods from it: then it answers nobody.
	hidden atomic.Bool
}

// newDNSService returns it for a NAMESPACE/NAME.
func newDNSService(client kubernetes.Interface, key string) *dnsService {
	namespace, name, _ := strings.Cut(key, "/")
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		}))
	return &dnsService{key: key, informer: factory.Core().V1().Services().Informer()}
}

// run runs the informer until ctx ends, and returns when it knows whether there is the Service. It reports whether it
// does.
func (d *dnsService) run(ctx context.Context) bool {
	return d.key == "" || objects.Follow(ctx, d.informer)
}

// note notes whether a canary has seen that the host hides addresses.
func (d *dnsService) note(ctx context.Context, hidden bool) {
	if before := d.hidden.Swap(hidden); hidden && !before {
		klog.FromContext(ctx).Error(canary.ErrHidden, "Pods that begin have no DNS of their space", "why", hiddenDNS)
	}
}

// canaryAddress returns where a canary is to ask, empty if there is no DNS.
func (d *dnsService) canaryAddress() string {
	if all := d.known(); len(all) > 0 {
		return all[0]
	}
	return ""
}

// addresses returns where pods that begin now are to ask, nothing if they are not. By UDP over IPv6 anybody may ask in
// another's name, and is not answered: pods ask there only where there is nothing else.
func (d *dnsService) addresses() []string {
	if d.hidden.Load() {
		return nil
	}
	all := d.known()
	if v4 := slices.DeleteFunc(slices.Clone(all), netutils.IsIPv6String); len(v4) > 0 {
		return v4
	}
	return all
}

// known returns the addresses of the Service, none if it is not there.
func (d *dnsService) known() []string {
	found, err := cached[corev1.Service](d.informer, d.key)
	if err != nil || found == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(found.Spec.ClusterIPs), func(address string) bool {
		return address == corev1.ClusterIPNone || address == ""
	})
}

// translation returns how pods that begin now are translated.
func (s *syncer) translation() translate.Options {
	o := s.options
	o.DNS = s.dns.addresses()
	return o
}

// recordMissingDNS says in the space that a pod which has just begun finds no names of it.
func (s *syncer) recordMissingDNS(ctx context.Context, pod, host *corev1.Pod) error {
	if !translate.AsksForSpaces(&pod.Spec) || host.Spec.DNSPolicy != corev1.DNSDefault {
		return nil
	}
	why := noDNS
	if s.dns.hidden.Load() {
		why = hiddenDNS
	}
	return s.recordEvent(ctx, pod, reasonNoDNS, why)
}
