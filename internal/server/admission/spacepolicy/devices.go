package spacepolicy

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/resource"
)

// checkDevices refuses administrative access to devices, which sees through the
// claims of others. Whether a namespace is labelled for it is not even asked. What
// has it already can be changed otherwise, and deleted.
func checkDevices(a admission.Attributes) error {
	asked, given := forAdmins(a.GetObject())
	if a.GetOperation() == admission.Update {
		before, already := forAdmins(a.GetOldObject())
		asked, given = asked && !before, given && !already
	}
	if !asked && !given {
		return nil
	}
	return forbidden(a, "devices belong to the platform, and a space has no administrative access to them; remove adminAccess")
}

// forAdmins reports whether an object asks for administrative access to devices, and
// whether it says that it was given.
func forAdmins(obj runtime.Object) (asked, given bool) {
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
