package kubecontrollers

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/volume/vacprotection"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Upstream's protection of VolumeAttributesClasses looks for claims and volumes by the name of the class that they
// have. In the flattened view they have it as it is in their space, and the class has another one: the controller would
// hold the platform's class for the claim of a tenant, and that of a tenant for none. So it is shown claims and volumes
// with flattened names of classes.

func newVACProtection(ctx context.Context, e *environment) (runner, error) {
	core := e.informers.Core().V1()
	claims := offered[corelisters.PersistentVolumeClaimLister]{newFlatClasses(core.PersistentVolumeClaims().Informer()), core.PersistentVolumeClaims().Lister()}
	volumes := offered[corelisters.PersistentVolumeLister]{newFlatClasses(core.PersistentVolumes().Informer()), core.PersistentVolumes().Lister()}
	classes := offeredIfInTurn(e.debts, e.informers.Storage().V1().VolumeAttributesClasses().Informer(), storagelisters.NewVolumeAttributesClassLister)
	return vacprotection.NewVACProtectionController(klog.FromContext(ctx), e.client, claims, volumes, classes)
}

// flatClasses is an informer of claims or volumes whose handlers and indexes see flattened names of classes.
type flatClasses struct{ wrapping }

func newFlatClasses(informer cache.SharedIndexInformer) flatClasses {
	return flatClasses{wrapping{informer, func(handler cache.ResourceEventHandler) cache.ResourceEventHandler {
		return cache.ResourceEventHandlerDetailedFuncs{
			AddFunc:    func(obj any, initial bool) { handler.OnAdd(withFlatClasses(obj), initial) },
			UpdateFunc: func(old, obj any) { handler.OnUpdate(withFlatClasses(old), withFlatClasses(obj)) },
			DeleteFunc: func(obj any) { handler.OnDelete(withFlatClasses(lastKnown(obj))) },
		}
	}}}
}

// AddIndexers implements cache.SharedIndexInformer.
func (i flatClasses) AddIndexers(indexers cache.Indexers) error {
	flat := make(cache.Indexers, len(indexers))
	for name, index := range indexers {
		flat[name] = func(obj any) ([]string, error) { return index(withFlatClasses(obj)) }
	}
	return i.SharedIndexInformer.AddIndexers(flat)
}

// withFlatClasses returns what says of a claim or volume which classes it has, by their flattened names.
func withFlatClasses(obj any) any {
	of := func(name tenant.Flat, class *string) *string {
		if class == nil {
			return nil
		}
		return new(tenant.Flatten(name.Space(), *class).String())
	}
	switch o := obj.(type) {
	case *corev1.PersistentVolume:
		if o.Spec.VolumeAttributesClassName == nil {
			return o
		}
		return &corev1.PersistentVolume{ObjectMeta: o.ObjectMeta, Spec: corev1.PersistentVolumeSpec{VolumeAttributesClassName: of(tenant.Flat(o.Name), o.Spec.VolumeAttributesClassName)}}
	case *corev1.PersistentVolumeClaim:
		in, change := tenant.Flat(o.Namespace), o.Status.ModifyVolumeStatus
		if o.Spec.VolumeAttributesClassName == nil && o.Status.CurrentVolumeAttributesClassName == nil && change == nil {
			return o
		}
		flat := &corev1.PersistentVolumeClaim{ObjectMeta: o.ObjectMeta}
		flat.Spec.VolumeAttributesClassName = of(in, o.Spec.VolumeAttributesClassName)
		flat.Status.CurrentVolumeAttributesClassName = of(in, o.Status.CurrentVolumeAttributesClassName)
		if change != nil {
			flat.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{TargetVolumeAttributesClassName: *of(in, &change.TargetVolumeAttributesClassName)}
		}
		return flat
	default:
		return obj
	}
}
