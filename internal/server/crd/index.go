package crd

import (
	"maps"
	"slices"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/process/signal"
	"github.com/tenantry/tenantry/internal/tenant"
)

// index knows which space has which definitions, and which are for all of them.
type index struct {
	mu sync.RWMutex
	// own are the names of the definitions of each tenant.
	own map[tenant.Name]map[string]struct{}
	// shared are the definitions of the system space that are or were published.
	shared map[string]state
	// visible are the names of those that spaces see, sorted.
	visible []string
	// last is the resource version of the last change of a shared definition, and more
	// is told when there is another.
	last uint64
	more signal.Broadcast
}

// state is what is known of a shared definition.
type state struct {
	// published is false for one that is published no longer: spaces do not see it, but
	// may have objects of it.
	published bool
	deleted   bool
}

func newIndex() *index {
	return &index{own: make(map[tenant.Name]map[string]struct{}), shared: make(map[string]state)}
}

// set notes a definition.
func (i *index) set(definition *metav1.PartialObjectMetadata) {
	n := spaceOf(definition)
	i.mu.Lock()
	defer i.mu.Unlock()
	if n == tenant.System {
		i.setShared(definition)
		return
	}
	keyed.Set(i.own, n, definition.Name, struct{}{})
}

func (i *index) setShared(definition *metav1.PartialObjectMetadata) {
	_, marked := definition.Labels[tenant.PublishedDefinitionLabel]
	if _, known := i.shared[definition.Name]; !marked && !known {
		return
	}
	if marked {
		i.shared[definition.Name] = state{
			published: IsShown(definition),
			deleted:   definition.DeletionTimestamp != nil,
		}
	} else {
		delete(i.shared, definition.Name)
	}
	i.changed(definition.ResourceVersion)
}

// unset forgets a definition.
func (i *index) unset(definition *metav1.PartialObjectMetadata) {
	n := spaceOf(definition)
	i.mu.Lock()
	defer i.mu.Unlock()
	if n == tenant.System {
		if _, known := i.shared[definition.Name]; known {
			delete(i.shared, definition.Name)
			i.changed(definition.ResourceVersion)
		}
		return
	}
	keyed.Delete(i.own, n, definition.Name)
}

// replace forgets what is not among definitions, which are those of a version.
func (i *index) replace(definitions []*metav1.PartialObjectMetadata, version string) {
	i.mu.Lock()
	before := i.shared
	i.own, i.shared = make(map[tenant.Name]map[string]struct{}), make(map[string]state)
	i.mu.Unlock()
	for _, definition := range definitions {
		i.set(definition)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for name := range before {
		if _, ok := i.shared[name]; !ok {
			i.changed(version)
			return
		}
	}
}

// changed tells that shared definitions have changed. The caller holds the lock.
func (i *index) changed(version string) {
	if parsed, err := strconv.ParseUint(version, 10, 64); err == nil {
		i.last = max(i.last, parsed)
	}
	i.visible = slices.DeleteFunc(slices.Sorted(maps.Keys(i.shared)), func(name string) bool { return !i.shared[name].published })
	i.more.Tell()
}

// defines reports whether the space of n has a definition of its own.
func (i *index) defines(n tenant.Name, name string) bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	_, ok := i.own[n][name]
	return ok
}

// wants reports whether there is something to serve for n, the system space standing
// for all.
func (i *index) wants(n tenant.Name) bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if n == tenant.System {
		return len(i.shared) > 0
	}
	return len(i.own[n]) > 0
}

// shares reports whether a definition is for all spaces or, if ever is true, has been.
func (i *index) shares(name string, ever bool) bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	is, ok := i.shared[name]
	return ok && (is.published || ever)
}

// names returns the names of the definitions that every space has.
func (i *index) names() []string {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.visible
}

// changes is storage.Defaults.Changes.
func (i *index) changes() (last uint64, next <-chan struct{}) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.last, i.more.Next()
}

// isDeleted reports whether a shared definition is being deleted.
func (i *index) isDeleted(name string) bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.shared[name].deleted
}

// deleted returns the names of shared definitions that are being deleted.
func (i *index) deleted() (names []string) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	for name, is := range i.shared {
		if is.deleted {
			names = append(names, name)
		}
	}
	return names
}

// excluded returns the names of the shared definitions that the space of n does not
// see, sorted: those that it has defined itself and, unless it is being emptied, those
// that are published no longer.
func (i *index) excluded(n tenant.Name, terminating bool) []string {
	i.mu.RLock()
	defer i.mu.RUnlock()
	var names []string
	if !terminating && len(i.visible) < len(i.shared) {
		for name, is := range i.shared {
			if !is.published {
				names = append(names, name)
			}
		}
	}
	for name := range i.own[n] {
		if _, ok := i.shared[name]; ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func spaceOf(definition *metav1.PartialObjectMetadata) tenant.Name {
	if n, ok := definition.Annotations[tenant.Annotation]; ok {
		return tenant.Name(n)
	}
	return tenant.System
}
