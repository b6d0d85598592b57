package sync

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

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
)

// dnsService follows the Service of the host at which pods of spaces ask for names.
type dnsService struct {
	key      string
	informer cache.SharedIndexInformer
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

// run runs the informer until ctx ends, and returns when it knows whether there is the Service. It reports whether it does.
func (d *dnsService) run(ctx context.Context) bool {
	if d.key == "" {
		return true
	}
	go d.informer.RunWithContext(ctx)
	return cache.WaitForCacheSync(ctx.Done(), d.informer.HasSynced)
}

// addresses returns those of the Service, none if it is not there.
func (d *dnsService) addresses() []string {
	found, ok, err := d.informer.GetIndexer().GetByKey(d.key)
	if err != nil || !ok {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(found.(*corev1.Service).Spec.ClusterIPs), func(address string) bool {
		return address == corev1.ClusterIPNone || address == ""
	})
}

// translation returns how pods that begin now are translated.
func (s *syncer) translation() translate.Options {
	o := s.options
	o.DNS = s.dns.addresses()
	return o
}

// tellDNS says in the space that a pod which has just begun finds no names of it.
func (s *syncer) tellDNS(ctx context.Context, pod, host *corev1.Pod) error {
	if !translate.AsksForSpaces(&pod.Spec) || host.Spec.DNSPolicy != corev1.DNSDefault {
		return nil
	}
	return s.tellAbout(ctx, corev1.ObjectReference{
		Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
	}, reasonNoDNS, noDNS)
}
