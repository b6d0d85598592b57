package spacepolicy

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/resource"
)

// checkDevices refuses administrative access to devices, which gives access to the claims
// of others, whatever the labels of the namespace. An object that has it already can be
// changed otherwise, and deleted.
func checkDevices(a admission.Attributes) error {
	requested, given := forAdmins(a.GetObject())
	if a.GetOperation() == admission.Update {
		before, already := forAdmins(a.GetOldObject())
		requested, given = requested && !before, given && !already
	}
	if !requested && !given {
		return nil
	}
	return forbidden(a, "devices belong to the platform, and a space has no administrative access to them; remove adminAccess")
}

// forAdmins reports whether an object requests administrative access to devices, and
// whether its status says that it was given.
func forAdmins(obj runtime.Object) (requested, given bool) {
	switch o := obj.(type) {
	case *resource.ResourceClaim:
		if o.Status.Allocation != nil {
			given = slices.ContainsFunc(o.Status.Allocation.Devices.Results,
				func(r resource.DeviceRequestAllocationResult) bool { return isSet(r.AdminAccess) })
		}
		return requestsAdmin(&o.Spec), given
	case *resource.ResourceClaimTemplate:
		return requestsAdmin(&o.Spec.Spec), false
	default:
		return false, false
	}
}

func requestsAdmin(spec *resource.ResourceClaimSpec) bool {
	return slices.ContainsFunc(spec.Devices.Requests,
		func(r resource.DeviceRequest) bool { return r.Exactly != nil && isSet(r.Exactly.AdminAccess) })
}

func isSet(b *bool) bool { return b != nil && *b }
