package admission

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	auditapi "k8s.io/apiserver/pkg/apis/audit"

	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/internal/tenant"
)

// flatAttributes is a request with flattened names. Objects are flattened on demand,
// because most plugins ignore most requests.
type flatAttributes struct {
	admission.Attributes
	tenant tenant.Name
	// inPlace flattens the object itself, so that a plugin's changes reach it.
	// Otherwise the plugin gets a copy.
	inPlace           bool
	object, oldObject runtime.Object
}

// flattenInPlace flattens a request whose object a plugin may change. restore must be
// called before anything else uses the object.
func flattenInPlace(a admission.Attributes, n tenant.Name) *flatAttributes {
	return &flatAttributes{Attributes: a, tenant: n, inPlace: true}
}

// flattenCopy flattens a request that a plugin only reads.
func flattenCopy(a admission.Attributes, n tenant.Name) *flatAttributes {
	return &flatAttributes{Attributes: a, tenant: n}
}

// GetObject returns the object under its flattened name.
func (f *flatAttributes) GetObject() runtime.Object {
	if f.object != nil {
		return f.object
	}
	f.object = f.Attributes.GetObject()
	if f.inPlace {
		f.flatten(objectMeta(f.object))
	} else {
		f.object = f.flatCopy(f.object)
	}
	return f.object
}

// GetOldObject returns a copy of the old object under its flattened name: the
// original may be shared with a cache.
func (f *flatAttributes) GetOldObject() runtime.Object {
	if f.oldObject == nil {
		f.oldObject = f.flatCopy(f.Attributes.GetOldObject())
	}
	return f.oldObject
}

// restore makes the names of an object that was flattened in place plain again.
func (f *flatAttributes) restore() {
	accessor := objectMeta(f.object)
	if !f.inPlace || accessor == nil {
		return
	}
	namespace := tenant.Flat(accessor.GetNamespace()).Plain()
	accessor.SetNamespace(namespace)
	if isNamespace(f.Attributes) {
		name := tenant.Flat(accessor.GetName()).Plain()
		accessor.SetName(name)
	}
}

func (f *flatAttributes) flatCopy(obj runtime.Object) runtime.Object {
	if objectMeta(obj) == nil {
		return obj
	}
	copied := objects.ShallowCopy(obj)
	f.flatten(objectMeta(copied))
	return copied
}

func (f *flatAttributes) flatten(accessor metav1.Object) {
	if accessor == nil {
		return
	}
	if namespace := accessor.GetNamespace(); namespace != "" {
		accessor.SetNamespace(tenant.Flatten(f.tenant, namespace).String())
	}
	if name := accessor.GetName(); name != "" && isNamespace(f.Attributes) {
		accessor.SetName(tenant.Flatten(f.tenant, name).String())
	}
}

// objectMeta returns the metadata of obj, or nil if it has none.
func objectMeta(obj runtime.Object) metav1.Object {
	accessor, _ := meta.Accessor(obj) // its only error
	return accessor
}

func isNamespace(a admission.Attributes) bool {
	return a.GetKind().GroupKind() == schema.GroupKind{Kind: "Namespace"}
}

// GetNamespace returns the flattened namespace.
func (f *flatAttributes) GetNamespace() string {
	return tenant.Flatten(f.tenant, f.Attributes.GetNamespace()).String()
}

// GetName returns the name, flattened if it is a namespace's.
func (f *flatAttributes) GetName() string {
	if isNamespace(f.Attributes) {
		return tenant.Flatten(f.tenant, f.Attributes.GetName()).String()
	}
	return f.Attributes.GetName()
}

// AddAnnotation adds a plain value to the audit event.
func (f *flatAttributes) AddAnnotation(key, value string) error {
	return f.Attributes.AddAnnotation(key, tenant.PlainText(value, f.tenant))
}

// AddAnnotationWithLevel adds a plain value to the audit event.
func (f *flatAttributes) AddAnnotationWithLevel(key, value string, level auditapi.Level) error {
	return f.Attributes.AddAnnotationWithLevel(key, tenant.PlainText(value, f.tenant), level)
}
