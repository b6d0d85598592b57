package storage

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/tenantry/tenantry/internal/etcdstore"
	"github.com/tenantry/tenantry/internal/server/storage/cachememory"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Space is the upper wrapper. It makes every call act in the space of the tenant in its
// context and fails if there is none.
type Space struct {
	// Interface is the watch cache or, for a resource without one, etcdKeys. Its methods
	// that are not wrapped below concern the resource as a whole.
	storage.Interface

	// uncached is etcdKeys.
	uncached storage.Interface

	resourcePrefix string // with a trailing slash
	cached         bool
	resumes        *resumes
	cacheID        tenant.CacheID
	attributes     storage.AttrFunc
	newFunc        func() runtime.Object
	newListFunc    func() runtime.Object
	resource       schema.GroupResource
	transport      storagebackend.TransportConfig // of the etcd of the resource
	options        RESTOptionsGetter
	// defaults, if set, are the default objects of the resource.
	defaults *Defaults
	// definedBy is the key of the definition of the resource, if this storage is for one space.
	definedBy string
	// foreign, if set, reports the spaces that define the resource themselves.
	foreign func(tenant.Name) bool
	codec   runtime.Codec
}

var _ storage.Interface = &Space{}

// scope returns the scope of a call. Upstream's controllers of definitions use the
// storage of one space without a tenant in the context.
func (s *Space) scope(ctx context.Context) (tenant.Scope, error) {
	if _, one := s.options.Of.Space(); one && tenant.RequestFrom(ctx) == nil {
		return s.options.Of, nil
	}
	in, err := tenant.ScopeFrom(ctx)
	n, one := in.Space()
	switch {
	case one && s.foreign != nil && s.foreign(n):
		return "", apierrors.NewServiceUnavailable("the space defines this resource itself, and does not serve it yet")
	case err != nil || s.options.Of == tenant.Everything || in == s.options.Of:
		return in, err
	case in == tenant.Everything && s.options.Of == tenant.System.Scope():
		return s.options.Of, nil
	default:
		return "", apierrors.NewBadRequest("custom resources are defined by each tenant; name one tenant")
	}
}

// errAt adds the key of storage to an error, unless that is an answer to a client: such a one has to stay as it is.
func errAt(key string, err error) error {
	if _, is := err.(apierrors.APIStatus); is { // the answer to a client is this type alone
		return err
	}
	return fmt.Errorf("storage key %q: %w", key, err)
}

// single returns the space and the cache key of one object.
func (s *Space) single(ctx context.Context, key string) (tenant.Name, string, error) {
	in, err := s.scope(ctx)
	if err != nil {
		return "", "", errAt(key, err)
	}
	n, one := in.Space()
	if !one {
		return "", "", apierrors.NewBadRequest(tenant.ErrManySpaces.Error())
	}
	return n, tenant.CacheKey(s.resourcePrefix, n, key), nil
}

// newWrite returns what a write of an object in the space of n takes of the memory of caches.
func (s *Space) newWrite(n tenant.Name) *cachememory.Write {
	return s.options.CacheMemory.NewWrite(s.cacheID, s.resource, n, releases)
}

// maxName bounds the names of new objects, in bytes. Those of RBAC have no other bound, and an object whose name is
// longer than a URL may be could be created and not be deleted.
const maxName = 1 << 10

// mayCreate returns an error if a space accepts no new object, or not this one.
func (s *Space) mayCreate(ctx context.Context, n tenant.Name, obj runtime.Object) error {
	if !n.IsSpace() {
		return nil
	}
	if o, err := meta.Accessor(obj); err != nil {
		return err
	} else if name := o.GetName(); len(name) > maxName {
		return apierrors.NewBadRequest(fmt.Sprintf("metadata.name has %d bytes and begins with %q; a name in a tenant's space may have %d: choose a shorter one",
			len(name), name[:63], maxName))
	}
	if s.options.Fence != nil {
		if _, known := tenant.UIDFrom(ctx, n); !known {
			return apierrors.NewInternalError(fmt.Errorf("creating in the space of tenant %q, which nobody was admitted to", n))
		}
	}
	if s.options.Ending != nil && s.options.Ending(s.resource) {
		return apierrors.NewMethodNotSupported(s.resource, "create")
	}
	if s.options.Closed == nil {
		return nil
	}
	return s.options.Closed(ctx, n)
}

// fenced returns the context of a write in the space of n. etcd refuses the write if the
// tenant for which the request was admitted has ended.
func (s *Space) fenced(ctx context.Context, n tenant.Name) context.Context {
	uid, known := tenant.UIDFrom(ctx, n)
	if !known || s.options.Fence == nil {
		return ctx
	}
	if cleansUp(ctx) {
		ctx = etcdstore.WithReserve(ctx)
	}
	fence := s.options.Fence(n, uid)
	if isBound(ctx, n) && !cleansUp(ctx) {
		fence = strict{fence}
	}
	return etcdstore.WithFence(s.whileDefined(ctx), fence)
}

// cleansUp reports whether a request is a deletion, which may only mark an object, or one of the platform.
func cleansUp(ctx context.Context) bool {
	if info, ok := request.RequestInfoFrom(ctx); ok && (info.Verb == "delete" || info.Verb == "deletecollection") {
		return true
	}
	return tenant.ByPlatform(ctx)
}

// mayChange returns the function that decides about a change of an object; see RESTOptionsGetter.Protect.
func (s *Space) mayChange(ctx context.Context, n tenant.Name, before runtime.Object) func(after runtime.Object) error {
	if s.options.Protect == nil {
		return func(runtime.Object) error { return nil }
	}
	return s.options.Protect(ctx, n, s.resource, before)
}

// completes returns the function that completes an object; see RESTOptionsGetter.Prepare.
func (s *Space) completes(ctx context.Context, n tenant.Name, before runtime.Object) func(after runtime.Object) error {
	prepare := s.options.Prepare[s.resource]
	if prepare == nil {
		return func(runtime.Object) error { return nil }
	}
	return prepare(ctx, n, before)
}

// admit returns the function that completes an object and decides whether the space of n may
// have it, by all rules of a write. What is there, nil if there is nothing yet, is read at
// once, because updates may change it. What is decided about is what would be stored.
func (s *Space) admit(ctx context.Context, n tenant.Name, w *cachememory.Write, before runtime.Object) func(after runtime.Object) error {
	already := hasItems(before)
	return allOf(
		func(after runtime.Object) error {
			if before != nil {
				return nil
			}
			return s.mayCreate(ctx, n, after)
		},
		s.completes(ctx, n, before),
		s.mayChange(ctx, n, before),
		w.Begin(ctx, before).Admit,
		func(runtime.Object) error { return StillDefined(ctx) },
		func(after runtime.Object) error { return checkItems(after, already) },
		s.mayStillChange(ctx, n, before),
		func(runtime.Object) error { return ctx.Err() }, // the tenant may have ended during admission
		func(after runtime.Object) error { return setTenant(after, n) },
		s.converts(n, before),
	)
}

// Create implements storage.Interface.
func (s *Space) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) (err error) {
	n, cacheKey, err := s.single(ctx, key)
	if err != nil {
		return err
	}
	if s.isDefault(n, key) && s.defaults.Replaced == Never {
		return storage.NewKeyExistsError(key, 0)
	}
	w := s.newWrite(n)
	defer func() { w.Settle(err, out) }()
	if err := s.admit(ctx, n, w, nil)(obj); err != nil {
		return err
	}
	if err := s.expires(ctx, n, obj, ttl); err != nil {
		return err
	}
	account := s.account(ctx, n, key)
	if err := account.charge(ctx, nil, obj); err != nil {
		return err
	}
	err = s.Interface.Create(s.fenced(ctx, n), cacheKey, obj, out, ttl)
	account.settle(outcomeOf(err))
	return err
}

// Get implements storage.Interface.
func (s *Space) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	n, cacheKey, err := s.single(ctx, key)
	if err != nil {
		return err
	}
	if opts, err = s.atLeastOldest(ctx, n, opts); err != nil {
		return err
	}
	err = s.Interface.Get(ctx, cacheKey, opts, out)
	if err := ended(ctx); err != nil {
		return err
	}
	if s.isDefault(n, key) && (storage.IsNotFound(err) || err == nil && opts.IgnoreNotFound && isZero(out)) {
		if found, defaultErr := s.getDefault(ctx, n, key, out); found || defaultErr != nil {
			return defaultErr
		}
	}
	if err == nil && s.isAnother(ctx, out) {
		return tooLate("the namespace is gone")
	}
	return err
}

// Delete implements storage.Interface.
func (s *Space) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, cached runtime.Object, opts storage.DeleteOptions) error {
	n, cacheKey, err := s.single(ctx, key)
	if err != nil {
		return err
	}
	protected := func(ctx context.Context, obj runtime.Object) error {
		if err := s.mayChange(ctx, n, obj)(nil); err != nil {
			return err
		}
		if err := s.mayGo(ctx, n, obj); err != nil {
			return err
		}
		if validate != nil {
			if err := validate(ctx, obj); err != nil {
				return err
			}
		}
		return ctx.Err() // the tenant may have ended during admission
	}
	err = s.Interface.Delete(s.fenced(ctx, n), cacheKey, out, preconditions, protected, cached, opts)
	s.account(ctx, n, key).freed(ctx, out, err)
	if storage.IsNotFound(err) && s.isDefault(n, key) {
		return s.refuse(key)
	}
	return err
}

// GuaranteedUpdate implements storage.Interface.
func (s *Space) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, cached runtime.Object) (err error) {
	n, cacheKey, err := s.single(ctx, key)
	if err != nil {
		return err
	}
	ctx = s.fenced(ctx, n)
	w := s.newWrite(n)
	defer func() { w.Settle(err, destination) }()
	if s.isDefault(n, key) {
		return s.updateDefault(ctx, n, key, cacheKey, w, destination, ignoreNotFound, preconditions, tryUpdate)
	}
	return s.update(ctx, n, key, cacheKey, destination, ignoreNotFound, preconditions, s.guarded(ctx, n, w, tryUpdate), cached)
}

// guarded returns an update of an object of a space that enforces the rules of the space
// and completes the object.
func (s *Space) guarded(ctx context.Context, n tenant.Name, w *cachememory.Write, tryUpdate storage.UpdateFunc) storage.UpdateFunc {
	return func(input runtime.Object, res storage.ResponseMeta) (runtime.Object, *uint64, error) {
		var before runtime.Object
		if res.ResourceVersion != 0 {
			before = input
		}
		admit := s.admit(ctx, n, w, before)
		output, ttl, err := tryUpdate(input, res)
		if err != nil { // a patch of what is not there says so, also in a space that takes no new objects
			return nil, nil, err
		}
		if err := admit(output); err != nil {
			return nil, nil, err
		}
		if ttl == nil {
			return output, nil, nil
		}
		return output, ttl, s.expires(ctx, n, output, *ttl)
	}
}
