package translate

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkResources refuses extended resources, by which a host's device plugins give pods what is on its nodes, unless
// the Tenant's quota names them, and limits that are none.
func (r Rules) checkResources(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	errs := r.checkWanted(spec.Resources, path.Child("resources"))
	for _, all := range []struct {
		name string
		of   []corev1.Container
	}{{"initContainers", spec.InitContainers}, {"containers", spec.Containers}} {
		for i := range all.of {
			errs = append(errs, r.checkWanted(&all.of[i].Resources, path.Child(all.name).Index(i).Child("resources"))...)
		}
	}
	return errs
}

func (r Rules) checkWanted(wanted *corev1.ResourceRequirements, path *field.Path) field.ErrorList {
	if wanted == nil {
		return nil
	}
	var errs field.ErrorList
	for _, list := range []struct {
		name string
		of   corev1.ResourceList
	}{{"limits", wanted.Limits}, {"requests", wanted.Requests}} {
		for _, name := range slices.Sorted(maps.Keys(list.of)) {
			if !r.mayHave(name) {
				errs = append(errs, field.Forbidden(path.Child(list.name).Key(string(name)), "devices of the host's nodes are not for this Tenant; remove it, "+
					"or ask the platform's administrators for requests."+string(name)+" in the quota of the Tenant"))
			}
		}
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if limit, ok := wanted.Limits[name]; ok && limit.Sign() <= 0 {
			errs = append(errs, field.Forbidden(path.Child("limits").Key(string(name)), "a limit of 0 is none on a node, and counts as 0 in quotas; remove it, also from defaults of LimitRanges, or set one above 0"))
		}
	}
	return errs
}

// mayHave reports whether pods may ask for a resource.
func (r Rules) mayHave(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return true
	}
	if strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
		return true
	}
	_, named := r.Quota[corev1.DefaultResourceRequestsPrefix+name]
	return named
}
