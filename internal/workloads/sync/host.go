package sync

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

const (
	// bySource indexes the host's objects by what they are made of.
	bySource = "source"
	// byTenant indexes the host's namespaces by their tenants.
	byTenant = "tenant"
	// byService indexes the host's slices by their Services.
	byService = "service"
)

// hostCaches are what the syncer knows of the host: what has the label of the installation, and of namespaces those of
// the owner. Others can put any marks on objects in namespaces of their own: what a cache has counts only if ours says
// so.
type hostCaches struct {
	pods, services, slices, claims, namespaces, policies, budgets, ingresses cache.SharedIndexInformer
	// routes runs where the host has HTTPRoutes, see routes.
	routes cache.SharedIndexInformer
}

func newHostCaches(client kubernetes.Interface, routes cache.SharedIndexInformer, installation string, owner names.Owner) (*hostCaches, error) {
	of := func(selector string) informers.SharedInformerFactory {
		return informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(slim),
			informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = selector }))
	}
	marked := labels.Set{names.InstallationLabel: installation}.String()
	factory := of(marked)
	core := factory.Core().V1()
	h := &hostCaches{pods: core.Pods().Informer(), services: core.Services().Informer(), slices: factory.Discovery().V1().EndpointSlices().Informer(), claims: core.PersistentVolumeClaims().Informer(),
		namespaces: of(marked + "," + metav1.FormatLabelSelector(owner.Selector())).Core().V1().Namespaces().Informer(),
		policies:   factory.Networking().V1().NetworkPolicies().Informer(), budgets: factory.Policy().V1().PodDisruptionBudgets().Informer(), ingresses: factory.Networking().V1().Ingresses().Informer(), routes: routes}
	for _, informer := range []cache.SharedIndexInformer{h.pods, h.services, h.claims} {
		if err := informer.AddIndexers(cache.Indexers{bySource: objectSource}); err != nil {
			return nil, fmt.Errorf("indexing the host's objects: %w", err)
		}
	}
	if err := h.namespaces.AddIndexers(cache.Indexers{bySource: namespaceSource, byTenant: namespaceTenant}); err != nil {
		return nil, fmt.Errorf("indexing the host's namespaces: %w", err)
	}
	if err := h.slices.AddIndexers(cache.Indexers{byService: sliceService}); err != nil {
		return nil, fmt.Errorf("indexing the host's slices: %w", err)
	}
	return h, nil
}

// run runs the informers until ctx ends, and returns when they know what there is.
func (h *hostCaches) run(ctx context.Context) bool {
	return objects.Follow(ctx, h.pods, h.services, h.slices, h.claims, h.namespaces, h.policies, h.budgets, h.ingresses)
}

// objects returns how many pods, Services, Ingresses and HTTPRoutes there are in namespaces of the owner.
func (h *hostCaches) objects() int {
	ours := h.namespaces.GetIndexer().ListKeys()
	return count(h.pods.GetIndexer(), ours...) + count(h.services.GetIndexer(), ours...) + count(h.ingresses.GetIndexer(), ours...) + count(h.routes.GetIndexer(), ours...)
}

// count returns how many objects of a cache there are in namespaces. It panics without the index of them, which all
// informers of a factory have.
func count(in cache.Indexer, namespaces ...string) (n int) {
	for _, namespace := range namespaces {
		keys, err := in.IndexKeys(cache.NamespaceIndex, namespace)
		utilruntime.Must(err)
		n += len(keys)
	}
	return n
}

// podsOf returns the host's pods for a pod of a space and its predecessors of the name.
func (h *hostCaches) podsOf(namespace tenant.Flat, name string) ([]*corev1.Pod, error) {
	return owned[*corev1.Pod](h, h.pods, sourceKey(namespace, name))
}

// servicesOf returns the host's Services for a Service of a space and its predecessors of the name.
func (h *hostCaches) servicesOf(namespace tenant.Flat, name string) ([]*corev1.Service, error) {
	return owned[*corev1.Service](h, h.services, sourceKey(namespace, name))
}

// claimsOf returns the host's claims for a claim of a space and its predecessors of the name.
func (h *hostCaches) claimsOf(namespace tenant.Flat, name string) ([]*corev1.PersistentVolumeClaim, error) {
	return owned[*corev1.PersistentVolumeClaim](h, h.claims, sourceKey(namespace, name))
}

// namespacesOf returns the host's namespaces for one of a space and its predecessors of the name.
func (h *hostCaches) namespacesOf(flat tenant.Flat) ([]*corev1.Namespace, error) {
	return objects.Indexed[*corev1.Namespace](h.namespaces.GetIndexer(), bySource, flat.String())
}

// namespacesOfTenant returns the host's namespaces for a tenant and its predecessors of the name.
func (h *hostCaches) namespacesOfTenant(n tenant.Name) ([]*corev1.Namespace, error) {
	return objects.Indexed[*corev1.Namespace](h.namespaces.GetIndexer(), byTenant, string(n))
}

// namespace returns a namespace of the host, nil if there is none with the installation's label.
func (h *hostCaches) namespace(name string) (*corev1.Namespace, error) {
	return cached[corev1.Namespace](h.namespaces, name)
}

// policy returns a policy of the host, nil if there is none with the installation's label. In the place of its spec it
// has that one's hash.
func (h *hostCaches) policy(namespace, name string) (*networkingv1.NetworkPolicy, error) {
	return cached[networkingv1.NetworkPolicy](h.policies, namespace+"/"+name)
}

// budget returns a budget of the host, nil if there is none with the installation's label. In the place of its spec it
// has that one's hash.
func (h *hostCaches) budget(namespace, name string) (*policyv1.PodDisruptionBudget, error) {
	return cached[policyv1.PodDisruptionBudget](h.budgets, namespace+"/"+name)
}

// ingress returns an Ingress of the host, nil if there is none with the installation's label. In the place of its spec
// it has the hash of what the syncer says of it.
func (h *hostCaches) ingress(namespace, name string) (*networkingv1.Ingress, error) {
	return cached[networkingv1.Ingress](h.ingresses, namespace+"/"+name)
}

// route returns an HTTPRoute of the host, nil if there is none with the installation's label. In the place of its spec
// it has that one's hash.
func (h *hostCaches) route(namespace, name string) (*gatewayv1.HTTPRoute, error) {
	return cached[gatewayv1.HTTPRoute](h.routes, namespace+"/"+name)
}

// cached returns an object of a cache, nil if there is none.
func cached[T any](informer cache.SharedIndexInformer, key string) (*T, error) {
	found, exists, err := informer.GetIndexer().GetByKey(key)
	if err != nil || !exists {
		return nil, err
	}
	return found.(*T), nil
}

// owned returns the host's objects that are made of one, in namespaces of the owner.
func owned[T metav1.Object](h *hostCaches, informer cache.SharedIndexInformer, source string) ([]T, error) {
	all, err := objects.Indexed[T](informer.GetIndexer(), bySource, source)
	return slices.DeleteFunc(all, func(o T) bool {
		_, _, ok := h.ours(o)
		return !ok
	}), err
}

// ours returns the object of a space that a host's pod, Service or claim of a cache is made of, and whether it is in a
// namespace of the owner that has the same marks.
func (h *hostCaches) ours(host metav1.Object) (n names.Namespace, name string, ok bool) {
	if n, name, ok = sourceOf(host); !ok {
		return n, name, false
	}
	namespace, err := h.namespace(host.GetNamespace())
	if err != nil || namespace == nil {
		return n, name, false
	}
	of, ok := namespaceOf(namespace)
	return n, name, ok && of == n
}

// sourceOf reads the marks of an object of the host: of which object of a space it is the copy, and whether they fit
// the name of its namespace. It is for what was read or made in a namespace of the owner, or only to queue something:
// others can write the same marks in another namespace of that name.
func sourceOf(host metav1.Object) (n names.Namespace, name string, ok bool) {
	n, complete := names.Of(host.GetLabels(), host.GetAnnotations())
	name = host.GetAnnotations()[names.NameAnnotation]
	return n, name, complete && name != "" && n.Host() == host.GetNamespace()
}

// sourceKey returns the key of bySource, and of caches of the spaces, for an object of a space.
func sourceKey(namespace tenant.Flat, name string) string { return namespace.String() + "/" + name }

func objectSource(obj any) ([]string, error) {
	n, name, ok := sourceOf(obj.(metav1.Object))
	if !ok {
		return nil, nil
	}
	return []string{sourceKey(n.Flat(), name)}, nil
}

// namespaceOf returns the namespace of a space that a host's is made of, by its marks, and whether it
// is called as it would be.
func namespaceOf(host metav1.Object) (names.Namespace, bool) {
	n, complete := names.Of(host.GetLabels(), host.GetAnnotations())
	return n, complete && n.Host() == host.GetName()
}

func namespaceSource(obj any) ([]string, error) {
	n, ok := namespaceOf(obj.(metav1.Object))
	if !ok {
		return nil, nil
	}
	return []string{n.Flat().String()}, nil
}

func namespaceTenant(obj any) ([]string, error) {
	n, ok := namespaceOf(obj.(metav1.Object))
	if !ok {
		return nil, nil
	}
	return []string{string(n.Tenant)}, nil
}

// slim drops what is not read of the host's objects: the hash of what was written stands for the spec, but
// for what the host has chosen of a Service, and how large a volume is to be.
func slim(obj any) (any, error) {
	switch o := obj.(type) {
	case *corev1.Pod:
		o.ManagedFields, o.OwnerReferences = nil, nil
		translate.NoteNames(o)
		o.Spec = corev1.PodSpec{NodeName: o.Spec.NodeName, Tolerations: o.Spec.Tolerations, EphemeralContainers: slimDebuggers(o.Spec.EphemeralContainers), Resources: o.Spec.Resources}
	case *corev1.Service:
		o.ManagedFields, o.OwnerReferences, o.Status.Conditions = nil, nil, nil
		chosen := corev1.ServiceSpec{
			Type: o.Spec.Type, ClusterIPs: o.Spec.ClusterIPs, HealthCheckNodePort: o.Spec.HealthCheckNodePort,
			LoadBalancerClass: o.Spec.LoadBalancerClass, LoadBalancerIP: o.Spec.LoadBalancerIP, Selector: o.Spec.Selector,
		}
		for i := range o.Spec.Ports {
			chosen.Ports = append(chosen.Ports, corev1.ServicePort{NodePort: o.Spec.Ports[i].NodePort})
		}
		o.Spec = chosen
	case *discoveryv1.EndpointSlice:
		return slimSlice(o)
	case *corev1.PersistentVolumeClaim:
		o.ManagedFields, o.OwnerReferences = nil, nil
		o.Spec = corev1.PersistentVolumeClaimSpec{VolumeName: o.Spec.VolumeName, Resources: o.Spec.Resources}
	case *corev1.Namespace:
		o.ManagedFields = nil
	case *networkingv1.NetworkPolicy:
		slimPolicy(o)
	case *policyv1.PodDisruptionBudget:
		slimBudget(o)
	case *networkingv1.Ingress:
		slimIngress(o)
	case *gatewayv1.HTTPRoute:
		slimRoute(o)
	case *unstructured.Unstructured: // of a space
		translate.SlimRoute(o)
	}
	return obj, nil
}

// slimDebuggers returns the names of ephemeral containers alone.
func slimDebuggers(all []corev1.EphemeralContainer) (slim []corev1.EphemeralContainer) {
	for i := range all {
		slim = append(slim, corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: all[i].Name}})
	}
	return slim
}

// slimPolicy puts the hash of a policy in the place of its spec.
func slimPolicy(policy *networkingv1.NetworkPolicy) {
	noteHash(policy, &policy.Spec)
}

// slimIngress puts the hash of an Ingress in the place of its spec, and of the annotations that it has of the space's.
// Those of others, and its status, stay.
func slimIngress(ingress *networkingv1.Ingress) {
	if equality.Semantic.DeepEqual(ingress.Spec, networkingv1.IngressSpec{}) {
		return // it has been slimmed
	}
	said := struct {
		Spec        networkingv1.IngressSpec
		Annotations map[string]string
	}{ingress.Spec, map[string]string{}}
	for key := range strings.SplitSeq(ingress.Annotations[keysAnnotation], ",") {
		said.Annotations[key] = ingress.Annotations[key]
	}
	noteHash(ingress, &said)
	ingress.Spec = networkingv1.IngressSpec{}
}

// slimRoute puts the hash of an HTTPRoute in the place of its spec.
func slimRoute(route *gatewayv1.HTTPRoute) {
	noteHash(route, &route.Spec)
}

// slimBudget puts the hash of a budget in the place of its spec.
func slimBudget(budget *policyv1.PodDisruptionBudget) {
	noteHash(budget, &budget.Spec)
	budget.Status = policyv1.PodDisruptionBudgetStatus{}
}
