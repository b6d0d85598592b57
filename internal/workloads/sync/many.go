package sync

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/tenant"
)

// enqueueMany has the items looked at for which one stands. Workers do that, in the turns of the tenant whose they are:
// handlers of informers are called one after the other, for all tenants, and do no more than one event is worth.
func (s *syncer) enqueueMany(i item) error {
	switch i.kind {
	case tenantItem:
		return s.enqueueOfTenant(i.tenant)
	case contentsItem:
		s.enqueuePolicies(i.namespace)
		s.enqueueBudgets(i.namespace)
		s.enqueueIngresses(i.namespace)
		s.enqueueRoutes(i.namespace)
		s.enqueueIn(podItem, s.podIndexer, i.namespace) // what is in it may have been seen before
		return s.enqueueOnHost(i.name)
	case roomItem:
		return s.enqueueRefused(i)
	case claimantsItem:
		return s.enqueueClaimants(i)
	case selectingItem:
		return s.enqueueSelecting(i)
	default: // classItem
		return s.enqueueClaimsOfClass(i)
	}
}

// enqueueOfTenant queues all objects of a tenant whose rules have changed.
func (s *syncer) enqueueOfTenant(n tenant.Name) error {
	all, err := s.hostCaches.namespacesOfTenant(n)
	if err != nil {
		return err
	}
	for _, namespace := range all {
		s.hostNamespaceChanged(namespace)
	}
	for _, key := range s.podIndexer.ListKeys() {
		namespace, name, _ := strings.Cut(key, "/")
		if i := itemFor(podItem, tenant.Flat(namespace), name); i.tenant == n {
			s.queue.Add(i)
		}
	}
	services, err := s.services.List(labels.Everything())
	for _, service := range services {
		if tenant.Flat(service.Namespace).Space() == n {
			s.serviceChanged(service)
		}
	}
	return err
}

// enqueueOnHost has what is in a namespace of the host looked at: it may have been seen before it was known whose the
// namespace is.
func (s *syncer) enqueueOnHost(namespace string) error {
	for informer, changed := range map[cache.SharedIndexInformer]func(any){
		s.hostCaches.pods: s.hostPodChanged, s.hostCaches.services: s.hostServiceChanged, s.hostCaches.claims: s.hostClaimChanged,
	} {
		all, err := informer.GetIndexer().ByIndex(cache.NamespaceIndex, namespace)
		if err != nil {
			return fmt.Errorf("reading a cache of the host: %w", err)
		}
		for _, obj := range all {
			changed(obj)
		}
	}
	return nil
}

// enqueueRefused has what had no room on the host looked at, if an object has gone there since.
func (s *syncer) enqueueRefused(i item) error {
	if s.room.freed(kindIn{policyItem, i.name}) {
		s.enqueuePolicies(i.namespace)
	}
	if s.room.freed(kindIn{budgetItem, i.name}) {
		s.enqueueBudgets(i.namespace)
	}
	for k, enqueue := range map[kind]func(tenant.Flat){ingressItem: s.enqueueIngresses, routeItem: s.enqueueRoutes} {
		if !s.room.freed(kindIn{k, i.tenant.String()}) {
			continue
		}
		all, err := s.hostCaches.namespacesOfTenant(i.tenant)
		if err != nil {
			return err
		}
		for _, namespace := range all {
			if of, ok := namespaceOf(namespace); ok {
				enqueue(of.Flat())
			}
		}
	}
	return nil
}

// enqueueClaimants has the pods looked at that wait for a claim.
func (s *syncer) enqueueClaimants(i item) error {
	waiting, err := s.podsNaming(i.namespace, i.name)
	for _, pod := range waiting {
		if pod.Spec.NodeName == "" {
			s.queue.Add(itemOf(podItem, pod))
		}
	}
	return err
}

// enqueueClaimsOfClass has the claims looked at that wait for a class.
func (s *syncer) enqueueClaimsOfClass(i item) error {
	waiting, err := s.informers.Core().V1().PersistentVolumeClaims().Informer().GetIndexer().ByIndex(byClass, i.name)
	for _, claim := range waiting {
		s.claimChanged(claim.(*corev1.PersistentVolumeClaim))
	}
	return err
}
