package cachememory

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/etcdstore"
	"github.com/tenantry/tenantry/internal/process/memory"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Cache has the objects in one watch cache that count. The lock of the budget guards all. Nil is one without a budget.
type Cache struct {
	of *definitionCaches
	// version is that of the definition: there are two caches of one while a definition changes.
	version string
	key     func(runtime.Object) (string, error)
	owner   func(runtime.Object) (tenant.Name, error)
	held    map[string]heldObject
	bytes   int64
	// complete is whether it has all that there is.
	complete bool
	// decoded is what has been decoded of a list that is under way.
	decoded int64
}

type heldObject struct {
	of    tenant.Name
	bytes int64
}

// NewCache returns what the watch cache of one version of a definition has, or of a built-in resource, nil without a
// budget. key and owner say of an object what its key in the cache is, and in whose space it is.
func (m *Budget) NewCache(id tenant.CacheID, version string, key func(runtime.Object) (string, error), owner func(runtime.Object) (tenant.Name, error)) *Cache {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.definitions[id]
	if d == nil {
		d = &definitionCaches{budget: m, id: id, all: map[*Cache]struct{}{}}
		m.definitions[id] = d
	}
	c := &Cache{of: d, version: version, key: key, owner: owner, held: map[string]heldObject{}}
	d.all[c] = struct{}{}
	d.recountLocked()
	return c
}

// IsOfOne reports whether the cache has the objects of one space alone, which has defined the resource. The system
// space has no bound.
func (c *Cache) IsOfOne() bool {
	if c == nil {
		return false
	}
	n, one := c.of.id.Of.Space()
	return one && n.IsSpace()
}

// Filling returns the context of a list with which a cache of one tenant is filled. The list ends when the objects of
// the space take more than they may, and the cache stays without them: whatever has let so many be written, or made so
// much of them since, does not take the server's memory.
func (c *Cache) Filling(ctx context.Context, first bool) context.Context {
	if !c.IsOfOne() {
		return ctx
	}
	m := c.of.budget
	if first {
		c.NotListed()
	}
	return etcdstore.WithDecoded(ctx, func(_ []byte, obj runtime.Object, err error) (runtime.Object, error) {
		if err != nil {
			return nil, err
		}
		bytes := int64(memory.Of(obj))
		m.mu.Lock()
		defer m.mu.Unlock()
		if !c.isThereLocked() {
			return obj, nil
		}
		c.decoded += bytes
		c.of.recountLocked()
		return obj, c.of.mayFillLocked()
	})
}

// NotListed notes that a list has failed.
func (c *Cache) NotListed() {
	if c == nil {
		return
	}
	c.of.budget.mu.Lock()
	defer c.of.budget.mu.Unlock()
	if c.decoded > 0 && c.isThereLocked() {
		c.decoded = 0
		c.of.recountLocked()
	}
}

// Listed notes a page of what the cache has now, the first in place of what it had.
func (c *Cache) Listed(list runtime.Object, first bool) {
	if c == nil {
		return
	}
	m := c.of.budget
	if first {
		m.mu.Lock()
		c.emptyLocked() // counted anew when all is set, below
		m.mu.Unlock()
	}
	_ = meta.EachListItem(list, func(obj runtime.Object) error {
		c.Set(obj, memory.Of(obj))
		return nil
	})
	page, err := meta.ListAccessor(list)
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.isThereLocked() && err == nil && page.GetContinue() == "" {
		c.complete, c.decoded = true, 0
		version, _ := storage.APIObjectVersioner{}.ParseResourceVersion(page.GetResourceVersion())
		c.of.pending.reach(version)
		c.of.recountLocked()
	}
}

// Set notes that an object is in the cache and takes so much there, none if it has been deleted.
func (c *Cache) Set(obj runtime.Object, taken int) {
	if c == nil {
		return
	}
	n, err := c.owner(obj)
	if err != nil || !n.IsSpace() {
		return
	}
	bytes := int64(weightOf(obj, taken))
	c.of.budget.mu.Lock()
	defer c.of.budget.mu.Unlock()
	if bytes == 0 && len(c.held) == 0 {
		return // as in most caches
	}
	if !c.isThereLocked() {
		return
	}
	key, err := c.key(obj)
	if err != nil {
		return // the cache refuses it
	}
	before := c.held[key].bytes
	c.addLocked(n, bytes-before)
	if bytes < before {
		c.of.budget.useHeadroomLocked(n, bytes-before)
	}
	if c.held[key] = (heldObject{n, bytes}); bytes == 0 {
		delete(c.held, key)
	}
	c.of.recountLocked()
}

// sizeOf returns what the objects of a list take. The sizes of those that are in the cache are known.
func (c *Cache) sizeOf(list runtime.Object) (bytes int64) {
	var keys []string
	_ = meta.EachListItem(list, func(obj runtime.Object) error {
		if c == nil {
			bytes += int64(memory.Of(obj))
		} else if key, err := c.key(obj); err == nil {
			keys = append(keys, key)
		}
		return nil
	})
	if c == nil {
		return bytes
	}
	c.of.budget.mu.Lock()
	defer c.of.budget.mu.Unlock()
	for _, key := range keys {
		bytes += c.held[key].bytes
	}
	return bytes
}

// Filled reports whether the cache has all that there is, as far as that is known.
func (c *Cache) Filled() bool {
	if c == nil {
		return true
	}
	c.of.budget.mu.Lock()
	defer c.of.budget.mu.Unlock()
	return c.complete
}

// Passed notes that a cache has got an event.
func (c *Cache) Passed(version uint64) {
	if !c.IsOfOne() {
		return
	}
	c.of.budget.mu.Lock()
	defer c.of.budget.mu.Unlock()
	if c.isThereLocked() && version > c.of.pending.reached {
		c.of.pending.reach(version)
		c.of.recountLocked()
	}
}

// addLocked adds what a cache has of a space.
func (c *Cache) addLocked(n tenant.Name, bytes int64) {
	c.bytes += bytes
	if !c.IsOfOne() {
		c.of.budget.addSharedLocked(n, bytes)
	}
}

// isThereLocked reports whether a cache has not been stopped.
func (c *Cache) isThereLocked() bool {
	_, there := c.of.all[c]
	return there
}

// emptyLocked notes that a cache has nothing.
func (c *Cache) emptyLocked() {
	for _, o := range c.held {
		c.addLocked(o.of, -o.bytes)
	}
	clear(c.held)
}

// Forget forgets a cache that has been stopped.
func (c *Cache) Forget() {
	if c == nil {
		return
	}
	d := c.of
	d.budget.mu.Lock()
	defer d.budget.mu.Unlock()
	if !c.isThereLocked() {
		return // storages are shared with subresources, and stopped by each
	}
	delete(d.all, c)
	if !d.isCompleteLocked() {
		d.before = d.fullest
	}
	c.emptyLocked()
	if d.recountLocked(); len(d.all) == 0 && d.before.bytes == 0 {
		delete(d.budget.definitions, d.id)
	}
}
