package translate

import (
	"fmt"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/storage/ephemeral"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

// claimKind is the kind of what a volume may be a copy of.
const claimKind = "PersistentVolumeClaim"

// CheckClaim returns what of a claim, or of a template of claims, that has no volume yet, a host must not get. path is
// that of its spec. Whether its class is published is not among it, because that may change.
func CheckClaim(spec *corev1.PersistentVolumeClaimSpec, path *field.Path) field.ErrorList {
	return append(checkFields(reflect.ValueOf(spec).Elem(), path), checkClaim(spec, path)...)
}

// checkClaim returns what the table cannot say.
func checkClaim(spec *corev1.PersistentVolumeClaimSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if spec.VolumeName != "" {
		errs = append(errs, field.Forbidden(path.Child("volumeName"), "the host cluster finds volumes, which may be anybody's; remove it"))
	}
	if class := spec.StorageClassName; class != nil && *class == "" {
		errs = append(errs, field.Forbidden(path.Child("storageClassName"), "volumes without a class are the host's own; name a class that is published"))
	}
	// Whatever else there is, the host would store: upstream counts neither.
	for at, amounts := range map[string]corev1.ResourceList{"requests": spec.Resources.Requests, "limits": spec.Resources.Limits} {
		for name := range amounts {
			if name != corev1.ResourceStorage {
				errs = append(errs, field.Forbidden(path.Child("resources", at).Key(string(name)), "a claim asks for storage alone; remove it"))
				break // one of thousands says it
			}
		}
	}
	if modes := spec.AccessModes; len(sets.New(modes...)) < len(modes) {
		errs = append(errs, field.Forbidden(path.Child("accessModes"), "it has a mode twice; name each once"))
	}
	const rule = "a volume is a copy of that of a PersistentVolumeClaim of the same namespace, or of nothing; remove it"
	if source := spec.DataSource; source != nil && !isClaim(source.APIGroup, source.Kind) {
		errs = append(errs, field.Forbidden(path.Child("dataSource"), rule))
	}
	if source := spec.DataSourceRef; source != nil && !isClaim(source.APIGroup, source.Kind) {
		errs = append(errs, field.Forbidden(path.Child("dataSourceRef"), rule))
	}
	return errs
}

func isClaim(group *string, kind string) bool {
	return (group == nil || *group == "") && kind == claimKind
}

// checkVolumes refuses claims that a pod is to have made for it, and too many claims.
func checkVolumes(volumes []corev1.Volume, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	claims := 0
	for i := range volumes {
		v := &volumes[i]
		if v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			claims++
		}
		if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
			errs = append(errs, checkClaim(&v.Ephemeral.VolumeClaimTemplate.Spec, path.Index(i).Child("ephemeral", "volumeClaimTemplate", "spec"))...)
		}
	}
	if claims > maxReferences {
		errs = append(errs, field.Forbidden(path, fmt.Sprintf("it names %d claims, and a pod that runs on a host cluster names at most %d", claims, maxReferences)))
	}
	return errs
}

// nameClaims puts the claims that upstream's controller makes in the space for ephemeral volumes in the place of these:
// a host would make its own, which no quota of the space counts.
func nameClaims(pod *corev1.Pod, spec *corev1.PodSpec) {
	for i := range spec.Volumes {
		if v := &spec.Volumes[i]; v.Ephemeral != nil {
			v.VolumeSource = corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: ephemeral.VolumeClaimName(pod, v)}}
		}
	}
}

// Claim returns the PersistentVolumeClaim of the host for one of a space, which CheckClaim has nothing against. The
// host has the class of the same name. The result shares nothing with its input.
func Claim(claim *corev1.PersistentVolumeClaim, home names.Namespace) *corev1.PersistentVolumeClaim {
	spec := claim.Spec.DeepCopy()
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: home.Meta(claim.Name, claim),
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: spec.AccessModes, Resources: spec.Resources, VolumeMode: spec.VolumeMode, DataSource: spec.DataSource,
			StorageClassName: new(storagehelpers.GetPersistentVolumeClaimClass(claim)),
		},
	}
}

// ClaimStatus returns the status of a claim of a space, whose host's has another one. What the space's own controllers
// say stays.
func ClaimStatus(host, claim *corev1.PersistentVolumeClaim) corev1.PersistentVolumeClaimStatus {
	has := host.Status.DeepCopy()
	status := corev1.PersistentVolumeClaimStatus{
		Phase: has.Phase, AccessModes: has.AccessModes, Capacity: has.Capacity,
		AllocatedResources: has.AllocatedResources, AllocatedResourceStatuses: has.AllocatedResourceStatuses,
	}
	for _, c := range has.Conditions {
		if told, ok := resizing[c.Type]; ok {
			c.Message, c.Reason = told, ""
			status.Conditions = append(status.Conditions, c)
		}
	}
	for _, c := range claim.Status.Conditions {
		if _, ofHost := resizing[c.Type]; !ofHost {
			status.Conditions = append(status.Conditions, c)
		}
	}
	return status
}

// resizing are the conditions of a host's claim of which a space is told, and what it is told of them: the host's
// messages name what is the host's.
var resizing = map[corev1.PersistentVolumeClaimConditionType]string{
	corev1.PersistentVolumeClaimResizing:                "",
	corev1.PersistentVolumeClaimFileSystemResizePending: "Waiting for user to (re-)start a pod to finish file system resize of volume on node.",
	corev1.PersistentVolumeClaimControllerResizeError:   "the host cluster could not resize the volume",
	corev1.PersistentVolumeClaimNodeResizeError:         "the host cluster could not resize the volume on the node",
}

// Volume returns the PersistentVolume that a space is shown for a claim that the host has bound to a volume of its own.
// It is nothing but that: the host's claim decides what a pod gets. name is that of the object for a client of the
// flattened view.
func Volume(name string, claim *corev1.PersistentVolumeClaim, host *corev1.PersistentVolumeClaim, namespace string, policy corev1.PersistentVolumeReclaimPolicy) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{names.HostUIDAnnotation: string(host.UID)}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: host.Status.Capacity[corev1.ResourceStorage]},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: names.VolumeDriver, VolumeHandle: string(claim.UID),
			}},
			AccessModes: slices.Clone(host.Status.AccessModes), PersistentVolumeReclaimPolicy: policy,
			StorageClassName: storagehelpers.GetPersistentVolumeClaimClass(claim), VolumeMode: claim.Spec.VolumeMode,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: claimKind, Namespace: namespace, Name: claim.Name, UID: claim.UID,
			},
		},
	}
}

// IsVolumeOf reports whether a volume of a space is the one that is shown for a claim that the host has bound.
func IsVolumeOf(volume *corev1.PersistentVolume, claim, host *corev1.PersistentVolumeClaim) bool {
	ref := volume.Spec.ClaimRef
	return volume.Annotations[names.HostUIDAnnotation] == string(host.UID) && ref != nil && ref.UID == claim.UID
}
