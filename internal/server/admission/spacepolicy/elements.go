package spacepolicy

import (
	"k8s.io/apiserver/pkg/admission"

	"github.com/tenantry/tenantry/internal/server/bounds"
)

// CheckElements refuses objects with too long lists and maps, which a patch may have made of
// a short body. It is called before upstream validates, and again when webhooks and policies
// of the tenant have changed the object.
func CheckElements(a admission.Attributes) error {
	if a.GetObject() == nil {
		return nil
	}
	if err := bounds.Value(a.GetObject()); err != nil {
		return admission.NewForbidden(a, err)
	}
	return nil
}
