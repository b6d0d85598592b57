package admission

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"

	"github.com/tenantry/tenantry/internal/server/admission/view"
	"github.com/tenantry/tenantry/internal/tenant"
)

// flatAttributes is a request as it looks on flattened names.
type flatAttributes struct {
	admission.Attributes
	tenant            tenant.Name
	object, oldObject runtime.Object
}

// flattenInPlace flattens a request whose object a plugin may change. The object
// itself is flattened, so that changes reach it; restore makes its names plain
// again and must be called before anybody else sees it.
func flattenInPlace(a admission.Attributes, n tenant.Name) (flat *flatAttributes, restore func()) {
	flat = &flatAttributes{Attributes: a, tenant: n, object: a.GetObject(), oldObject: flatCopy(a, a.GetOldObject(), n)}
	accessor := objectMeta(flat.object)
	if accessor == nil {
		return flat, func() {}
	}
	flattenMeta(a, accessor, n)
	return flat, func() {
		_, namespace := tenant.Unflatten(accessor.GetNamespace())
		accessor.SetNamespace(namespace)
		if isNamespace(a) {
			_, name := tenant.Unflatten(accessor.GetName())
			accessor.SetName(name)
		}
	}
}

// flattenCopy flattens a request that a plugin only reads.
func flattenCopy(a admission.Attributes, n tenant.Name) *flatAttributes {
	return &flatAttributes{
		Attributes: a, tenant: n,
		object: flatCopy(a, a.GetObject(), n), oldObject: flatCopy(a, a.GetOldObject(), n),
	}
}

func flatCopy(a admission.Attributes, obj runtime.Object, n tenant.Name) runtime.Object {
	if objectMeta(obj) == nil {
		return obj
	}
	copied := view.ShallowCopy(obj)
	flattenMeta(a, objectMeta(copied), n)
	return copied
}

// objectMeta returns the metadata of obj, or nil if it has none.
func objectMeta(obj runtime.Object) metav1.Object {
	if obj == nil {
		return nil
	}
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return nil
	}
	return accessor
}

func flattenMeta(a admission.Attributes, accessor metav1.Object, n tenant.Name) {
	if namespace := accessor.GetNamespace(); namespace != "" {
		accessor.SetNamespace(tenant.Flatten(n, namespace))
	}
	if name := accessor.GetName(); name != "" && isNamespace(a) {
		accessor.SetName(tenant.Flatten(n, name))
	}
}

func isNamespace(a admission.Attributes) bool {
	return a.GetKind().GroupKind() == schema.GroupKind{Kind: "Namespace"}
}

func (f *flatAttributes) GetNamespace() string {
	return tenant.Flatten(f.tenant, f.Attributes.GetNamespace())
}

func (f *flatAttributes) GetName() string {
	if isNamespace(f.Attributes) {
		return tenant.Flatten(f.tenant, f.Attributes.GetName())
	}
	return f.Attributes.GetName()
}

func (f *flatAttributes) GetObject() runtime.Object    { return f.object }
func (f *flatAttributes) GetOldObject() runtime.Object { return f.oldObject }

// AddAnnotation adds a plain value to the audit event.
func (f *flatAttributes) AddAnnotation(key, value string) error {
	return f.Attributes.AddAnnotation(key, view.PlainText(value, f.tenant))
}

// AddAnnotationWithLevel adds a plain value to the audit event.
func (f *flatAttributes) AddAnnotationWithLevel(key, value string, level auditinternal.Level) error {
	return f.Attributes.AddAnnotationWithLevel(key, view.PlainText(value, f.tenant), level)
}
