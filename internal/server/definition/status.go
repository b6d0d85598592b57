package definition

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// StatusReader serves the subresource status where the server alone writes it.
type StatusReader struct{ Store *genericregistry.Store }

// New implements rest.Storage.
func (r StatusReader) New() runtime.Object { return r.Store.New() }

// Destroy implements rest.Storage. The store is the main resource's to destroy.
func (StatusReader) Destroy() {}

// Get implements rest.Getter.
func (r StatusReader) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return r.Store.Get(ctx, name, options)
}

// ConvertToTable implements rest.TableConvertor.
func (r StatusReader) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	return r.Store.ConvertToTable(ctx, obj, options)
}

// StatusREST serves the subresource status from a store whose update strategy changes
// nothing else.
type StatusREST struct{ StatusReader }

var _ rest.Patcher = StatusREST{}

// NewStatusREST returns the storage of the subresource of what store serves.
func NewStatusREST(store *genericregistry.Store, s interface {
	rest.RESTUpdateStrategy
	rest.ResetFieldsStrategy
}) StatusREST {
	status := *store
	status.AfterUpdate = nil // decides nothing
	status.UpdateStrategy, status.ResetFieldsStrategy = s, s
	return StatusREST{StatusReader{&status}}
}

// Update implements rest.Updater.
func (r StatusREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return r.Store.Update(ctx, name, info, create, update, false, options)
}

// GetResetFields implements rest.ResetFieldsStrategy.
func (r StatusREST) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return r.Store.GetResetFields()
}

// StatusStrategy are the rules for the subresource status of a T.
type StatusStrategy[T, S any] struct {
	rest.RESTUpdateStrategy
	status func(*T) *S
}

// NewStatusStrategy returns the rules for the subresource status of what main has those for.
func NewStatusStrategy[T, S any](main rest.RESTUpdateStrategy, parts Parts[T, S]) StatusStrategy[T, S] {
	return StatusStrategy[T, S]{main, parts.Status}
}

// PrepareForUpdate implements rest.RESTUpdateStrategy. All but the status is as it was.
func (s StatusStrategy[T, S]) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	is, object := any(obj).(*T), obj.(metav1.Object)
	status, managed := *s.status(is), object.GetManagedFields()
	old.(interface{ DeepCopyInto(*T) }).DeepCopyInto(is)
	*s.status(is) = status
	object.SetManagedFields(managed)
}

// WarningsOnUpdate implements rest.RESTUpdateStrategy. The rest is not the writer's.
func (StatusStrategy[T, S]) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

// GetResetFields implements rest.ResetFieldsStrategy.
func (StatusStrategy[T, S]) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return ResetFields("spec", "object")
}

// ResetFields are fields of an object that a request does not change, in every version.
func ResetFields(names ...string) map[fieldpath.APIVersion]*fieldpath.Set {
	set := fieldpath.NewSet()
	for _, name := range names {
		set.Insert(fieldpath.MakePathOrDie(name))
	}
	return map[fieldpath.APIVersion]*fieldpath.Set{
		"v1": set, fieldpath.APIVersion(v1alpha1.GroupVersion.String()): set,
	}
}
