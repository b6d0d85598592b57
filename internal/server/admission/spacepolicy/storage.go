package spacepolicy

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1conversion "k8s.io/kubernetes/pkg/apis/core/v1"

	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// ofStorage returns why a request about a claim or volume says what the host is to say, empty if it does not.
func ofStorage(a admission.Attributes) string {
	switch now := a.GetObject().(type) {
	case *core.PersistentVolume:
		before, ok := a.GetOldObject().(*core.PersistentVolume)
		return ofVolume(now, before, ok && before != nil, a.GetSubresource())
	case *core.PersistentVolumeClaim:
		before, ok := a.GetOldObject().(*core.PersistentVolumeClaim)
		if !ok || before == nil {
			before = &core.PersistentVolumeClaim{}
		}
		return ofClaim(now, before, a.GetSubresource())
	default:
		return ""
	}
}

// ofVolume is ofStorage for volumes. A tenant's own could be anybody's on the host.
func ofVolume(now, before *core.PersistentVolume, exists bool, subresource string) string {
	switch {
	case !exists:
		return "spec: volumes of a space are those that the host cluster has found for its claims; make a PersistentVolumeClaim, with a class that is published"
	case subresource == "" && !equality.Semantic.DeepEqual(now.Spec, before.Spec):
		return "spec is what the host cluster says of the volume; leave it as it is"
	case subresource == "status" && !equality.Semantic.DeepEqual(now.Status, before.Status):
		return "status is what the host cluster says of the volume; leave it as it is"
	default:
		return ""
	}
}

// ofClaim is ofStorage for claims.
func ofClaim(now, before *core.PersistentVolumeClaim, subresource string) string {
	wants, has := now.Spec.Resources.Requests[core.ResourceStorage], before.Spec.Resources.Requests[core.ResourceStorage]
	switch {
	case slices.Contains(before.Finalizers, names.ClaimFinalizer) && !slices.Contains(now.Finalizers, names.ClaimFinalizer):
		return "metadata.finalizers: " + names.ClaimFinalizer + " goes by itself when the host cluster has nothing of the claim any more; leave it"
	case subresource == "" && now.Spec.VolumeName != before.Spec.VolumeName:
		return "spec.volumeName: the host cluster finds volumes, which may be anybody's; leave it as it is, and out of a new claim"
	case subresource == "" && wants.Cmp(has) < 0:
		return "spec.resources.requests: the host cluster makes no volume smaller; ask for as much as before, or more"
	case subresource == "status" && !equality.Semantic.DeepEqual(now.Status, before.Status):
		return "status is what the host cluster says of the claim; leave it as it is"
	default:
		return ""
	}
}

// unfitClaims returns what a host must not get of a claim, or of an object's templates of claims.
func unfitClaims(obj runtime.Object) (found field.ErrorList, err error) {
	check := func(spec core.PersistentVolumeClaimSpec, path *field.Path) {
		var versioned corev1.PersistentVolumeClaimSpec
		if failed := corev1conversion.Convert_core_PersistentVolumeClaimSpec_To_v1_PersistentVolumeClaimSpec(&spec, &versioned, nil); failed != nil {
			err = fmt.Errorf("reading %s: %w", path, failed)
			return
		}
		found = append(found, translate.CheckClaim(&versioned, path)...)
	}
	switch o := obj.(type) {
	case *core.PersistentVolumeClaim:
		spec := o.Spec
		spec.VolumeName = "" // ofClaim has looked at it
		check(spec, field.NewPath("spec"))
	case *apps.StatefulSet:
		for i := range o.Spec.VolumeClaimTemplates {
			check(o.Spec.VolumeClaimTemplates[i].Spec, field.NewPath("spec", "volumeClaimTemplates").Index(i).Child("spec"))
		}
	}
	return found, err
}
