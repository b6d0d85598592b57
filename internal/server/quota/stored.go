package quota

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/internal/server/storage/cachememory"
	"github.com/tenantry/tenantry/internal/tenant"
)

// countStored tells what bounds memory how many bytes tenants have stored, as their quotas say. A tenant whose quota
// has no limit of bytes is not counted.
func countStored(informer coreinformers.ResourceQuotaInformer, memory *cachememory.Budget) error {
	set := func(obj any) {
		if q, ok := obj.(*corev1.ResourceQuota); ok && IsTenantQuota(q) {
			memory.SetStored(tenant.Flat(q.Namespace).Space(), storedIn(q.Status.Used))
		}
	}
	_, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    set,
		UpdateFunc: func(_, obj any) { set(obj) },
		DeleteFunc: func(obj any) {
			if q, ok := objects.LastKnown[*corev1.ResourceQuota](obj); ok && IsTenantQuota(q) {
				memory.SetStored(tenant.Flat(q.Namespace).Space(), 0)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watching what tenants have stored: %w", err)
	}
	return nil
}

// storedIn returns how many bytes of etcd there are in what is used or added.
func storedIn(amounts corev1.ResourceList) int64 {
	bytes := amounts[v1alpha1.ResourceStoredBytes]
	return bytes.Value()
}
