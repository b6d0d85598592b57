package definition

import (
	"context"

	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Parts are the parts of a T beside its metadata.
type Parts[T, S any] struct {
	// Spec returns what makes another generation when it changes.
	Spec func(*T) any
	// Status returns what only the subresource of that name changes.
	Status func(*T) *S
}

// Strategy is common to the strategies of all built-in types with a definition: they are
// cluster-scoped, may be updated unconditionally, count their generations, and have a status
// that requests of the main resource leave alone.
type Strategy[T, S any] struct {
	runtime.ObjectTyper
	names.NameGenerator
	Rules *Rules
	Parts[T, S]
}

// NewStrategy reads a definition in YAML. It returns the strategy and the table convertor
// of the resource.
func NewStrategy[T, S any](typer runtime.ObjectTyper, manifest []byte, parts Parts[T, S]) (Strategy[T, S], rest.TableConvertor, error) {
	rules, err := NewRules(manifest)
	if err != nil {
		return Strategy[T, S]{}, nil, err
	}
	table, err := tableconvertor.New(rules.Columns)
	return Strategy[T, S]{ObjectTyper: typer, NameGenerator: names.SimpleNameGenerator, Rules: rules, Parts: parts}, table, err
}

// PrepareForCreate implements rest.RESTCreateStrategy.
func (s Strategy[T, S]) PrepareForCreate(_ context.Context, obj runtime.Object) {
	obj.(metav1.Object).SetGeneration(1)
	*s.Status(any(obj).(*T)) = *new(S)
}

// PrepareForUpdate implements rest.RESTUpdateStrategy. Objects share the status afterwards.
func (s Strategy[T, S]) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	is, was := any(obj).(*T), any(old).(*T)
	*s.Status(is) = *s.Status(was)
	if !apiequality.Semantic.DeepEqual(s.Spec(is), s.Spec(was)) {
		obj.(metav1.Object).SetGeneration(old.(metav1.Object).GetGeneration() + 1)
	}
}

// ValidateUpdate implements rest.RESTUpdateStrategy.
func (s Strategy[T, S]) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	return s.Rules.Validate(ctx, obj, old)
}

// GetResetFields implements rest.ResetFieldsStrategy.
func (Strategy[T, S]) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return ResetFields("status")
}

// NamespaceScoped implements rest.RESTCreateStrategy.
func (Strategy[T, S]) NamespaceScoped() bool { return false }

// AllowCreateOnUpdate implements rest.RESTUpdateStrategy.
func (Strategy[T, S]) AllowCreateOnUpdate(context.Context) bool { return false }

// AllowUnconditionalUpdate implements rest.RESTUpdateStrategy.
func (Strategy[T, S]) AllowUnconditionalUpdate(context.Context) bool { return true }

// Canonicalize implements rest.RESTCreateStrategy.
func (Strategy[T, S]) Canonicalize(runtime.Object) {}

// WarningsOnCreate implements rest.RESTCreateStrategy.
func (Strategy[T, S]) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }

// WarningsOnUpdate implements rest.RESTUpdateStrategy.
func (Strategy[T, S]) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

// object is a pointer to a type of the API.
type object[T any] interface {
	*T
	runtime.Object
}

// NewStore returns the store of a resource, whose objects are Ts and whose lists are Ls.
func NewStore[T, L any, O object[T], LO object[L]](options generic.RESTOptionsGetter, resource schema.GroupResource, singular string,
	s interface {
		rest.RESTCreateUpdateStrategy
		rest.RESTDeleteStrategy
		rest.ResetFieldsStrategy
	}, table rest.TableConvertor,
) (*genericregistry.Store, error) {
	store := &genericregistry.Store{
		NewFunc:                   func() runtime.Object { return O(new(T)) },
		NewListFunc:               func() runtime.Object { return LO(new(L)) },
		DefaultQualifiedResource:  resource,
		SingularQualifiedResource: schema.GroupResource{Group: resource.Group, Resource: singular},
		CreateStrategy:            s,
		UpdateStrategy:            s,
		DeleteStrategy:            s,
		ResetFieldsStrategy:       s,
		TableConvertor:            table,
	}
	return store, store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: options})
}
