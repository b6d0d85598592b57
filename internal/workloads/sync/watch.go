package sync

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	endpointsliceutil "k8s.io/endpointslice/util"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// watch has both sides fill the queue. remove ends that, synced say when everything there is has been seen.
func (s *syncer) watch() (remove func(), synced []cache.InformerSynced, err error) {
	var added []func()
	remove = func() {
		for _, f := range added {
			f()
		}
	}
	core := s.informers.Core().V1()
	policies, classes := s.informers.Networking().V1().NetworkPolicies(), s.informers.Storage().V1().StorageClasses()
	for _, w := range []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		{core.Pods().Informer(), handler{changed: s.podChanged, updated: s.podUpdated, gone: s.podGone}},
		{core.ConfigMaps().Informer(), handler{changed: s.sourceChanged(configMapItem)}},
		{core.Secrets().Informer(), handler{changed: s.sourceChanged(secretItem, certificateItem)}},
		{core.Services().Informer(), handler{changed: s.serviceChanged, updated: s.serviceUpdated, gone: s.serviceGone}},
		{core.Namespaces().Informer(), handler{changed: s.namespaceChanged, updated: s.namespaceUpdated, gone: s.namespaceGone}},
		{s.tenants, handler{changed: func(any) {}, updated: s.tenantUpdated, gone: s.tenantGone}},
		{s.hostCaches.pods, handler{changed: s.hostPodChanged, updated: s.hostPodUpdated, gone: s.hostPodGone}},
		{s.hostCaches.services, handler{changed: s.hostServiceChanged, gone: s.hostServiceGone}},
		{s.hostCaches.slices, handler{changed: s.hostSliceChanged, updated: s.hostSliceUpdated, gone: s.hostSliceGone}},
		{core.PersistentVolumeClaims().Informer(), handler{changed: s.claimChanged, gone: s.claimGone}},
		{core.PersistentVolumes().Informer(), handler{changed: s.volumeChanged}},
		{classes.Informer(), handler{changed: s.classChanged, gone: func(any, bool) {}}},
		{core.Nodes().Informer(), handler{changed: s.nodeChanged}},
		{s.hostNodes, handler{changed: s.nodeChanged}},
		{s.hostCaches.claims, handler{changed: s.hostClaimChanged, gone: s.hostClaimGone}},
		{policies.Informer(), handler{changed: s.policyChanged, gone: s.policyGone}},
		{s.hostCaches.policies, handler{changed: s.hostPolicyChanged, gone: s.andRoom(s.hostPolicyChanged)}},
		{s.informers.Policy().V1().PodDisruptionBudgets().Informer(), handler{changed: s.budgetChanged, updated: s.budgetUpdated}},
		{s.hostCaches.budgets, handler{changed: s.hostBudgetChanged, gone: s.andRoom(s.hostBudgetChanged)}},
		{s.informers.Networking().V1().Ingresses().Informer(), handler{changed: s.ingressChanged, gone: s.ingressGone}},
		{s.hostCaches.ingresses, handler{changed: s.hostIngressChanged, gone: s.andRoom(s.hostIngressChanged)}},
		{s.hostCaches.namespaces, handler{changed: s.hostNamespaceChanged, updated: s.hostNamespaceUpdated, gone: s.hostNamespaceGone}},
	} {
		registration, err := w.informer.AddEventHandler(w.handler)
		if err != nil {
			return remove, nil, fmt.Errorf("watching: %w", err)
		}
		added = append(added, func() { _ = w.informer.RemoveEventHandler(registration) })
		synced = append(synced, registration.HasSynced)
	}
	return remove, synced, nil
}

// handler tells of what is there and of what is gone. seen is whether the deletion itself was seen, and not only
// that something is missing.
type handler struct {
	changed func(obj any)
	// updated, if set, is called in place of changed where both states are known.
	updated func(before, obj any)
	// gone is called in place of changed when the object is gone, unless it is nil.
	gone func(obj any, seen bool)
}

// OnAdd implements cache.ResourceEventHandler.
func (h handler) OnAdd(obj any, _ bool) { h.changed(obj) }

// OnUpdate implements cache.ResourceEventHandler.
func (h handler) OnUpdate(before, obj any) {
	switch {
	case before.(metav1.Object).GetResourceVersion() == obj.(metav1.Object).GetResourceVersion():
	case h.gone != nil && before.(metav1.Object).GetUID() != obj.(metav1.Object).GetUID():
		h.gone(before, false) // made again while the watch was broken
		h.changed(obj)
	case h.updated != nil:
		h.updated(before, obj)
	default:
		h.changed(obj)
	}
}

// OnDelete implements cache.ResourceEventHandler.
func (h handler) OnDelete(obj any) {
	unknown, missing := obj.(cache.DeletedFinalStateUnknown)
	if missing {
		obj = unknown.Obj
	}
	switch {
	case obj == nil:
	case h.gone == nil:
		h.changed(obj)
	default:
		h.gone(obj, !missing)
	}
}

func (s *syncer) podChanged(obj any) {
	pod := obj.(*corev1.Pod)
	i := itemOf(podItem, pod)
	if !i.tenant.IsSpace() {
		return // the system space's run elsewhere
	}
	s.refer(i, referencesOf(pod))
	s.enqueueClaimsOf(pod)
	s.queue.Add(i)
}

// podUpdated has the slices of Services looked at, too, if the pod is selected by others now, or ends.
func (s *syncer) podUpdated(before, obj any) {
	s.podChanged(obj)
	was, now := before.(*corev1.Pod), obj.(*corev1.Pod)
	if !maps.Equal(was.Labels, now.Labels) || was.DeletionTimestamp.IsZero() != now.DeletionTimestamp.IsZero() {
		s.enqueueSelectors(itemOf(selectingItem, was), was.Labels)
	}
}

func (s *syncer) podGone(obj any, seen bool) {
	pod := obj.(*corev1.Pod)
	i := itemOf(podItem, pod)
	if !i.tenant.IsSpace() {
		return
	}
	if seen {
		s.deleted.note(pod.UID, true)
	}
	s.refer(i, nil)
	s.queue.Add(i)
	s.enqueueSelectors(itemOf(selectingItem, pod), pod.Labels)
}

// refer notes what a pod or Ingress names, and has copies looked at that none has named before, or none names any more.
// At a start, sources come before or after what names them, and may have been changed while no syncer worked.
func (s *syncer) refer(i item, now []reference) {
	for _, ref := range s.references.set(i, now) {
		s.queue.Add(ref.item())
	}
}

// sourceChanged has the copies of a ConfigMap or Secret looked at.
func (s *syncer) sourceChanged(copied ...kind) func(any) {
	return func(obj any) {
		o := obj.(metav1.Object)
		for _, of := range copied {
			if s.references.has(reference{of, tenant.Flat(o.GetNamespace()), o.GetName()}) {
				s.enqueueObject(of, o)
			}
		}
	}
}

// namespaceUpdated has the host's namespace get the labels that selectors of policies ask for.
func (s *syncer) namespaceUpdated(before, obj any) {
	s.namespaceChanged(obj)
	namespace := obj.(*corev1.Namespace)
	if maps.Equal(before.(*corev1.Namespace).Labels, namespace.Labels) {
		return
	}
	if all, err := s.hostCaches.namespacesOf(tenant.Flat(namespace.Name)); err == nil {
		s.enqueueNamespaces(all)
	}
}

// enqueueObject has an object looked at if it is in the space of a tenant.
func (s *syncer) enqueueObject(k kind, obj any) {
	if i := itemOf(k, obj.(metav1.Object)); i.tenant.IsSpace() {
		s.queue.Add(i)
	}
}

// enqueueIfOnHost has an object of a space looked at, if its namespace is on the host.
func (s *syncer) enqueueIfOnHost(k kind, obj any) {
	if used, err := s.hostCaches.namespacesOf(tenant.Flat(obj.(metav1.Object).GetNamespace())); err != nil || len(used) > 0 {
		s.enqueueObject(k, obj)
	}
}

// enqueueIn has all objects of a cache looked at that are in a namespace of a space.
func (s *syncer) enqueueIn(k kind, in cache.Indexer, namespace tenant.Flat) {
	all, err := in.ByIndex(cache.NamespaceIndex, namespace.String())
	if err != nil {
		klog.ErrorS(err, "Reading a cache of the spaces", "namespace", namespace)
	}
	for _, obj := range all {
		s.enqueueObject(k, obj)
	}
}

// enqueueSource has the object of a space looked at that one of the host is made of: somebody may have changed or
// deleted that.
func (s *syncer) enqueueSource(k kind, obj any) {
	if n, name, ok := sourceOf(obj.(metav1.Object)); ok {
		s.queue.Add(itemFor(k, n.Flat(), name))
	}
}

// enqueueHome has the namespace of the host looked at in which an object was that is gone: it may have been the last
// one.
func (s *syncer) enqueueHome(obj any) {
	if n, _, ok := sourceOf(obj.(metav1.Object)); ok {
		s.queue.Add(item{kind: hostNamespaceItem, tenant: n.Tenant, name: n.Host()})
	}
}

// andRoom has what an object of the host that is gone was made for looked at, as changed does, and others that had no
// room.
func (s *syncer) andRoom(changed func(any)) func(any, bool) {
	return func(obj any, _ bool) {
		changed(obj)
		if n, _, ok := sourceOf(obj.(metav1.Object)); ok {
			s.queue.Add(item{roomItem, n.Tenant, n.Flat(), n.Host()})
		}
	}
}

// enqueueGone notes that an object was deleted, if somebody has seen that, and has it looked at.
func (s *syncer) enqueueGone(k kind, obj any, seen bool) {
	if seen {
		s.deleted.note(obj.(metav1.Object).GetUID(), false)
	}
	s.enqueueObject(k, obj)
}

func (s *syncer) serviceChanged(obj any) {
	s.enqueueObject(serviceItem, obj)
	s.enqueueSlices(itemOf(slicesItem, obj.(metav1.Object)))
}

func (s *syncer) serviceGone(obj any, seen bool) { s.enqueueGone(serviceItem, obj, seen) }

// serviceUpdated has the host's namespace looked at, too, when a load balancer goes: it may have been the last that
// there may be.
func (s *syncer) serviceUpdated(before, obj any) {
	s.serviceChanged(obj)
	was, now := before.(*corev1.Service), obj.(*corev1.Service)
	if was.Spec.Type != corev1.ServiceTypeLoadBalancer || now.Spec.Type == corev1.ServiceTypeLoadBalancer {
		return
	}
	if all, err := s.hostCaches.namespacesOf(tenant.Flat(now.Namespace)); err == nil {
		s.enqueueNamespaces(all)
	}
}

func (s *syncer) namespaceChanged(obj any) {
	namespace := obj.(*corev1.Namespace)
	if i := itemFor(wantedItem, tenant.Flat(namespace.Name), ""); i.tenant.IsSpace() && s.isWanted(namespace) {
		s.queue.Add(i)
	}
}

func (s *syncer) namespaceGone(obj any, seen bool) {
	namespace := obj.(*corev1.Namespace)
	flat := tenant.Flat(namespace.Name)
	if _, ok := flat.Tenant(); !ok {
		return
	}
	all, err := s.hostCaches.namespacesOf(flat)
	if err != nil || len(all) == 0 {
		return
	}
	if seen {
		s.deleted.note(namespace.UID, false)
	}
	s.enqueueNamespaces(all)
}

// tenantUpdated queues all objects of a tenant whose rules have changed.
func (s *syncer) tenantUpdated(before, obj any) {
	t := obj.(*v1alpha1.Tenant)
	if was := before.(*v1alpha1.Tenant); equality.Semantic.DeepEqual(rulesOf(was), rulesOf(t)) {
		return
	}
	s.queue.Add(item{kind: tenantItem, tenant: tenant.Name(t.Name)})
}

// enqueueTenant has the host's namespaces of a tenant looked at.
func (s *syncer) enqueueTenant(n tenant.Name) {
	if all, err := s.hostCaches.namespacesOfTenant(n); err == nil {
		s.enqueueNamespaces(all)
	}
}

func (s *syncer) tenantGone(obj any, seen bool) {
	t := obj.(*v1alpha1.Tenant)
	if seen {
		s.deleted.note(t.UID, false)
	}
	s.enqueueTenant(tenant.Name(t.Name))
	s.ending.enqueue(tenant.Name(t.Name), t.UID)
}

// hostPodSeen has the pod of a space looked at, and nothing else.
func (s *syncer) hostPodSeen(obj any) {
	s.ranges.see(obj.(*corev1.Pod))
	s.enqueueSource(podItem, obj)
}

func (s *syncer) hostPodChanged(obj any) {
	s.hostPodSeen(obj)
	if len(obj.(*corev1.Pod).Status.PodIPs) > 0 {
		s.enqueueHostSelectors(obj.(*corev1.Pod))
	}
}

// enqueueHostSelectors has the slices looked at that have a pod of the host, which its space may not have any more.
func (s *syncer) enqueueHostSelectors(host *corev1.Pod) {
	if n, name, ok := sourceOf(host); ok {
		s.enqueueSelectors(itemFor(selectingItem, n.Flat(), name), host.Labels)
	}
}

// hostPodUpdated has the slices looked at that have the pod if they are to say something else of it.
func (s *syncer) hostPodUpdated(before, obj any) {
	s.hostPodSeen(obj)
	if was, now := before.(*corev1.Pod), obj.(*corev1.Pod); translate.OwnsAddresses(was) != translate.OwnsAddresses(now) || endpointsliceutil.GetPodUpdateProjectionKey(was, now) != nil {
		s.enqueueHostSelectors(now)
		s.enqueueStale(now.Namespace)
	}
}

func (s *syncer) hostServiceChanged(obj any) {
	s.enqueueSource(serviceItem, obj)
	if n, name, ok := sourceOf(obj.(metav1.Object)); ok {
		s.enqueueSlices(itemFor(slicesItem, n.Flat(), name))
	}
}

func (s *syncer) hostServiceGone(obj any, _ bool) {
	s.making.Delete(string(obj.(*corev1.Service).UID))
	s.making.Delete(string(obj.(*corev1.Service).UID) + ofBalancer)
	s.sliceTracker.DeleteService(obj.(*corev1.Service).Namespace, obj.(*corev1.Service).Name)
	s.behind.Delete(obj.(*corev1.Service).Namespace + "/" + obj.(*corev1.Service).Name)
	s.hostServiceChanged(obj)
	s.enqueueHome(obj)
}

func (s *syncer) hostPodGone(obj any, seen bool) {
	if seen {
		s.deleted.note(obj.(*corev1.Pod).UID, false)
	}
	s.copies.forgetTokens(obj.(*corev1.Pod))
	s.hostPodChanged(obj)
	s.enqueueHome(obj)
	s.enqueueStale(obj.(*corev1.Pod).Namespace)
}

func (s *syncer) hostNamespaceChanged(obj any) {
	namespace := obj.(*corev1.Namespace)
	s.enqueueStale(namespace.Name)
	if of, ok := namespaceOf(namespace); ok {
		s.queue.Add(item{contentsItem, of.Tenant, of.Flat(), namespace.Name})
	}
	s.enqueueNamespaces([]*corev1.Namespace{namespace})
}

// hostNamespaceUpdated has policies looked at if they can be there now: nothing else of a namespace changes them.
func (s *syncer) hostNamespaceUpdated(before, obj any) {
	was, now := before.(*corev1.Namespace), obj.(*corev1.Namespace)
	of, _ := namespaceOf(was)
	if is, _ := namespaceOf(now); is != of || isReady(was) != isReady(now) {
		s.hostNamespaceChanged(now)
		return
	}
	s.enqueueNamespaces([]*corev1.Namespace{now})
}

func (s *syncer) enqueueNamespaces(all []*corev1.Namespace) {
	for _, namespace := range all {
		if namespace.Name == names.Canaries(s.installation) {
			continue
		}
		of, _ := namespaceOf(namespace)
		s.queue.Add(item{kind: hostNamespaceItem, tenant: of.Tenant, name: namespace.Name})
	}
}

// enqueueHostNamespaces has all namespaces of the host looked at, and all policies.
func (s *syncer) enqueueHostNamespaces() {
	for _, obj := range s.hostCaches.namespaces.GetIndexer().List() {
		s.hostNamespaceChanged(obj)
	}
}
