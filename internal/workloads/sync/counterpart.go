package sync

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
)

// getter is a client of one kind of objects in one namespace.
type getter[T any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (*T, error)
}

// orNil returns what a cache or a client has, nil if there is none.
func orNil[T any](o *T, err error) (*T, error) {
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return o, err
}

// sides returns what a space has of an item, nil if nothing, and what the host has for that and for its predecessors of
// the name.
func sides[T any](i item, inSpace func(name string) (*T, error), onHost func(namespace tenant.Flat, name string) ([]*T, error)) (own *T, all []*T, err error) {
	if own, err = orNil(inSpace(i.name)); err == nil {
		all, err = onHost(i.namespace, i.name)
	}
	return own, all, err
}

// uidOf returns the UID of the object that a host's is made of.
func uidOf(host metav1.Object) types.UID {
	return types.UID(host.GetAnnotations()[names.UIDAnnotation])
}

// counterpart returns which of the host's objects of a name is made of own, nil if none is, and removes the others:
// their own are gone. own is nil if there is none.
func counterpart[T any, O object[T]](s *syncer, what string, own O, all []O, remove func(O) error) (host O, removed, err error) {
	for _, h := range all {
		switch {
		case own == nil || uidOf(h) != own.GetUID():
			removed = errors.Join(removed, remove(h))
		case !s.isAtHome(h):
			return nil, nil, fmt.Errorf("the host's %s %s/%s is not where its namespace is on the host, or the cache of namespaces is behind", what, h.GetNamespace(), h.GetName())
		default:
			host = h
		}
	}
	return host, removed, nil
}

// isAtHome reports whether a host's object is where those of its namespace and tenant are now.
func (s *syncer) isAtHome(host metav1.Object) bool {
	of, _, ok := sourceOf(host)
	home, _, err := s.homeOf(of.Flat())
	return ok && err == nil && home == of
}

// isOnHost asks the host itself whether it has an object for own: the cache may be behind.
func isOnHost[T any, O object[T]](ctx context.Context, client getter[T], what string, own O, home names.Namespace) (bool, error) {
	there, err := orNil(client.Get(ctx, own.GetName(), metav1.GetOptions{}))
	if err != nil {
		return false, fmt.Errorf("reading the host's %s: %w", what, err)
	}
	return there != nil && home.Has(O(there), own.GetName()) && uidOf(O(there)) == own.GetUID(), nil
}

// errTaken means that the host has somebody else's object in the place of one. The space gets an event.
type errTaken string

// Error implements error.
func (e errTaken) Error() string {
	return fmt.Sprintf("the host cluster has another %s in its place; whoever administers the host is to remove it", string(e))
}

// existing returns the object that the host has in the place of a new one for own, if it is that. Its predecessor's end
// brings own back.
func existing[T any, O object[T]](ctx context.Context, client getter[T], what string, own O, home names.Namespace) (O, error) {
	there, err := client.Get(ctx, own.GetName(), metav1.GetOptions{})
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the host's %s: %w", what, err)
	case !home.Has(O(there), own.GetName()):
		return nil, errTaken(what)
	case uidOf(O(there)) != own.GetUID():
		return nil, fmt.Errorf("the %s of this name that there was before is still on the host", what)
	}
	return there, nil
}

// confirmGone returns nil if an object of a space is gone, as the space itself says: the cache may be behind.
func confirmGone[T any, O object[T]](ctx context.Context, client getter[T], what, name string, uid types.UID) error {
	live, err := orNil(client.Get(ctx, name, metav1.GetOptions{}))
	switch {
	case err != nil:
		return fmt.Errorf("looking whether a %s is gone: %w", what, err)
	case live != nil && O(live).GetUID() == uid:
		return fmt.Errorf("%w: the %s is there", errBehind, what)
	}
	return nil
}

// mayRemove returns nil if the object of the host for one of a space may go: that is gone and, unless somebody was seen
// to delete it, not too many others are.
func mayRemove[T any, O object[T]](ctx context.Context, s *syncer, client getter[T], what string, i item, uid types.UID) error {
	if err := confirmGone[T, O](ctx, client, what, i.name, uid); err != nil {
		return err
	}
	if _, seen := s.deleted.of(uid); seen {
		return nil
	}
	return s.orphans.allow(i.tenant, uid, s.hostCaches.objects())
}
