package dns

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/internal/process/signal"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

const (
	// byAddress indexes live pods, Services and slices by their addresses.
	byAddress = "address"
	// byNode indexes pods by the address of their node.
	byNode = "node"
	// bySpace indexes the host's namespaces by those of spaces.
	bySpace = "space"
	// byName indexes slices by what questions name: their Services, and what is below these.
	byName = "name"
	// byTenant indexes those of the host's namespaces that say where the API is by their tenant.
	byTenant = "tenant"
)

// tenantID is one tenant in one of its lives. Names are looked for in its space.
type tenantID struct {
	installation string
	uid          types.UID
	// owner is whose the host's namespaces are: the marks of another's are not to be trusted.
	owner names.Owner
}

// spaceNamespace is a namespace of a space, as one of the host says.
type spaceNamespace struct {
	names.Namespace
	owner names.Owner
}

// asSpaceNamespace returns the space's namespace that a host's namespace stands for, if any.
func asSpaceNamespace(namespace *corev1.Namespace) (spaceNamespace, bool) {
	n, complete := names.Of(namespace.Labels, namespace.Annotations)
	return spaceNamespace{n, names.OwnerOfNamespace(namespace.Labels)}, complete
}

func idOf(p spaceNamespace) tenantID { return tenantID{p.Installation, p.TenantUID, p.owner} }

// directory is what is known of the host, by which it is said whose an address is: what has the label of an
// installation.
type directory struct {
	pods, services, slices, namespaces cache.SharedIndexInformer
	// changed is signalled when an address may have become known.
	changed signal.Broadcast
}

func newDirectory(client kubernetes.Interface) (*directory, error) {
	of := func(selector string) informers.SharedInformerFactory {
		return informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(slim),
			informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = selector }))
	}
	marked := of(names.InstallationLabel)
	core := marked.Core().V1()
	h := &directory{
		pods: core.Pods().Informer(), services: core.Services().Informer(), namespaces: core.Namespaces().Informer(),
		// Slices have the labels of their Service, and those of headless ones are all that is asked for.
		slices: of(names.InstallationLabel + "," + corev1.IsHeadlessService).Discovery().V1().EndpointSlices().Informer(),
	}
	for informer, indexers := range map[cache.SharedIndexInformer]cache.Indexers{
		h.pods:       {byAddress: objects.IndexBy(podAddresses), byNode: objects.IndexBy(podNode)},
		h.services:   {byAddress: objects.IndexBy(serviceAddresses)},
		h.slices:     {byAddress: objects.IndexBy(sliceAddresses), byName: objects.IndexBy(sliceNames)},
		h.namespaces: {bySpace: objects.IndexBy(namespaceSpace), byTenant: objects.IndexBy(namespaceWithAPI)},
	} {
		if err := informer.AddIndexers(indexers); err != nil {
			return nil, fmt.Errorf("indexing the host's objects: %w", err)
		}
	}
	wake := cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { h.changed.Tell() }, UpdateFunc: func(any, any) { h.changed.Tell() }, DeleteFunc: func(any) { h.changed.Tell() },
	}
	for _, informer := range []cache.SharedIndexInformer{h.pods, h.namespaces} {
		if _, err := informer.AddEventHandler(wake); err != nil {
			return nil, fmt.Errorf("watching the host: %w", err)
		}
	}
	return h, nil
}

// run runs the informers until ctx ends, and returns when they know what there is. It reports whether they do.
func (h *directory) run(ctx context.Context) bool {
	return objects.Follow(ctx, h.pods, h.services, h.slices, h.namespaces)
}

// slim drops what is not read of the host's objects. A pod that is not there any more, or that has the network of its
// node, has no address.
func slim(obj any) (any, error) {
	switch o := obj.(type) {
	case *corev1.Pod:
		kept := &corev1.Pod{ObjectMeta: metaOf(o)}
		if translate.OwnsAddresses(o) && !o.Spec.HostNetwork {
			kept.Status = corev1.PodStatus{PodIP: o.Status.PodIP, PodIPs: o.Status.PodIPs, HostIP: o.Status.HostIP}
		}
		return kept, nil
	case *corev1.Service:
		kept := &corev1.Service{ObjectMeta: metaOf(o), Spec: corev1.ServiceSpec{
			Type: o.Spec.Type, ClusterIP: o.Spec.ClusterIP, ClusterIPs: o.Spec.ClusterIPs, ExternalName: cmp.Or(o.Annotations[names.ExternalNameAnnotation], o.Spec.ExternalName),
			PublishNotReadyAddresses: o.Spec.PublishNotReadyAddresses,
		}}
		for _, port := range o.Spec.Ports {
			kept.Spec.Ports = append(kept.Spec.Ports, corev1.ServicePort{Name: port.Name, Protocol: port.Protocol, Port: port.Port})
		}
		return kept, nil
	case *discoveryv1.EndpointSlice:
		return sliceOf(o), nil
	case *corev1.Namespace:
		kept := &corev1.Namespace{ObjectMeta: metaOf(o)}
		kept.CreationTimestamp, kept.DeletionTimestamp = o.CreationTimestamp, o.DeletionTimestamp
		if n, complete := names.Of(o.Labels, o.Annotations); complete && n.Host() == o.Name {
			kept.Labels, kept.Annotations = n.Labels(), n.Marks()
			maps.Copy(kept.Labels, names.OwnerOfNamespace(o.Labels).Labels())
			if api := o.Annotations[names.APIAnnotation]; api != "" {
				kept.Annotations[names.APIAnnotation] = api
			}
		}
		return kept, nil
	}
	return obj, nil
}

func metaOf(o metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: o.GetName(), Namespace: o.GetNamespace(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion()}
}

func podAddresses(pod *corev1.Pod) []string {
	texts := []string{pod.Status.PodIP}
	for _, ip := range pod.Status.PodIPs {
		texts = append(texts, ip.IP)
	}
	return canonical(texts)
}

func podNode(pod *corev1.Pod) []string { return canonical([]string{pod.Status.HostIP}) }

func serviceAddresses(service *corev1.Service) []string {
	return canonical(append([]string{service.Spec.ClusterIP}, service.Spec.ClusterIPs...))
}

// canonical returns the addresses among texts, each of them once and in one form.
func canonical(texts []string) []string {
	var all []string
	for _, text := range texts {
		if address, err := netip.ParseAddr(text); err == nil {
			all = append(all, address.Unmap().String())
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func namespaceSpace(namespace *corev1.Namespace) []string {
	if p, complete := asSpaceNamespace(namespace); complete {
		return []string{spaceKey(idOf(p), p.Name)}
	}
	return nil
}

func namespaceWithAPI(namespace *corev1.Namespace) []string {
	if p, complete := asSpaceNamespace(namespace); complete && namespace.Annotations[names.APIAnnotation] != "" {
		return []string{tenantKey(idOf(p))}
	}
	return nil
}

func tenantKey(of tenantID) string {
	return of.installation + "|" + string(of.uid) + "|" + of.owner.Namespace + "/" + of.owner.ControlPlane
}

func spaceKey(of tenantID, namespace string) string {
	return tenantKey(of) + "|" + namespace
}

// clientAt returns in which namespace of a space the pod is that has an address. It is not known if there is none, or
// more than one. Pods that are not in namespaces of spaces do not count: whoever makes them may give them the label of
// an installation, and say that they have any address.
func (h *directory) clientAt(address netip.Addr) (p spaceNamespace, ok bool) {
	found := 0
	for _, pod := range indexed[*corev1.Pod](h.pods, byAddress, address.Unmap().String()) {
		if in, ok := h.spaceNamespaceOf(pod.Namespace); ok {
			p, found = in, found+1
		}
	}
	return p, found == 1
}

// isNode reports whether an address is that of a node with pods of spaces.
func (h *directory) isNode(address netip.Addr) bool {
	return slices.ContainsFunc(indexed[*corev1.Pod](h.pods, byNode, address.Unmap().String()), func(pod *corev1.Pod) bool {
		_, ok := h.spaceNamespaceOf(pod.Namespace)
		return ok
	})
}

// spaceNamespaceOf returns the namespace of a space that one of the host is of.
func (h *directory) spaceNamespaceOf(host string) (spaceNamespace, bool) {
	found, ok, err := h.namespaces.GetIndexer().GetByKey(host)
	if err != nil || !ok {
		return spaceNamespace{}, false
	}
	return asSpaceNamespace(found.(*corev1.Namespace))
}

// home returns the name of the host's namespace for one of a space, empty if there is none. That of an earlier life of
// the namespace is there only until it has ended. A name may also be that of the host's namespace itself: pods see it
// in their own name.
func (h *directory) home(of tenantID, name string) string {
	all := indexed[*corev1.Namespace](h.namespaces, bySpace, spaceKey(of, name))
	if len(all) == 0 {
		if p, ok := h.spaceNamespaceOf(name); ok && idOf(p) == of {
			return name
		}
		return ""
	}
	return slices.MaxFunc(all, func(a, b *corev1.Namespace) int {
		ends := func(n *corev1.Namespace) int {
			if n.DeletionTimestamp != nil {
				return 1
			}
			return 0
		}
		return cmp.Or(ends(b)-ends(a), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	}).Name
}

// service returns a Service of a namespace of the host, nil if there is none.
func (h *directory) service(namespace, name string) *corev1.Service {
	found, ok, err := h.services.GetIndexer().GetByKey(namespace + "/" + name)
	if err != nil || !ok {
		return nil
	}
	return found.(*corev1.Service)
}

// api returns the Service kubernetes of a tenant's space, nil if its pods do not reach the API. Which address that has
// is said by the namespaces of the tenant; they say the same, but for the moment in which it changes.
func (h *directory) api(of tenantID) *corev1.Service {
	for _, namespace := range indexed[*corev1.Namespace](h.namespaces, byTenant, tenantKey(of)) {
		if api, err := netip.ParseAddrPort(namespace.Annotations[names.APIAnnotation]); err == nil {
			address := api.Addr().Unmap().String()
			return &corev1.Service{Spec: corev1.ServiceSpec{
				ClusterIP: address, ClusterIPs: []string{address},
				Ports: []corev1.ServicePort{{Name: "https", Protocol: corev1.ProtocolTCP, Port: int32(api.Port())}},
			}}
		}
	}
	return nil
}

// below returns the slices of a headless Service that have something of a name below it: the label of an endpoint,
// "_name._protocol" of a port, or "_protocol". All of them have what is below nothing.
func (h *directory) below(service *corev1.Service, name string) []*endpointSlice {
	return indexed[*endpointSlice](h.slices, byName, belowKey(service.Namespace, service.Name, name))
}

// namesAt returns the names that an address has in a space, without the domain, and whether there are more than so
// many.
func (h *directory) namesAt(of tenantID, address netip.Addr, most int) (found []string, more bool) {
	key := address.Unmap().String()
	if api := h.api(of); api != nil && api.Spec.ClusterIP == key {
		found = append(found, "kubernetes.default.svc.")
	}
	for _, service := range indexed[*corev1.Service](h.services, byAddress, key) {
		if p, ok := h.spaceNamespaceOf(service.Namespace); ok && idOf(p) == of {
			found = append(found, service.Name+"."+p.Name+".svc.")
		}
	}
	for _, slice := range indexed[*endpointSlice](h.slices, byAddress, key) {
		p, ok := h.spaceNamespaceOf(slice.Namespace)
		service := h.service(slice.Namespace, slice.service)
		if !ok || idOf(p) != of || service == nil {
			continue
		}
		for _, e := range slice.of(service).at(address.Unmap()) {
			found = append(found, e.label+"."+service.Name+"."+p.Name+".svc.")
		}
		if len(found) > most {
			break
		}
	}
	slices.Sort(found)
	found = slices.Compact(found)
	return found[:min(len(found), most)], len(found) > most
}

// indexed returns what an index has for a value. All indexes that are asked for are there.
func indexed[T any](informer cache.SharedIndexInformer, index, value string) []T {
	all, _ := objects.Indexed[T](informer.GetIndexer(), index, value)
	return all
}
