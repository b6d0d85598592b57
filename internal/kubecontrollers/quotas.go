package kubecontrollers

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/server/quota"
)

// namespaceQuotas are the quotas of namespaces, all but those of tenants: upstream's
// controller would count for these what is in their namespace alone.
type namespaceQuotas struct {
	coreinformers.ResourceQuotaInformer
}

// Informer implements coreinformers.ResourceQuotaInformer.
func (q namespaceQuotas) Informer() cache.SharedIndexInformer {
	return namespaceQuotaEvents{q.ResourceQuotaInformer.Informer()}
}

// Lister implements coreinformers.ResourceQuotaInformer.
func (q namespaceQuotas) Lister() corelisters.ResourceQuotaLister {
	return namespaceQuotaLister{q.ResourceQuotaInformer.Lister()}
}

type namespaceQuotaEvents struct{ cache.SharedIndexInformer }

// AddEventHandlerWithResyncPeriod implements cache.SharedInformer.
func (e namespaceQuotaEvents) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, resync time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return e.SharedIndexInformer.AddEventHandlerWithResyncPeriod(
		cache.FilteringResourceEventHandler{FilterFunc: ofNamespace, Handler: handler}, resync)
}

func ofNamespace(obj any) bool {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	q, ok := obj.(*corev1.ResourceQuota)
	return ok && !quota.IsTenantQuota(q)
}

type namespaceQuotaLister struct {
	corelisters.ResourceQuotaLister
}

// List implements corelisters.ResourceQuotaLister.
func (l namespaceQuotaLister) List(selector labels.Selector) ([]*corev1.ResourceQuota, error) {
	quotas, err := l.ResourceQuotaLister.List(selector)
	return slices.DeleteFunc(quotas, quota.IsTenantQuota), err
}

// ResourceQuotas implements corelisters.ResourceQuotaLister.
func (l namespaceQuotaLister) ResourceQuotas(namespace string) corelisters.ResourceQuotaNamespaceLister {
	return quotasOfNamespace{l.ResourceQuotaLister.ResourceQuotas(namespace)}
}

type quotasOfNamespace struct {
	corelisters.ResourceQuotaNamespaceLister
}

// List implements corelisters.ResourceQuotaNamespaceLister.
func (l quotasOfNamespace) List(selector labels.Selector) ([]*corev1.ResourceQuota, error) {
	quotas, err := l.ResourceQuotaNamespaceLister.List(selector)
	return slices.DeleteFunc(quotas, quota.IsTenantQuota), err
}

// Get implements corelisters.ResourceQuotaNamespaceLister.
func (l quotasOfNamespace) Get(name string) (*corev1.ResourceQuota, error) {
	q, err := l.ResourceQuotaNamespaceLister.Get(name)
	if err == nil && quota.IsTenantQuota(q) {
		return nil, apierrors.NewNotFound(corev1.Resource("resourcequotas"), name)
	}
	return q, err
}
