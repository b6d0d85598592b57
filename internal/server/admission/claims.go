package admission

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/internal/spaces/view"
	"github.com/tenantry/tenantry/internal/tenant"
)

// withFlatClaims returns shared with claims that refer to their volumes by flattened
// names; the flattened view only flattens the names of objects. NodeRestriction looks up the
// volume of a claim, and the plain name is that of a volume of the system space.
func withFlatClaims(shared informers.SharedInformerFactory) informers.SharedInformerFactory {
	return view.Factory(shared, func(obj runtime.Object, newFunc internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
		informer := shared.InformerFor(obj, newFunc)
		if _, ok := obj.(*corev1.PersistentVolumeClaim); ok {
			return flatClaims{informer}
		}
		return informer
	})
}

type flatClaims struct{ cache.SharedIndexInformer }

func (f flatClaims) GetIndexer() cache.Indexer {
	return flatClaimIndexer{f.SharedIndexInformer.GetIndexer()}
}

type flatClaimIndexer struct{ cache.Indexer }

// GetByKey returns the claim named key.
func (i flatClaimIndexer) GetByKey(key string) (any, bool, error) {
	obj, exists, err := i.Indexer.GetByKey(key)
	claim, ok := obj.(*corev1.PersistentVolumeClaim)
	if !ok || claim.Spec.VolumeName == "" {
		return obj, exists, err
	}
	flat := objects.ShallowCopy(claim).(*corev1.PersistentVolumeClaim)
	flat.Spec.VolumeName = tenant.Flatten(tenant.Flat(claim.Namespace).Space(), claim.Spec.VolumeName).String()
	return flat, exists, err
}
