package storage

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Defaults are objects that every space has without storing them, such as the
// default ClusterRoles: those of the system space, as a space may see them. An
// object that a space has stored itself takes the place of the default one.
type Defaults struct {
	// Keys returns those of the objects, below the resource's prefix.
	Keys func() []string
	// Adapt changes the system space's object at a key, or an empty one if there
	// is none, to what a space may see, and reports whether that is an object.
	// Adapt need not care for what identifies the object in the space.
	Adapt func(key string, obj runtime.Object) (bool, error)
	// Replaced says how an object of the space takes the place of a default one.
	Replaced Replacement
	// Changes, if set, returns the resource version at which keys or objects changed
	// last, and what is closed when they change again. Watches that have begun
	// earlier end then, with 410: their clients list again.
	Changes func() (last uint64, next <-chan struct{})
	// Draft makes of a default object what the space's own begins with. Own reports
	// whether an update of that is meant to be the space's own, takes away what only a
	// default one has, and returns why it must not be created. Both are for what is
	// replaced ByCreation.
	Draft func(obj runtime.Object) error
	Own   func(ctx context.Context, obj runtime.Object) (bool, error)
	// Refusal, if set, is why a default object cannot be changed or deleted.
	Refusal error
	// Hidden reports whether a space has none: one that is being emptied has
	// only what is stored.
	Hidden func(n tenant.Name) bool
}

// Replacement is how an object of a space takes the place of a default one.
type Replacement int

const (
	// ByUpdate: a space changes it, or creates its own.
	ByUpdate Replacement = iota
	// ByCreation: a space creates its own, also by an update that says so, and cannot
	// change what it has not created.
	ByCreation
	// Never: a space has no object of its own at this place.
	Never
)

var errDefaultsChanged = apierrors.NewResourceExpired("what every space has has changed; list again")

// defaultsEnd returns what is closed when a watch has to begin anew because of what
// the space has without storing it, and an error if it has to at once.
func (s *Space) defaultsEnd(c collection) (<-chan struct{}, error) {
	if !s.hasDefaults(c.space) || s.defaults.Changes == nil {
		return nil, nil
	}
	last, next := s.defaults.Changes()
	if wantsInitialEvents(c.opts) {
		return next, nil
	}
	since, err := s.Versioner().ParseResourceVersion(c.opts.ResourceVersion)
	if err == nil && since > 0 && since < last {
		return nil, errDefaultsChanged
	}
	return next, nil
}

var errDefault = errors.New("it is part of every space, not stored in this one, and cannot be changed or deleted here")

func (s *Space) hasDefaults(n tenant.Name) bool {
	return s.defaults != nil && n.IsSpace() && !s.defaults.Hidden(n)
}

// isDefault reports whether the space of n has a default object at key.
func (s *Space) isDefault(n tenant.Name, key string) bool {
	return s.hasDefaults(n) && slices.Contains(s.defaults.Keys(), key[len(s.resourcePrefix):])
}

func (s *Space) refuse(key string) error {
	reason := s.defaults.Refusal
	if reason == nil {
		reason = errDefault
	}
	return apierrors.NewForbidden(s.resource, path.Base(key), reason)
}

// unstoredVersion is the resource version of a default object that the system
// space does not have.
const unstoredVersion = "1"

// unstored is the namespace of the UIDs of default objects.
var unstored = uuid.MustParse("5b7c1a3e-2f0d-4f4e-9c57-0d1f5a9e6b42")

// getDefault sets out to the default object at key and reports whether there is
// one.
func (s *Space) getDefault(ctx context.Context, n tenant.Name, key string, out runtime.Object) (bool, error) {
	system := tenant.CacheKey(s.resourcePrefix, tenant.System, key)
	if err := s.Interface.Get(ctx, system, storage.GetOptions{IgnoreNotFound: true, ResourceVersion: "0"}, out); err != nil {
		return false, err
	}
	if found, err := s.defaults.Adapt(key[len(s.resourcePrefix):], out); err != nil || !found {
		return false, runtimeZero(out, true, err)
	}
	accessor, err := meta.Accessor(out)
	if err != nil {
		return false, err
	}
	if accessor.GetResourceVersion() == "" {
		accessor.SetResourceVersion(unstoredVersion)
	}
	accessor.SetUID(types.UID(uuid.NewSHA1(unstored, []byte(string(n)+key)).String()))
	accessor.SetManagedFields(nil)
	accessor.SetOwnerReferences(nil)
	accessor.SetFinalizers(nil)
	accessor.SetAnnotations(maps.Clone(accessor.GetAnnotations()))
	return true, setTenant(out, n)
}

// addDefaults adds to a list of a space the default objects that belong into it
// and are not replaced by one that the space has stored.
func (s *Space) addDefaults(ctx context.Context, c collection, list runtime.Object) error {
	if info, ok := request.RequestInfoFrom(ctx); ok && info.Verb == "deletecollection" {
		return nil // what is not stored need not go
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	complete := items
	for _, key := range s.defaults.Keys() {
		if c.namespace != "" && !strings.HasPrefix(key, c.namespace+"/") {
			continue
		}
		obj := s.newFunc()
		found, err := s.getDefault(ctx, c.space, s.resourcePrefix+key, obj)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		matches, err := c.opts.Predicate.Matches(obj)
		if err != nil {
			return err
		}
		if matches && !slices.ContainsFunc(items, func(item runtime.Object) bool { return sameName(item, obj) }) {
			complete = append(complete, obj)
		}
	}
	if len(complete) == len(items) {
		return nil
	}
	return meta.SetList(list, complete)
}

// updateDefault updates the object at key, which begins as the default one if
// the space has not stored it yet.
func (s *Space) updateDefault(ctx context.Context, n tenant.Name, key, cacheKey string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc) error {
	if s.defaults.Replaced == Never {
		return s.refuse(key)
	}
	change := s.inSpace(ctx, n, tryUpdate)
	fromDefault := func(input runtime.Object, res storage.ResponseMeta) (runtime.Object, *uint64, error) {
		if res.ResourceVersion == 0 {
			input = s.newFunc()
			found, err := s.getDefault(ctx, n, key, input)
			switch {
			case err != nil:
				return nil, nil, err
			case found && s.defaults.Replaced == ByCreation:
				// Who has meant an object of the space is told that it has gone.
				if err := preconditions.Check(key, input); err != nil {
					return nil, nil, err
				}
				return s.takeOver(ctx, n, key, input, tryUpdate)
			case found:
				// Storing it is a creation, although its caller sees an update.
				if err := s.mayCreate(ctx, n); err != nil {
					return nil, nil, err
				}
				if res.ResourceVersion, err = s.Versioner().ObjectResourceVersion(input); err != nil {
					return nil, nil, err
				}
			case !ignoreNotFound:
				return nil, nil, storage.NewKeyNotFoundError(key, 0)
			}
		}
		if err := preconditions.Check(key, input); err != nil {
			return nil, nil, err
		}
		return change(input, res)
	}
	return s.update(ctx, n, key, cacheKey, destination, true, nil, fromDefault, nil)
}

// restored returns what a watch needs to tell that a default object is there
// again, after that of the space in its place is deleted. It is nil if there is
// nothing to tell.
func (s *Space) restored(ctx context.Context, c collection) func(watch.Event) (watch.Event, bool) {
	if !s.hasDefaults(c.space) || s.defaults.Replaced == Never {
		return nil
	}
	return func(event watch.Event) (watch.Event, bool) {
		if event.Type != watch.Deleted {
			return event, false
		}
		accessor, err := meta.Accessor(event.Object)
		if err != nil {
			return event, false
		}
		key := s.resourcePrefix + path.Join(accessor.GetNamespace(), accessor.GetName())
		if !s.isDefault(c.space, key) {
			return event, false
		}
		obj := s.newFunc()
		err = s.Interface.Get(ctx, tenant.CacheKey(s.resourcePrefix, c.space, key), storage.GetOptions{IgnoreNotFound: true, ResourceVersion: "0"}, obj)
		if err != nil || !isZero(obj) {
			return event, false // it only no longer matches the selector
		}
		if found, err := s.getDefault(ctx, c.space, key, obj); err != nil || !found {
			return event, false
		}
		matches, err := c.opts.Predicate.Matches(obj)
		return watch.Event{Type: watch.Added, Object: obj}, err == nil && matches
	}
}

func sameName(a, b runtime.Object) bool {
	first, err := meta.Accessor(a)
	if err != nil {
		return false
	}
	second, err := meta.Accessor(b)
	return err == nil && first.GetName() == second.GetName() && first.GetNamespace() == second.GetNamespace()
}
