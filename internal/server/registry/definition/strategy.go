package definition

import (
	"context"

	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
)

// Strategy is common to the strategies of all built-in types with a definition: they are
// cluster-scoped, and may be updated unconditionally.
type Strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	Rules *Rules
}

// NewStrategy reads a definition in YAML. It returns the strategy and the table convertor
// of the resource.
func NewStrategy(typer runtime.ObjectTyper, manifest []byte) (Strategy, rest.TableConvertor, error) {
	rules, err := NewRules(manifest)
	if err != nil {
		return Strategy{}, nil, err
	}
	table, err := tableconvertor.New(rules.Columns)
	return Strategy{ObjectTyper: typer, NameGenerator: names.SimpleNameGenerator, Rules: rules}, table, err
}

// NamespaceScoped implements rest.RESTCreateStrategy.
func (Strategy) NamespaceScoped() bool { return false }

// AllowCreateOnUpdate implements rest.RESTUpdateStrategy.
func (Strategy) AllowCreateOnUpdate(context.Context) bool { return false }

// AllowUnconditionalUpdate implements rest.RESTUpdateStrategy.
func (Strategy) AllowUnconditionalUpdate(context.Context) bool { return true }

// Canonicalize implements rest.RESTCreateStrategy.
func (Strategy) Canonicalize(runtime.Object) {}

// WarningsOnCreate implements rest.RESTCreateStrategy.
func (Strategy) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }

// WarningsOnUpdate implements rest.RESTUpdateStrategy.
func (Strategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

// NewStore returns the store of a resource.
func NewStore(options generic.RESTOptionsGetter, resource schema.GroupResource, singular string, newFunc, newListFunc func() runtime.Object,
	s interface {
		rest.RESTCreateUpdateStrategy
		rest.RESTDeleteStrategy
		rest.ResetFieldsStrategy
	}, table rest.TableConvertor,
) (*genericregistry.Store, error) {
	store := &genericregistry.Store{
		NewFunc:                   newFunc,
		NewListFunc:               newListFunc,
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
