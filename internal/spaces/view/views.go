package view

import (
	"fmt"
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/tenant"
)

// spaceIndex is the index of cluster-scoped objects by their space.
const spaceIndex = "tenantry.io/space"

// Views makes views of the spaces.
type Views struct {
	flat informers.SharedInformerFactory

	mu sync.Mutex
	// hubs has the hub of each informer, by its indexer: informers are wrapped anew
	// at each request for one.
	hubs    map[cache.Indexer]*Hub
	builtin map[reflect.Type]map[string]runtime.Object
}

// New returns views of the spaces in flat, a factory of flattened informers.
func New(flat informers.SharedInformerFactory) *Views {
	return &Views{
		flat:    flat,
		hubs:    map[cache.Indexer]*Hub{},
		builtin: map[reflect.Type]map[string]runtime.Object{},
	}
}

// Index makes it independent of the number of spaces how long a list of one space's objects
// takes, at the cost of an index. It must be called before the informers run.
func (v *Views) Index(informer cache.SharedIndexInformer) error {
	if _, ok := informer.GetIndexer().GetIndexers()[spaceIndex]; ok {
		return nil
	}
	if err := informer.AddIndexers(cache.Indexers{spaceIndex: indexBySpace}); err != nil {
		return fmt.Errorf("indexing objects by space: %w", err)
	}
	return nil
}

func indexBySpace(obj any) ([]string, error) {
	n, err := spaceOf(obj)
	if err != nil {
		return nil, err
	}
	return []string{n.String()}, nil
}

// AddBuiltin adds objects to every tenant's space that has no object of the same
// name. They are found by name and do not appear in lists.
func (v *Views) AddBuiltin(objects ...runtime.Object) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, obj := range objects {
		keyed.Set(v.builtin, reflect.TypeOf(obj), obj.(metav1.Object).GetName(), obj)
	}
}

// Hub returns the hub of an informer of flat. Afterwards, handlers can be added to the
// views' informers of its type.
func (v *Views) Hub(informer cache.SharedIndexInformer) (*Hub, error) {
	if err := v.Index(informer); err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if hub, ok := v.hubs[informer.GetIndexer()]; ok {
		return hub, nil
	}
	hub, err := newHub(informer)
	if err != nil {
		return nil, fmt.Errorf("watching every space: %w", err)
	}
	v.hubs[informer.GetIndexer()] = hub
	return hub, nil
}

// Of returns the informers of the space of n.
func (v *Views) Of(n tenant.Name) informers.SharedInformerFactory {
	return Factory(v.flat, func(obj runtime.Object, newFunc internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
		flat := v.flat.InformerFor(obj, newFunc)
		v.mu.Lock()
		defer v.mu.Unlock()
		return &informer{
			SharedIndexInformer: flat,
			indexer:             indexer{flat: flat.GetIndexer(), tenant: n, builtin: v.builtin[reflect.TypeOf(obj)]},
			hub:                 v.hubs[flat.GetIndexer()],
		}
	})
}
