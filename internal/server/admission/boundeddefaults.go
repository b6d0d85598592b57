package admission

import (
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"

	"github.com/tenantry/tenantry/internal/bounds"
)

// boundedDefaults checks what each change by a tenant's webhooks and policies makes of an
// object, before the next one is asked, and before upstream adds and compares quantities that
// take long. Defaults are what comes first after a change, and cannot fail: the object is
// emptied, and the request refused afterwards.
type boundedDefaults struct {
	admission.ObjectInterfaces
	err error
}

// GetObjectDefaulter implements admission.ObjectInterfaces.
func (b *boundedDefaults) GetObjectDefaulter() runtime.ObjectDefaulter { return b }

// Default implements runtime.ObjectDefaulter.
func (b *boundedDefaults) Default(object runtime.Object) {
	if b.err == nil {
		b.err = bounds.Value(object)
	}
	if b.err == nil {
		b.ObjectInterfaces.GetObjectDefaulter().Default(object)
		return
	}
	if custom, ok := object.(*unstructured.Unstructured); ok {
		custom.Object = map[string]any{"apiVersion": custom.GetAPIVersion(), "kind": custom.GetKind(), "metadata": map[string]any{"name": custom.GetName()}}
		return
	}
	reflect.ValueOf(object).Elem().SetZero()
}
