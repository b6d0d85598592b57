package storage

import (
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
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
	// caches are those of definitions.
	caches map[counted]map[*customs]struct{}
}

// NewCustomMemory returns a bound of so many bytes for each space, nil for none.
func NewCustomMemory(most int64) *CustomMemory {
	if most == 0 {
		return nil
	}
	return &CustomMemory{most: most, bytes: map[tenant.Name]int64{}, caches: map[counted]map[*customs]struct{}{}}
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
	if m.caches[definition] == nil {
		m.caches[definition] = map[*customs]struct{}{}
	}
	m.caches[definition][c] = struct{}{}
	return c
}

// listed notes a page of what the cache has now, the first in place of what it had.
func (c *customs) listed(list runtime.Object, first bool) {
	if c == nil {
		return
	}
	if first {
		c.empty()
	}
	_ = meta.EachListItem(list, func(obj runtime.Object) error {
		c.set(obj, int64(memory.Of(obj)))
		return nil
	})
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
	if _, there := c.memory.caches[c.definition][c]; !there {
		return // the cache has been stopped
	}
	c.add(n, bytes-c.held[key].bytes)
	if c.held[key] = (heldObject{n, bytes}); bytes == 0 {
		delete(c.held, key)
	}
}

func (c *customs) add(n tenant.Name, bytes int64) {
	c.bytes += bytes
	if c.memory.bytes[n] += bytes; c.memory.bytes[n] == 0 {
		delete(c.memory.bytes, n)
	}
}

func (c *customs) empty() {
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
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
	c.empty()
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	if delete(c.memory.caches[c.definition], c); len(c.memory.caches[c.definition]) == 0 {
		delete(c.memory.caches, c.definition)
	}
}

// objectShare is which part of what a space may have one object may take: while it is written, or deleted, it is decoded several times.
const objectShare = 8

// fits returns an error if an object of a space may not become so large in each cache of a definition.
func (m *CustomMemory) fits(n tenant.Name, definition counted, before, after int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, caches := m.bytes[n], int64(len(m.caches[definition]))
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

// FitsVersions returns an error if a space may not have a definition of its own with so many versions, because of the objects that there are.
func (m *CustomMemory) FitsVersions(n tenant.Name, resource schema.GroupResource, versions int) error {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	caches := m.caches[counted{resource.String(), n}]
	var bytes int64
	for c := range caches {
		bytes += c.bytes
	}
	more := int64(versions - len(caches))
	if bytes == 0 || more <= 0 {
		return nil
	}
	if more *= bytes / int64(len(caches)); m.bytes[n]+more <= m.most {
		return nil
	}
	return m.errCustomMemory(m.bytes[n], more)
}

// fits returns what refuses a custom resource as it becomes if the space may not have so much. What was is read at once, because updates may
// change it.
func (s *Space) fits(n tenant.Name, before runtime.Object) func(after runtime.Object) error {
	if s.customMemory == nil || !n.IsSpace() {
		return func(runtime.Object) error { return nil }
	}
	bytes := memory.Of(before)
	return func(after runtime.Object) error {
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
