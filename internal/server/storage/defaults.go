package storage

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Defaults are objects that every space shows without storing them, such as the default
// ClusterRoles: overlays of the system space's objects. An object of the same name in a
// space shadows the default object.
type Defaults struct {
	// Keys returns the keys of the objects, below the resource's prefix.
	Keys func() []string
	// Adapt changes the system space's object at a key, or an empty one if there is none,
	// to the form that spaces may see, and reports whether there is a default object. The
	// caller sets the fields that identify the object in the space.
	Adapt func(key string, obj runtime.Object) (bool, error)
	// Replaced says how an object of a space shadows a default one.
	Replaced Replacement
	// Changes, if set, returns the resource version at which keys or objects changed
	// last, and a channel that is closed at the next change. Watches of earlier versions
	// then end with 410, and their clients list again.
	Changes func() (last uint64, next <-chan struct{})
	// Draft makes the initial object of the space from a default one. Override reports
	// whether an update of a default object is meant to create the space's own; it removes
	// the fields that only a default object has, and returns an error if the object must not
	// be created. Both are for ByCreation.
	Draft    func(obj runtime.Object) error
	Override func(ctx context.Context, obj runtime.Object) (bool, error)
	// Refusal, if set, is the error of a change or deletion of a default object.
	Refusal error
	// Hidden reports whether a space has no default objects: one that is being emptied
	// shows stored objects only.
	Hidden func(n tenant.Name) bool
}

// IsService reports whether an object is of the Service of the API server, which every space shows
// as the system space has it: the Service, or its addresses.
func IsService(o objects.Ref) bool {
	switch o.Resource {
	case corev1.Resource("services"), corev1.Resource("endpoints"), discoveryv1.Resource("endpointslices"):
		return o.Namespace == metav1.NamespaceDefault && o.Name == "kubernetes"
	default:
		return false
	}
}

// Replacement is how an object of a space shadows a default one.
type Replacement int

const (
	// ByUpdate: a space changes the default object, or creates its own.
	ByUpdate Replacement = iota
	// ByCreation: a space creates its own, also by an update that says so, and cannot
	// change the default object.
	ByCreation
	// Never: a space cannot have an object of that name.
	Never
)

var errDefaultsChanged = apierrors.NewResourceExpired("the default objects of the space have changed; list again")

// defaultsEnd returns a channel that is closed when a watch has to start anew because the
// default objects changed, and an error if it has to at once.
func (s *Space) defaultsEnd(c collection) (<-chan struct{}, error) {
	if !s.hasDefaults(c.scope) || s.defaults.Changes == nil {
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

func (s *Space) hasDefaults(in tenant.Scope) bool {
	n, one := in.Tenant()
	return s.defaults != nil && one && !s.defaults.Hidden(n)
}

// isDefault reports whether the space of n has a default object at key.
func (s *Space) isDefault(n tenant.Name, key string) bool {
	return s.hasDefaults(n.Scope()) && slices.Contains(s.defaults.Keys(), key[len(s.resourcePrefix):])
}

func (s *Space) refuse(key string) error {
	return apierrors.NewForbidden(s.resource, path.Base(key), cmp.Or(s.defaults.Refusal, errDefault))
}

// unstoredVersion is the resource version of a default object that the system
// space does not have.
const unstoredVersion = "1"

// unstored is the name space of the UIDs of default objects (RFC 9562).
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

// addDefaults adds to a list of a space the default objects that match and are not
// shadowed.
func (s *Space) addDefaults(ctx context.Context, c collection, list runtime.Object) error {
	if info, ok := request.RequestInfoFrom(ctx); ok && info.Verb == "deletecollection" {
		return nil // default objects are not deleted
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	n, _ := c.scope.Tenant()
	complete := items
	for _, key := range s.defaults.Keys() {
		if c.namespace != "" && !strings.HasPrefix(key, c.namespace+"/") {
			continue
		}
		obj := s.newFunc()
		found, err := s.getDefault(ctx, n, s.resourcePrefix+key, obj)
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

// updateDefault updates the object at key. If the space has not stored it, the update
// starts from the default object.
func (s *Space) updateDefault(ctx context.Context, n tenant.Name, key, cacheKey string, w *cacheWrite, destination runtime.Object,
	ignoreNotFound bool, preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc) error {
	if s.defaults.Replaced == Never {
		return s.refuse(key)
	}
	change := s.guarded(ctx, n, w, tryUpdate)
	fromDefault := func(input runtime.Object, res storage.ResponseMeta) (runtime.Object, *uint64, error) {
		if res.ResourceVersion == 0 {
			input = s.newFunc()
			found, err := s.getDefault(ctx, n, key, input)
			switch {
			case err != nil:
				return nil, nil, err
			case found && s.defaults.Replaced == ByCreation:
				// Preconditions on a deleted object of the space fail.
				if err := preconditions.Check(key, input); err != nil {
					return nil, nil, err
				}
				return s.takeOver(ctx, n, key, w, input, tryUpdate)
			case found:
				// Storing it is a creation, although its caller sees an update.
				if err := s.mayCreate(ctx, n, input); err != nil {
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

// restored returns a function that turns the deletion of an object in a space into the
// addition of the default object that it has shadowed. It is nil if the space has no
// default objects.
func (s *Space) restored(ctx context.Context, c collection) func(watch.Event) (watch.Event, bool) {
	n, _ := c.scope.Tenant()
	if !s.hasDefaults(c.scope) || s.defaults.Replaced == Never {
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
		if !s.isDefault(n, key) {
			return event, false
		}
		obj := s.newFunc()
		err = s.Interface.Get(ctx, tenant.CacheKey(s.resourcePrefix, n, key), storage.GetOptions{IgnoreNotFound: true, ResourceVersion: "0"}, obj)
		if err != nil || !isZero(obj) {
			return event, false // the object exists, and no longer matches the selector
		}
		if found, err := s.getDefault(ctx, n, key, obj); err != nil || !found {
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
