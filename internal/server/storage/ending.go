package storage

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tenantry/tenantry/internal/etcdstore"
	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/internal/tenant"
)

// isBound reports whether a request may change in the space of n only what its end allows: it was admitted to the
// space, for somebody who is none of the platform. Webhooks may delay it until the space ends.
func isBound(ctx context.Context, n tenant.Name) bool {
	_, admitted := tenant.UIDFrom(ctx, n)
	return admitted && !tenant.ByPlatform(ctx)
}

// mayStillChange returns the function that decides whether a change of an object may be written although the space may
// have begun to end since the request was admitted: a finalizer that came now would keep the space for ever, because
// nobody of the tenant may take it out any more.
func (s *Space) mayStillChange(ctx context.Context, n tenant.Name, before runtime.Object) func(after runtime.Object) error {
	if before == nil || s.options.Frozen == nil || !isBound(ctx, n) || cleansUp(ctx) {
		return func(runtime.Object) error { return nil }
	}
	release, err := releases(before)
	return func(after runtime.Object) error {
		if err != nil {
			return err
		}
		frozen := s.options.Frozen(ctx, n)
		if frozen == nil {
			return nil
		}
		released, err := release(after)
		if err != nil || released {
			return err
		}
		return frozen
	}
}

// releases returns the function that reports whether a change lets an object go: it marks the object as deleted, or
// takes finalizers out and does nothing else. The object may be changed in place.
func releases(before runtime.Object) (func(after runtime.Object) (bool, error), error) {
	was, err := meta.Accessor(before)
	if err != nil {
		return nil, err
	}
	finalizers, deleted := slices.Clone(was.GetFinalizers()), was.GetDeletionTimestamp() != nil
	var rest runtime.Object
	if len(finalizers) > 0 {
		rest = withoutFinalizers(before)
	}
	return func(after runtime.Object) (bool, error) {
		is, err := meta.Accessor(after)
		if err != nil {
			return false, err
		}
		return !deleted && is.GetDeletionTimestamp() != nil ||
			isLess(is, finalizers) && equality.Semantic.DeepEqual(withoutFinalizers(after), rest), nil
	}, nil
}

// withoutFinalizers returns a copy of an object without what changes with its finalizers.
func withoutFinalizers(o runtime.Object) runtime.Object {
	return objects.Content(o, func(accessor metav1.Object) { accessor.SetFinalizers(nil) })
}

// isLess reports whether an object has some of the finalizers, not all of them, and no other.
func isLess(is metav1.Object, finalizers []string) bool {
	return len(is.GetFinalizers()) < len(finalizers) &&
		!slices.ContainsFunc(is.GetFinalizers(), func(f string) bool { return !slices.Contains(finalizers, f) })
}

// strict is the fence of changes that are not made any more as soon as there can be no new objects.
type strict struct{ etcdstore.Fence }

// Ended implements etcdstore.Fence.
func (f strict) Ended() string { return f.Closed() }
