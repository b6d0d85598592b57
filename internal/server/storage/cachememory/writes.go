package cachememory

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/process/memory"
	"github.com/tenantry/tenantry/internal/tenant"
)

// objectShare is which part of what a space may have one object may take: while it is written, or deleted, it is
// decoded several times.
const objectShare = 8

// Write is what one write of an object takes more in caches, until one has it.
type Write struct {
	budget   *Budget
	id       tenant.CacheID
	resource schema.GroupResource
	n        tenant.Name
	releases releases
	in       *definitionCaches
	bytes    int64
	headroom int64
}

// releases returns the function that reports whether a change of an object does nothing but let it go.
type releases func(before runtime.Object) (func(after runtime.Object) (bool, error), error)

// NewWrite returns a write of an object in a space. Without a budget everything may be written.
func (m *Budget) NewWrite(of tenant.CacheID, resource schema.GroupResource, n tenant.Name, releases releases) *Write {
	return &Write{budget: m, id: of, resource: resource, n: n, releases: releases}
}

// Attempt is one attempt of a write: another one follows if the object has been changed meanwhile.
type Attempt struct {
	// Write is nil if everything may be written.
	*Write
	// had is what the object took, and isNew whether it was not there.
	had   int
	isNew bool
	// ofStatus is whether the status is written alone.
	ofStatus bool
	// letsGo reports whether nothing is changed but that the object is let go.
	letsGo func(after runtime.Object) bool
}

// Begin gives back what an attempt before has reserved, and begins another one. What is there, nil if there is nothing
// yet, is read at once, because updates may change it.
func (w *Write) Begin(ctx context.Context, before runtime.Object) Attempt {
	if w.budget == nil || !w.n.IsSpace() {
		return Attempt{}
	}
	w.take(0)
	w.takeHeadroom(0)
	a := Attempt{Write: w, isNew: before == nil, letsGo: func(runtime.Object) bool { return false }}
	if before == nil {
		return a
	}
	info, ok := request.RequestInfoFrom(ctx)
	a.ofStatus = ok && info.Subresource == "status"
	if a.had = weightOf(before, memory.Of(before)); w.budget.isNearLimit(w.n, w.id, a.had) {
		a.letsGo = w.onlyReleases(ctx, before)
	}
	return a
}

// Admit reserves what an object takes more as it becomes, or returns an error if the space may not have so much.
func (a Attempt) Admit(after runtime.Object) error {
	if a.Write == nil {
		return nil
	}
	has := weightOf(after, memory.Of(after))
	if has <= a.had || a.letsGo(after) {
		a.take(max(0, has-a.had))
		return nil
	}
	headroom, err := a.budget.checkWrite(a.n, a.id, a.had, has)
	if a.takeHeadroom(headroom); err == nil || has-a.had <= smallGrowth && a.updatesStatus(after) && a.budget.mayUpdateStatus(a.n) {
		a.take(has - a.had)
		return nil
	}
	name := ""
	if o, noObject := meta.Accessor(after); noObject == nil {
		name = o.GetName()
	}
	return apierrors.NewForbidden(a.resource, name, err)
}

// Settle ends a write with its result.
func (w *Write) Settle(err error, result runtime.Object) {
	if err != nil {
		w.takeHeadroom(0)
	}
	if w.bytes == 0 {
		return
	}
	version, noVersion := storage.APIObjectVersioner{}.ObjectResourceVersion(result)
	if err != nil || noVersion != nil {
		w.take(0)
		return
	}
	w.budget.mu.Lock()
	defer w.budget.mu.Unlock()
	w.in.pending.wrote(version, w.bytes)
	w.in.recountLocked()
}

// take notes what an attempt takes, in place of one before, in each of the caches that the definition has at the first.
// Nothing keeps the caches of resources that are no tenant's own.
func (w *Write) take(bytes int) {
	more := int64(bytes) - w.bytes
	if _, one := w.id.Of.Space(); !one || more == 0 {
		return
	}
	w.budget.mu.Lock()
	defer w.budget.mu.Unlock()
	if w.in == nil {
		w.in = w.budget.definitions[w.id]
	}
	if w.in != nil {
		w.in.pending.reserved += more
		w.in.recountLocked()
		w.bytes += more
	}
}

// takeHeadroom notes the headroom that an attempt takes, in place of one before.
func (w *Write) takeHeadroom(bytes int64) {
	if more := bytes - w.headroom; more != 0 {
		w.budget.mu.Lock()
		defer w.budget.mu.Unlock()
		w.budget.useHeadroomLocked(w.n, more)
		w.headroom = bytes
	}
}

// checkWrite returns an error if an object of a space may not become so large in each cache of a definition, and
// otherwise how much headroom it takes.
func (m *Budget) checkWrite(n tenant.Name, definition tenant.CacheID, before, after int) (headroom int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	caches := m.definitions[definition].countLocked()
	more, object := int64(after-before)*caches, int64(after)*caches
	switch {
	case more <= 0:
		return 0, nil
	case object > m.most/objectShare:
		return 0, fmt.Errorf("it takes %d bytes of the server's memory in all versions of its definition: %d are allowed; make several objects of it, or leave out versions that nobody uses",
			object, m.most/objectShare)
	default:
		return m.checkMoreLocked(n, more)
	}
}

// smallGrowth is by how many bytes of memory an object may grow in a full space when only its status is written, or
// when it is being deleted.
const smallGrowth = 4 << 10

// updatesStatus reports whether a change is one of the status, or of an object that is being deleted: controllers write
// what they do before they let it go.
func (a Attempt) updatesStatus(after runtime.Object) bool {
	object, err := meta.Accessor(after)
	return !a.isNew && (a.ofStatus || err == nil && object.GetDeletionTimestamp() != nil)
}

// onlyReleases returns what reports whether a change of an object lets it go, and so may be written in a full space
// although a server notes in its metadata what was done, or because it is dense without long finalizers. Where the
// space has more than it may, users may not note more.
func (w *Write) onlyReleases(ctx context.Context, before runtime.Object) func(after runtime.Object) bool {
	was, err := meta.Accessor(before)
	if err != nil {
		return func(runtime.Object) bool { return false }
	}
	managed := memory.Of(was.GetManagedFields())
	released, err := w.releases(before)
	return func(after runtime.Object) bool {
		is, noObject := meta.Accessor(after)
		if err != nil || noObject != nil {
			return false
		}
		if ok, err := released(after); !ok || err != nil {
			return false
		}
		return memory.Of(is.GetManagedFields()) <= managed || tenant.ByPlatform(ctx) || !w.budget.Exceeded(w.n)
	}
}

// isNearLimit reports whether what a space has, or all, or one object of it that takes so much in a cache, may be
// refused soon.
func (m *Budget) isNearLimit(n tenant.Name, definition tenant.CacheID, object int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes[n] > m.most/2 || m.total > 0 && m.takeAllLocked() > m.total/2 || int64(object)*m.definitions[definition].countLocked() > m.most/objectShare/2
}
