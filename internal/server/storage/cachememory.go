package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

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
	// written is what was written while none was complete, as when a conversion webhook fails: it is in no cache yet.
	written int64
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
		c.memory.recount(c.definition)
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
		d.before, d.objectsBefore, d.written = 0, 0, 0
	}
	d.fullest, d.objects = max(d.fullest, d.before)+d.written, max(d.objects, d.objectsBefore)
	if definition.only == "" {
		return
	}
	now := d.fullest * int64(len(d.all))
	m.add(definition.only, now-d.counted)
	d.counted = now
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

// objectShare is which part of what a space may have one object may take: while it is written, or deleted, it is decoded several times.
const objectShare = 8

// fits returns an error if an object of a space may not become so large in each cache of a definition.
func (m *CacheMemory) fits(n tenant.Name, definition counted, before, after int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.definitions[definition]
	now, caches := m.bytes[n], d.count()
	more, object := int64(after-before)*caches, int64(after)*caches
	switch {
	case more <= 0:
		return nil
	case object > m.most/objectShare:
		return fmt.Errorf("it takes %d bytes of the server's memory in all versions of its definition: %d are allowed; make several objects of it, or leave out versions that nobody uses",
			object, m.most/objectShare)
	case now+more > m.most:
		return m.errCacheMemory(now, more)
	}
	if !d.known() {
		d.written += int64(after - before)
		m.recount(definition)
	}
	return nil
}

func (d *definitionCaches) count() int64 {
	if d == nil {
		return 0
	}
	return int64(len(d.all))
}

// leastMap is what an element of a list, or value of a map, that is a map takes at least.
const leastMap = 64

// DefinitionChange is what a change of a definition means for the memory of its objects.
type DefinitionChange struct {
	// Before is how many versions it had, and Versions how many it has.
	Before, Versions int
	// Object and Element are how many bytes new defaults take for each object, and for each map in one.
	Object, Element int64
}

// grows reports whether objects may take more memory by a change.
func (c DefinitionChange) grows() bool { return c.Versions > c.Before || c.Object+c.Element > 0 }

// DefinitionFits returns an error if a space may not change a definition of its own because of the objects that there are. It is one to try
// again after if caches from before an earlier change are still there, which they are as long as requests that they serve.
func (g *RESTOptionsGetter) DefinitionFits(ctx context.Context, n tenant.Name, resource schema.GroupResource, change DefinitionChange) error {
	if g.CacheMemory == nil {
		return nil
	}
	known, err := g.CacheMemory.fitsDefinition(counted{resource.String(), n}, change)
	if known || !change.grows() {
		return err
	}
	// Nobody has asked this server for the objects since it started, or a conversion webhook fails.
	objects, bytes, err := g.Ranges.memoryOf(ctx, n, resource)
	if err != nil {
		return err
	}
	g.CacheMemory.mu.Lock()
	defer g.CacheMemory.mu.Unlock()
	return g.CacheMemory.fitsObjects(n, change, objects, bytes, 0)
}

// fitsDefinition is DefinitionFits for what is in caches, and reports whether that is all.
func (m *CacheMemory) fitsDefinition(definition counted, change DefinitionChange) (known bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.definitions[definition]
	if d == nil || !d.known() && d.before == 0 {
		return false, nil
	}
	if len(d.all) > change.Before && d.counted > m.most/objectShare {
		return true, apierrors.NewTooManyRequests("requests to what the definition was before its last change have not ended, and its objects take much memory; try again", 1)
	}
	return true, m.fitsObjects(definition.only, change, d.objects, d.fullest, d.counted)
}

// fitsObjects is DefinitionFits for so many objects that take so much in a cache, and count so much now. The lock is held.
func (m *CacheMemory) fitsObjects(n tenant.Name, change DefinitionChange, objects int, bytes, counted int64) error {
	each := bytes + int64(objects)*change.Object + bytes/leastMap*change.Element
	if more := each*int64(change.Versions) - counted; more > 0 && m.bytes[n]+more > m.most {
		return m.errCacheMemory(m.bytes[n], more)
	}
	return nil
}

// memoryOf returns how many custom resources of a definition a space has, and what they take in a cache without conversion.
func (r *Ranges) memoryOf(ctx context.Context, n tenant.Name, resource schema.GroupResource) (objects int, bytes int64, err error) {
	ranges, err := r.ofAll(ctx, n, sets.New(resource))
	if err != nil {
		return 0, 0, err
	}
	found, err := r.count(ctx, n, "", ranges)
	if err != nil {
		return 0, 0, err
	}
	err = readAll(ctx, found, func(o occupied, full string, data []byte) {
		if !o.stored.holds(ctx, o.key, full, data, n) {
			return
		}
		object := map[string]any{}
		if err := json.Unmarshal(o.stored.plain(ctx, full, data), &object); err == nil { // otherwise no cache reads it either
			objects, bytes = objects+1, bytes+int64(memory.Of(object))
		}
	})
	return objects, bytes, err
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

// fits returns what refuses an object as it becomes if the space may not have so much. What was is read at once, because updates may
// change it.
func (s *Space) fits(ctx context.Context, n tenant.Name, before runtime.Object) func(after runtime.Object) error {
	if s.cacheMemory == nil || !n.IsSpace() {
		return func(runtime.Object) error { return nil }
	}
	had, lets := 0, func(runtime.Object) bool { return false }
	if before != nil {
		had = weightOf(before, memory.Of(before))
		if s.cacheMemory.isNearly(n, s.definition, had) {
			lets = s.lets(ctx, n, before)
		}
	}
	return func(after runtime.Object) error {
		has := weightOf(after, memory.Of(after))
		if has <= had || lets(after) {
			return nil
		}
		err := s.cacheMemory.fits(n, s.definition, had, has)
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

// lets returns what reports whether a change of an object lets it go, and so may be written in a full space although a server notes in its
// metadata what was done, or because it is dense without long finalizers. Where the space has more than it may, users may not note more.
func (s *Space) lets(ctx context.Context, n tenant.Name, before runtime.Object) func(after runtime.Object) bool {
	was, err := meta.Accessor(before)
	if err != nil {
		return func(runtime.Object) bool { return false }
	}
	managed := memory.Of(was.GetManagedFields())
	released, err := releases(before)
	return func(after runtime.Object) bool {
		is, noObject := meta.Accessor(after)
		if err != nil || noObject != nil {
			return false
		}
		if ok, err := released(after); !ok || err != nil {
			return false
		}
		return memory.Of(is.GetManagedFields()) <= managed || tenant.ByPlatform(ctx) || !s.cacheMemory.Exceeded(n)
	}
}

// isNearly reports whether what a space has, or one object of it that takes so much in a cache, may be refused soon.
func (m *CacheMemory) isNearly(n tenant.Name, definition counted, object int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes[n] > m.most/2 || int64(object)*m.definitions[definition].count() > m.most/objectShare/2
}
