package storage

import (
	"fmt"
	"maps"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/internal/process/memory"
	"github.com/tenantry/tenantry/internal/tenant"
)

// CustomMemory bounds what memory the custom resources of a space take in watch caches. Stored bytes do not bound it: a map of 7 bytes takes
// 350 there, each version of a definition has a cache of its own, and conversion webhooks make objects larger.
type CustomMemory struct {
	most int64

	mu sync.Mutex
	// bytes are what the objects of spaces take in all caches.
	bytes map[tenant.Name]int64
	// definitions have the caches of each.
	definitions map[counted]*definitionCaches
}

// definitionCaches are the caches of a definition, one for each version. If it is one tenant's, each counts as the fullest of them: those of
// other versions are empty while a conversion webhook fails, and fill when it does not.
type definitionCaches struct {
	all map[*customs]struct{}
	// fullest is how many bytes the fullest has, and counted what all count as.
	fullest, counted int64
	// objects are how many the fullest has.
	objects int
	// before is what the fullest had when the last cache ended that was complete, and objectsBefore how many: it holds until another one is. Upstream makes
	// caches anew when a definition changes, with the next request.
	before        int64
	objectsBefore int
}

// NewCustomMemory returns a bound of so many bytes for each space, nil for none.
func NewCustomMemory(most int64) *CustomMemory {
	if most == 0 {
		return nil
	}
	return &CustomMemory{most: most, bytes: map[tenant.Name]int64{}, definitions: map[counted]*definitionCaches{}}
}

// errCustomMemory names the rule and the way out.
func (m *CustomMemory) errCustomMemory(now, more int64) error {
	return fmt.Errorf("the custom resources of the space take %d bytes of the server's memory in all versions of their definitions, and would take %d more: "+
		"%d are allowed; delete some, or leave out versions that nobody uses", now, more, m.most)
}

// customs are the objects in one watch cache of custom resources. All is guarded by the lock of memory.
type customs struct {
	memory     *CustomMemory
	definition counted
	key        func(runtime.Object) (string, error)
	held       map[string]heldObject
	bytes      int64
	// complete is whether it has all that there is.
	complete bool
}

type heldObject struct {
	of    tenant.Name
	bytes int64
}

// newCache returns the objects of the watch cache of one version of a definition, nil without a bound.
func (m *CustomMemory) newCache(definition counted, key func(runtime.Object) (string, error)) *customs {
	if m == nil {
		return nil
	}
	c := &customs{memory: m, definition: definition, key: key, held: map[string]heldObject{}}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.definitions[definition] == nil {
		m.definitions[definition] = &definitionCaches{all: map[*customs]struct{}{}}
	}
	m.definitions[definition].all[c] = struct{}{}
	m.recount(definition)
	return c
}

// listed notes a page of what the cache has now, the first in place of what it had.
func (c *customs) listed(list runtime.Object, first bool) {
	if c == nil {
		return
	}
	if first {
		c.memory.mu.Lock()
		c.empty() // counted anew when all is set, below
		c.memory.mu.Unlock()
	}
	_ = meta.EachListItem(list, func(obj runtime.Object) error {
		c.set(obj, int64(memory.Of(obj)))
		return nil
	})
	of, err := meta.ListAccessor(list)
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	if d := c.memory.definitions[c.definition]; d != nil && err == nil && of.GetContinue() == "" {
		c.complete = true
		c.memory.recount(c.definition)
	}
}

// set notes that an object is in the cache and takes so much there, none if it has been deleted.
func (c *customs) set(obj runtime.Object, bytes int64) {
	if c == nil {
		return
	}
	n, err := tenantOf(obj)
	if err != nil || !n.IsSpace() {
		return
	}
	key, err := c.key(obj)
	if err != nil {
		return // the cache refuses it
	}
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	if definition := c.memory.definitions[c.definition]; definition == nil || !definition.has(c) {
		return // the cache has been stopped
	}
	c.add(n, bytes-c.held[key].bytes)
	if c.held[key] = (heldObject{n, bytes}); bytes == 0 {
		delete(c.held, key)
	}
	c.memory.recount(c.definition)
}

// known reports whether a cache has all that there is.
func (d *definitionCaches) known() bool {
	for c := range d.all {
		if c.complete {
			return true
		}
	}
	return false
}

func (d *definitionCaches) has(c *customs) bool {
	_, there := d.all[c]
	return there
}

// add adds what a cache has of a space. The lock is held.
func (c *customs) add(n tenant.Name, bytes int64) {
	c.bytes += bytes
	if c.definition.only == "" {
		c.memory.add(n, bytes)
	}
}

func (m *CustomMemory) add(n tenant.Name, bytes int64) {
	if m.bytes[n] += bytes; m.bytes[n] == 0 {
		delete(m.bytes, n)
	}
}

// recount counts the caches of a definition of one tenant. The lock is held.
func (m *CustomMemory) recount(definition counted) {
	d := m.definitions[definition]
	d.fullest, d.objects = 0, 0
	for c := range d.all {
		if c.bytes > d.fullest {
			d.fullest, d.objects = c.bytes, len(c.held)
		}
	}
	if d.known() {
		d.before, d.objectsBefore = 0, 0
	}
	d.fullest, d.objects = max(d.fullest, d.before), max(d.objects, d.objectsBefore)
	if definition.only == "" {
		return
	}
	now := d.fullest * int64(len(d.all))
	m.add(definition.only, now-d.counted)
	d.counted = now
}

// empty notes that a cache has nothing. The lock is held.
func (c *customs) empty() {
	for _, o := range c.held {
		c.add(o.of, -o.bytes)
	}
	clear(c.held)
}

// forget forgets a cache that has been stopped.
func (c *customs) forget() {
	if c == nil {
		return
	}
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	d := c.memory.definitions[c.definition]
	if d == nil || !d.has(c) {
		return // storages are shared with subresources, and stopped by each
	}
	delete(d.all, c)
	if !d.known() {
		d.before, d.objectsBefore = d.fullest, d.objects
	}
	c.empty()
	if c.memory.recount(c.definition); len(d.all) == 0 && d.before == 0 {
		delete(c.memory.definitions, c.definition)
	}
}

// objectShare is which part of what a space may have one object may take: while it is written, or deleted, it is decoded several times.
const objectShare = 8

// fits returns an error if an object of a space may not become so large in each cache of a definition.
func (m *CustomMemory) fits(n tenant.Name, definition counted, before, after int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, caches := m.bytes[n], m.definitions[definition].count()
	more, object := int64(after-before)*caches, int64(after)*caches
	switch {
	case more <= 0:
		return nil
	case object > m.most/objectShare:
		return fmt.Errorf("it takes %d bytes of the server's memory in all versions of its definition: %d are allowed; make several objects of it, or leave out versions that nobody uses",
			object, m.most/objectShare)
	case now+more > m.most:
		return m.errCustomMemory(now, more)
	default:
		return nil
	}
}

func (d *definitionCaches) count() int64 {
	if d == nil {
		return 0
	}
	return int64(len(d.all))
}

// leastMap is what an element of a list, or value of a map, that is a map takes at least.
const leastMap = 64

// FitsDefinition returns an error if a space may not have a definition of its own that had so many versions before with so many now, of which new
// defaults take so many bytes for each object, and for each map in it, because of the objects that there are. It is one to try again after if
// caches from before an earlier change are still there, which they are as long as requests that they serve.
func (m *CustomMemory) FitsDefinition(n tenant.Name, resource schema.GroupResource, before, versions int, object, element int64) error {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.definitions[counted{resource.String(), n}]
	if d == nil {
		return nil
	}
	if len(d.all) > before && d.counted > m.most/objectShare {
		return apierrors.NewTooManyRequests("requests to what the definition was before its last change have not ended, and its objects take much memory; try again", 1)
	}
	each := d.fullest + int64(d.objects)*object + d.fullest/leastMap*element
	if more := each*int64(versions) - d.counted; more > 0 && m.bytes[n]+more > m.most {
		return m.errCustomMemory(m.bytes[n], more)
	}
	return nil
}

// contentOf returns how much memory an object takes without what a server writes into its metadata when it is changed or deleted, which has bounds
// of its own.
func contentOf(obj runtime.Object) int {
	custom, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return memory.Of(obj)
	}
	content := maps.Clone(custom.Object)
	if metadata, ok := content["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		for _, field := range []string{"managedFields", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "resourceVersion"} {
			delete(metadata, field)
		}
		if custom.GetDeletionTimestamp() != nil {
			delete(metadata, "finalizers")
		}
		content["metadata"] = metadata
	}
	return memory.Of(content)
}

// fits returns what refuses a custom resource as it becomes if the space may not have so much. What was is read at once, because updates may
// change it.
func (s *Space) fits(n tenant.Name, before runtime.Object) func(after runtime.Object) error {
	if s.customMemory == nil || !n.IsSpace() {
		return func(runtime.Object) error { return nil }
	}
	bytes, content := memory.Of(before), contentOf(before)
	return func(after runtime.Object) error {
		if before != nil && contentOf(after) <= content {
			return nil // whatever ends an object, and lets it go
		}
		err := s.customMemory.fits(n, s.definition, bytes, memory.Of(after))
		if err == nil {
			return nil
		}
		name := ""
		if o, noObject := meta.Accessor(after); noObject == nil {
			name = o.GetName()
		}
		return apierrors.NewForbidden(s.resource, name, err)
	}
}
