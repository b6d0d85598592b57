package admission

import (
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"

	"github.com/tenantry/tenantry/internal/server/bounds"
)

// quickDefaults keeps upstream from adding and comparing quantities that take long, which a
// tenant's policy has put into an object. Defaults are what comes first after a policy, and
// cannot fail: the object is emptied, and the request refused afterwards.
type quickDefaults struct {
	admission.ObjectInterfaces
	err error
}

// GetObjectDefaulter implements admission.ObjectInterfaces.
func (q *quickDefaults) GetObjectDefaulter() runtime.ObjectDefaulter { return q }

// Default implements runtime.ObjectDefaulter.
func (q *quickDefaults) Default(object runtime.Object) {
	_, custom := object.(runtime.Unstructured) // without quantities
	if err := bounds.Quantities(object); err != nil && !custom {
		q.err = err
		reflect.ValueOf(object).Elem().SetZero()
		return
	}
	q.ObjectInterfaces.GetObjectDefaulter().Default(object)
}
