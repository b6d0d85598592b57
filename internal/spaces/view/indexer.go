package view

import (
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/tenant"
)

var errReadOnly = errors.New("a view of a space is read-only")

// indexer is the part of a flattened indexer that belongs to one space.
type indexer struct {
	flat    cache.Indexer
	tenant  tenant.Name
	builtin map[string]runtime.Object
}

var _ cache.Indexer = indexer{}

// List returns the objects of the space.
func (i indexer) List() []any {
	if _, indexed := i.flat.GetIndexers()[spaceIndex]; indexed {
		objects, err := i.flat.ByIndex(spaceIndex, i.tenant.String())
		if err == nil {
			return plainAll(objects)
		}
	}
	var objects []any
	for _, obj := range i.flat.List() {
		if n, err := spaceOf(obj); err == nil && n == i.tenant {
			objects = append(objects, plain(obj))
		}
	}
	return objects
}

func plainAll(objects []any) []any {
	result := make([]any, len(objects))
	for at, obj := range objects {
		result[at] = plain(obj)
	}
	return result
}

// ListKeys returns the keys of the space's objects.
func (i indexer) ListKeys() []string {
	objects := i.List()
	keys := make([]string, 0, len(objects))
	for _, obj := range objects {
		if key, err := cache.MetaNamespaceKeyFunc(obj); err == nil {
			keys = append(keys, key)
		}
	}
	return keys
}

// Get returns the object with the name and namespace of obj.
func (i indexer) Get(obj any) (any, bool, error) {
	key, err := cache.MetaNamespaceKeyFunc(obj)
	if err != nil {
		return nil, false, err
	}
	return i.GetByKey(key)
}

// GetByKey returns the object named namespace/name, or name.
func (i indexer) GetByKey(key string) (any, bool, error) {
	first, _, _ := strings.Cut(key, "/") // the namespace or, without one, the name
	obj, exists, err := i.flat.GetByKey(tenant.Flatten(i.tenant, first).String() + key[len(first):])
	if err != nil || exists {
		return plain(obj), exists, err
	}
	if builtin, ok := i.builtin[key]; ok && i.tenant.IsSpace() {
		return builtin, true, nil
	}
	return nil, false, nil
}

// Index returns the objects of the space that share a namespace with obj. There
// is no other index in a view.
func (i indexer) Index(name string, obj any) ([]any, error) {
	accessor, ok := obj.(metav1.Object)
	if !ok {
		return nil, fmt.Errorf("%T has no namespace", obj)
	}
	return i.ByIndex(name, accessor.GetNamespace())
}

// ByIndex returns the objects of a namespace.
func (i indexer) ByIndex(name, value string) ([]any, error) {
	if name != cache.NamespaceIndex {
		return nil, fmt.Errorf("a view of a space has no index %q", name)
	}
	objects, err := i.flat.ByIndex(name, tenant.Flatten(i.tenant, value).String())
	return plainAll(objects), err
}

// IndexKeys is not offered.
func (i indexer) IndexKeys(name, _ string) ([]string, error) {
	return nil, fmt.Errorf("a view of a space has no keys of index %q", name)
}

func (i indexer) ListIndexFuncValues(string) []string  { return nil }
func (i indexer) GetIndexers() cache.Indexers          { return cache.Indexers{} }
func (i indexer) AddIndexers(cache.Indexers) error     { return errReadOnly }
func (i indexer) Add(any) error                        { return errReadOnly }
func (i indexer) Update(any) error                     { return errReadOnly }
func (i indexer) Delete(any) error                     { return errReadOnly }
func (i indexer) Replace([]any, string) error          { return errReadOnly }
func (i indexer) Resync() error                        { return errReadOnly }
func (i indexer) Bookmark(string)                      {}
func (i indexer) LastStoreSyncResourceVersion() string { return i.flat.LastStoreSyncResourceVersion() }
