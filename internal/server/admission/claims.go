package admission

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/internal/tenant"
)

// withFlatClaims returns shared with claims that refer to their volumes by flattened
// names; the flattened view only flattens the names of objects. NodeRestriction looks up the
// volume of a claim, and the plain name is that of a volume of the system space.
func withFlatClaims(shared informers.SharedInformerFactory) informers.SharedInformerFactory {
	return withGetByKey[*corev1.PersistentVolumeClaim](shared, func(cached cache.Indexer, key string) (any, bool, error) {
		obj, exists, err := cached.GetByKey(key)
		claim, ok := obj.(*corev1.PersistentVolumeClaim)
		if !ok || claim.Spec.VolumeName == "" {
			return obj, exists, err
		}
		flat := objects.ShallowCopy(claim).(*corev1.PersistentVolumeClaim)
		flat.Spec.VolumeName = tenant.Flatten(tenant.Flat(claim.Namespace).Space(), claim.Spec.VolumeName).String()
		return flat, exists, err
	})
}
