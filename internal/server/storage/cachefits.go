package storage

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/process/memory"
	"github.com/tenantry/tenantry/internal/tenant"
)

// objectShare is which part of what a space may have one object may take: while it is written, or deleted, it is decoded several times.
const objectShare = 8

// fits returns an error if an object of a space may not become so large in each cache of a definition, and otherwise how much slack it takes.
func (m *CacheMemory) fits(n tenant.Name, definition cacheID, before, after int) (slack int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	caches := m.definitions[definition].count()
	more, object := int64(after-before)*caches, int64(after)*caches
	switch {
	case more <= 0:
		return 0, nil
	case object > m.most/objectShare:
		return 0, fmt.Errorf("it takes %d bytes of the server's memory in all versions of its definition: %d are allowed; make several objects of it, or leave out versions that nobody uses",
			object, m.most/objectShare)
	default:
		return m.admit(n, more)
	}
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
	known, err := g.CacheMemory.fitsDefinition(cacheID{resource.String(), n}, change)
	if known || !change.grows() {
		return err
	}
	// Nobody has asked this server for the objects since it started, or a conversion webhook fails.
	objects, bytes, err := g.Ranges.memoryOf(ctx, n, resource, g.CacheMemory.most)
	if err != nil {
		return err
	}
	g.CacheMemory.mu.Lock()
	defer g.CacheMemory.mu.Unlock()
	return g.CacheMemory.fitsObjects(n, change, objects, bytes, 0)
}

// fitsDefinition is DefinitionFits for what is in caches, and reports whether that is all.
func (m *CacheMemory) fitsDefinition(definition cacheID, change DefinitionChange) (known bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.definitions[definition]
	if d == nil || !d.known() && d.before.bytes == 0 {
		return false, nil
	}
	if len(d.all) > change.Before && d.total > m.most/objectShare {
		return true, apierrors.NewTooManyRequests("requests to what the definition was before its last change have not ended, and its objects take much memory; try again", 1)
	}
	return true, m.fitsObjects(definition.only, change, d.fullest.objects, d.fullest.bytes+d.pending.reserved, d.total)
}

// fitsObjects is DefinitionFits for so many objects that take so much in a cache, and take so much in all caches now. The lock is held.
func (m *CacheMemory) fitsObjects(n tenant.Name, change DefinitionChange, objects int, bytes, now int64) error {
	each := bytes + int64(objects)*change.Object + bytes/leastMap*change.Element
	more := each*int64(change.Versions) - now
	if more <= 0 {
		return nil
	}
	slack, err := m.admit(n, more)
	if slack > 0 { // which is for objects, and taken when they are written
		return m.errShared(n, more)
	}
	return err
}

// memoryOf returns how many custom resources of a definition a space has, and what they take in a cache without conversion. It decodes no more once that is most.
func (r *Ranges) memoryOf(ctx context.Context, n tenant.Name, resource schema.GroupResource, most int64) (objects int, bytes int64, err error) {
	ranges, err := r.ofAll(ctx, n, sets.New(resource))
	if err != nil {
		return 0, 0, err
	}
	found, err := r.count(ctx, n, "", ranges)
	if err != nil {
		return 0, 0, err
	}
	err = readAll(ctx, found, func(o occupied, full string, data []byte) {
		if bytes > most || !o.stored.holds(ctx, o.key, full, data, n) {
			return
		}
		object := map[string]any{}
		if err := json.Unmarshal(o.stored.plain(ctx, full, data), &object); err == nil { // otherwise no cache reads it either
			objects, bytes = objects+1, bytes+int64(memory.Of(object))
		}
	})
	return objects, bytes, err
}

// cacheWrite is what one write of an object takes more in caches, until one has it.
type cacheWrite struct {
	space *Space
	n     tenant.Name
	in    *definitionCaches
	bytes int64
	slack int64
}

func (s *Space) newWrite(n tenant.Name) *cacheWrite { return &cacheWrite{space: s, n: n} }

// take notes what an attempt takes, in place of one before. Nothing keeps the caches of resources that are no tenant's own.
func (w *cacheWrite) take(bytes int) {
	if more := int64(bytes) - w.bytes; more != 0 && w.space.cacheID.only != "" {
		if w.in = w.space.options.CacheMemory.reserve(w.space.cacheID, w.in, more); w.in != nil {
			w.bytes = int64(bytes)
		}
	}
}

// takeSlack notes the slack that an attempt takes, in place of one before.
func (w *cacheWrite) takeSlack(bytes int64) {
	if more := bytes - w.slack; more != 0 {
		m := w.space.options.CacheMemory
		m.mu.Lock()
		defer m.mu.Unlock()
		m.useSlack(w.n, more)
		w.slack = bytes
	}
}

// settle ends a write with its result.
func (w *cacheWrite) settle(err error, result runtime.Object) {
	if err != nil {
		w.takeSlack(0)
	}
	if w.bytes == 0 {
		return
	}
	version, noVersion := storage.APIObjectVersioner{}.ObjectResourceVersion(result)
	if err != nil || noVersion != nil {
		w.take(0)
		return
	}
	w.in.memory.mu.Lock()
	defer w.in.memory.mu.Unlock()
	w.in.pending.wrote(version, w.bytes)
	w.in.recount()
}

// fits returns what refuses an object as it becomes if the space may not have so much. What was is read at once, because updates may
// change it.
func (w *cacheWrite) fits(ctx context.Context, before runtime.Object) func(after runtime.Object) error {
	s, n := w.space, w.n
	if s.options.CacheMemory == nil || !n.IsSpace() {
		return func(runtime.Object) error { return nil }
	}
	w.take(0)
	w.takeSlack(0)
	had, onlyReleases := 0, func(runtime.Object) bool { return false }
	if before != nil {
		had = weightOf(before, memory.Of(before))
		if s.options.CacheMemory.isNearLimit(n, s.cacheID, had) {
			onlyReleases = s.onlyReleases(ctx, n, before)
		}
	}
	return func(after runtime.Object) error {
		has := weightOf(after, memory.Of(after))
		if has <= had || onlyReleases(after) {
			w.take(max(0, has-had))
			return nil
		}
		slack, err := s.options.CacheMemory.fits(n, s.cacheID, had, has)
		if w.takeSlack(slack); err == nil || before != nil && has-had <= smallGrowth && saysHowItIs(ctx, after) && s.options.CacheMemory.maySay(n) {
			w.take(has - had)
			return nil
		}
		name := ""
		if o, noObject := meta.Accessor(after); noObject == nil {
			name = o.GetName()
		}
		return apierrors.NewForbidden(s.resource, name, err)
	}
}

// smallGrowth is by how many bytes of memory an object may grow in a full space when only its status is written, or when it is being deleted.
const smallGrowth = 4 << 10

// saysHowItIs reports whether a change is one of the status, or of an object that is being deleted: controllers write what they do before they let it go.
func saysHowItIs(ctx context.Context, after runtime.Object) bool {
	if info, ok := request.RequestInfoFrom(ctx); ok && info.Subresource == "status" {
		return true
	}
	object, err := meta.Accessor(after)
	return err == nil && object.GetDeletionTimestamp() != nil
}

// onlyReleases returns what reports whether a change of an object lets it go, and so may be written in a full space although a server notes in its
// metadata what was done, or because it is dense without long finalizers. Where the space has more than it may, users may not note more.
func (s *Space) onlyReleases(ctx context.Context, n tenant.Name, before runtime.Object) func(after runtime.Object) bool {
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
		return memory.Of(is.GetManagedFields()) <= managed || tenant.ByPlatform(ctx) || !s.options.CacheMemory.Exceeded(n)
	}
}

// isNearLimit reports whether what a space has, or all, or one object of it that takes so much in a cache, may be refused soon.
func (m *CacheMemory) isNearLimit(n tenant.Name, definition cacheID, object int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes[n] > m.most/2 || m.total > 0 && m.takeAll() > m.total/2 || int64(object)*m.definitions[definition].count() > m.most/objectShare/2
}
