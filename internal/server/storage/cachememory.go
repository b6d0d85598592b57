package storage

import (
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/process/memory"
	"github.com/tenantry/tenantry/internal/tenant"
)

// CacheMemory bounds what memory the objects of a space take in watch caches, where stored bytes do not bound it. A map of 7 bytes in a custom
// resource takes 350 there, each version of a definition has a cache of its own, and conversion webhooks make objects larger: custom resources all count. Others
// do if they are dense, as an empty rule of a NetworkPolicy is: 2 bytes that take 48.
type CacheMemory struct {
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
	all map[*contents]struct{}
	// fullest is how many bytes the fullest has, and counted what all count as.
	fullest, counted int64
	// objects are how many the fullest has.
	objects int
	// before is what the fullest had when the last cache ended that was complete, and objectsBefore how many: it holds until another one is. Upstream makes
	// caches anew when a definition changes, with the next request.
	before        int64
	objectsBefore int
	// reserved is what the pending writes take, and those under way. Caches are behind, or stand, as long as a conversion webhook takes its time or fails.
	reserved int64
	pending  []pendingWrite
	// reached is the last version that a cache has got.
	reached uint64
}

// pendingWrite is a write that no cache is known to have.
type pendingWrite struct {
	version uint64
	bytes   int64
}

// NewCacheMemory returns a bound of so many bytes for each space, nil for none.
func NewCacheMemory(most int64) *CacheMemory {
	if most == 0 {
		return nil
	}
	return &CacheMemory{most: most, bytes: map[tenant.Name]int64{}, definitions: map[counted]*definitionCaches{}}
}

// errCacheMemory names the rule and the way out.
func (m *CacheMemory) errCacheMemory(now, more int64) error {
	return fmt.Errorf("the custom resources of the space, in all versions of their definitions, and its objects of empty entries take %d bytes of the server's memory, and would take %d more: "+
		"%d are allowed; delete some, or leave out versions that nobody uses", now, more, m.most)
}

const (
	// ordinary is how many times its bytes in etcd an object takes in memory that is not dense. Stored bytes bound the others.
	ordinary = 8
	// smallObject is not looked at. What all objects have in their metadata is a tenth of it, and what a cache keeps beside each object a third.
	smallObject = 4 << 10
	// builtInCopies are those of a built-in object: one in its watch cache, and one in an informer of the server.
	builtInCopies = 2
)

// weightOf returns what an object counts that takes so many bytes of memory.
func weightOf(obj runtime.Object, bytes int) int {
	switch _, custom := obj.(*unstructured.Unstructured); {
	case custom:
		return bytes
	case bytes <= smallObject || bytes <= ordinary*memory.Encoded(obj):
		return 0
	default:
		return builtInCopies * bytes
	}
}

// contents are the objects in one watch cache that count. All is guarded by the lock of memory.
type contents struct {
	memory     *CacheMemory
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

// newCache returns the contents of the watch cache of one version of a definition, or of a built-in resource, nil without a bound.
func (m *CacheMemory) newCache(definition counted, key func(runtime.Object) (string, error)) *contents {
	if m == nil {
		return nil
	}
	c := &contents{memory: m, definition: definition, key: key, held: map[string]heldObject{}}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.definitions[definition] == nil {
		m.definitions[definition] = &definitionCaches{all: map[*contents]struct{}{}}
	}
	m.definitions[definition].all[c] = struct{}{}
	m.recount(definition)
	return c
}

// listed notes a page of what the cache has now, the first in place of what it had.
func (c *contents) listed(list runtime.Object, first bool) {
	if c == nil {
		return
	}
	if first {
		c.memory.mu.Lock()
		c.empty() // counted anew when all is set, below
		c.memory.mu.Unlock()
	}
	_ = meta.EachListItem(list, func(obj runtime.Object) error {
		c.set(obj, memory.Of(obj))
		return nil
	})
	of, err := meta.ListAccessor(list)
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	if d := c.memory.definitions[c.definition]; d != nil && err == nil && of.GetContinue() == "" {
		c.complete = true
		version, _ := storage.APIObjectVersioner{}.ParseResourceVersion(of.GetResourceVersion())
		c.memory.reach(c.definition, version)
	}
}

// set notes that an object is in the cache and takes so much there, none if it has been deleted.
func (c *contents) set(obj runtime.Object, taken int) {
	if c == nil {
		return
	}
	n, err := tenantOf(obj)
	if err != nil || !n.IsSpace() {
		return
	}
	bytes := int64(weightOf(obj, taken))
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	if bytes == 0 && len(c.held) == 0 {
		return // as in most caches
	}
	if definition := c.memory.definitions[c.definition]; definition == nil || !definition.has(c) {
		return // the cache has been stopped
	}
	key, err := c.key(obj)
	if err != nil {
		return // the cache refuses it
	}
	before := c.held[key].bytes
	c.add(n, bytes-before)
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

func (d *definitionCaches) has(c *contents) bool {
	_, there := d.all[c]
	return there
}

// add adds what a cache has of a space. The lock is held.
func (c *contents) add(n tenant.Name, bytes int64) {
	c.bytes += bytes
	if c.definition.only == "" {
		c.memory.add(n, bytes)
	}
}

func (m *CacheMemory) add(n tenant.Name, bytes int64) {
	if m.bytes[n] += bytes; m.bytes[n] == 0 {
		delete(m.bytes, n)
	}
}

// recount counts the caches of a definition of one tenant. The lock is held.
func (m *CacheMemory) recount(definition counted) {
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
	now := (d.fullest + d.reserved) * int64(len(d.all))
	m.add(definition.only, now-d.counted)
	d.counted = now
}

// reserve notes that a write takes so much more, or less, in each of some caches, and returns these: nil stands for those that the definition, which is one tenant's, has now.
func (m *CacheMemory) reserve(definition counted, in *definitionCaches, bytes int64) *definitionCaches {
	m.mu.Lock()
	defer m.mu.Unlock()
	if in == nil {
		in = m.definitions[definition]
	}
	if in != nil {
		in.reserved += bytes
		m.recountIf(definition, in)
	}
	return in
}

// maxPending is how many writes of a definition are told apart that no cache has: later ones are one.
const maxPending = 256

// wrote notes the version of a write for which something is reserved.
func (m *CacheMemory) wrote(definition counted, in *definitionCaches, version uint64, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch last := len(in.pending) - 1; {
	case version <= in.reached:
		in.reserved -= bytes
		m.recountIf(definition, in)
	case last+1 == maxPending:
		in.pending[last] = pendingWrite{max(in.pending[last].version, version), in.pending[last].bytes + bytes}
	default:
		in.pending = append(in.pending, pendingWrite{version, bytes})
	}
}

// recountIf counts caches unless they have all been stopped, and others were made. The lock is held.
func (m *CacheMemory) recountIf(definition counted, caches *definitionCaches) {
	if m.definitions[definition] == caches {
		m.recount(definition)
	}
}

// reach notes that a cache of a definition has got all up to a version. The lock is held.
func (m *CacheMemory) reach(definition counted, version uint64) {
	d := m.definitions[definition]
	d.reached = max(d.reached, version)
	d.pending = slices.DeleteFunc(d.pending, func(w pendingWrite) bool {
		if w.version > d.reached {
			return false
		}
		d.reserved -= w.bytes
		return true
	})
	m.recount(definition)
}

// passed notes that a cache has got an event.
func (c *contents) passed(version uint64) {
	if c == nil || c.definition.only == "" {
		return
	}
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	if d := c.memory.definitions[c.definition]; d != nil && version > d.reached {
		c.memory.reach(c.definition, version)
	}
}

// empty notes that a cache has nothing. The lock is held.
func (c *contents) empty() {
	for _, o := range c.held {
		c.add(o.of, -o.bytes)
	}
	clear(c.held)
}

// forget forgets a cache that has been stopped.
func (c *contents) forget() {
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

func (d *definitionCaches) count() int64 {
	if d == nil {
		return 0
	}
	return int64(len(d.all))
}

// Exceeded reports whether the objects of a space take more than they may: a quarter more, because of what webhooks have made of them since they were written.
func (m *CacheMemory) Exceeded(n tenant.Name) bool {
	if m == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes[n] > m.most+m.most/4
}
