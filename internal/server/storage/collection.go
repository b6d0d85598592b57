package storage

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/server/storage/cachememory"
	"github.com/tenantry/tenantry/internal/tenant"
)

// collection is a list or watch of a scope.
type collection struct {
	scope     tenant.Scope
	namespace string // empty for all, and for cluster-scoped objects
	key       string
	opts      storage.ListOptions
}

func (s *Space) collection(ctx context.Context, key string, opts storage.ListOptions) (collection, error) {
	in, err := s.scope(ctx)
	if err != nil {
		return collection{}, errAt(key, err)
	}
	namespace, _ := request.NamespaceFrom(ctx)
	if opts.Predicate, err = s.predicate(opts.Predicate, in, namespace); err != nil {
		return collection{}, err
	}
	if opts.Predicate.Continue, err = unbindContinue(in, opts.Predicate.Continue); err != nil {
		return collection{}, err
	}
	c := collection{scope: in, namespace: namespace, opts: opts}
	n, one := in.Space()
	switch {
	case one:
		c.key = tenant.CacheKey(s.resourcePrefix, n, withSlash(key, len(s.resourcePrefix)))
	case in == tenant.All:
		c.key, c.opts.Recursive = tenant.CachePrefix(s.resourcePrefix, in), true
	default:
		// The cache orders the objects of all spaces in another way than etcd, so a
		// page of one cannot follow a page of the other: there are no pages.
		c.key, c.opts.Recursive, c.opts.Predicate.Limit = s.resourcePrefix, true, 0
	}
	return c, nil
}

// withSlash adds the trailing slash to the resource prefix itself, which callers leave
// out.
func withSlash(key string, prefixLength int) string {
	if len(key) < prefixLength {
		return key + "/"
	}
	return key
}

// dispatchContext scopes a watch to the space: upstream's cache takes the scope
// of a watcher from the namespace in its context. None is for many.
func (c collection) dispatchContext(ctx context.Context) context.Context {
	n, _ := c.scope.Space()
	return request.WithNamespace(ctx, string(n))
}

// GetList implements storage.Interface.
func (s *Space) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	c, err := s.collection(ctx, key, opts)
	if err != nil {
		return err
	}
	if c.opts.ResourceVersion != "" || c.opts.Predicate.Continue != "" { // others are lists of what is there now
		if err := s.checkRevision(ctx, c); err != nil {
			return err
		}
	}
	takes, err := s.list(ctx, c, list)
	if _, custom := s.newFunc().(*unstructured.Unstructured); err != nil || !custom {
		return err
	}
	// Upstream copies it to encode it, also one that a cache answers.
	return takes.AddCopy(list, s.counted())
}

// listedBy returns the storage that serves a list, and how many objects of it at once where limit are asked for.
// Upstream's controller of definitions lists the objects to delete of a resource whose cache may not be ready if it was
// not used before. After an error it may wait for minutes. And namespaces end whose objects take more memory than they
// may in a cache.
func (s *Space) listedBy(ctx context.Context, limit int64) (storage.Interface, int64) {
	info, _ := request.RequestInfoFrom(ctx)
	switch {
	case s.options.Of != tenant.Everything && tenant.RequestFrom(ctx) == nil:
		return s.uncached, limit
	case s.options.Of == tenant.Everything || info == nil || info.Namespace == "" || !tenant.ByPlatform(ctx) || s.filled():
		return s.Interface, limit
	case info.Verb == "deletecollection":
		return s.uncached, min(limit, deletedAtOnce)
	default:
		return s.uncached, limit
	}
}

// deletedAtOnce is how many objects are decoded at once that are deleted together and that no cache has.
const deletedAtOnce = 500

// counted is what the cache has of objects that count as memory, nil without a cache or a budget.
func (s *Space) counted() *cachememory.Cache {
	if cached, ok := s.Interface.(*withHistory); ok {
		return cached.history.counted
	}
	return nil
}

// filled reports whether the cache has all that there is.
func (s *Space) filled() bool {
	cached, ok := s.Interface.(*withHistory)
	return !ok || cached.history.counted.Filled() && cached.history.failedLists.Load() == 0
}

// list lists, and returns what that takes until ctx ends.
func (s *Space) list(ctx context.Context, c collection, list runtime.Object) (*cachememory.List, error) {
	listing, takes := s.options.CacheMemory.BoundList(ctx, c.scope)
	by, limit := s.listedBy(ctx, c.opts.Predicate.Limit)
	c.opts.Predicate.Limit = limit
	if err := by.GetList(listing, c.key, c.opts, list); err != nil {
		return nil, bindContinueError(c.scope, err)
	}
	return takes, s.finish(ctx, c, list)
}

// finish makes of what a storage has listed what the space shows.
func (s *Space) finish(ctx context.Context, c collection, list runtime.Object) error {
	if err := ended(ctx); err != nil {
		return err
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return err
	}
	if version, err := s.revision(accessor.GetResourceVersion()); err == nil && !s.cached && c.opts.ResourceVersionMatch != metav1.ResourceVersionMatchExact && c.opts.Predicate.Continue == "" {
		s.resumes.note(time.Now(), version)
	}
	if err := s.withoutAnother(ctx, list); err != nil {
		return err
	}
	if token := accessor.GetContinue(); token != "" {
		accessor.SetContinue(bindContinue(c.scope, token))
	} else if s.hasDefaults(c.scope) {
		return s.addDefaults(ctx, c, list)
	}
	return nil
}

// Watch implements storage.Interface.
func (s *Space) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	c, err := s.collection(ctx, key, opts)
	if err != nil {
		return nil, err
	}
	source, err := s.watch(ctx, c)
	if uid, noted := tenant.RequestFrom(ctx).Namespace(); err == nil && noted && s.resource == namespaceResource {
		return ofOne(source, uid), nil
	}
	return source, err
}

func (s *Space) watch(ctx context.Context, c collection) (watch.Interface, error) {
	if err := s.checkRevision(ctx, c); err != nil {
		return errorWatch(err), nil
	}
	if err := s.mayResume(ctx, c); apierrors.IsResourceExpired(err) {
		return errorWatch(err), nil
	} else if err != nil {
		return nil, err
	}
	ctx = c.dispatchContext(ctx)
	ended, err := s.defaultsEnd(c)
	if err != nil {
		return errorWatch(err), nil
	}
	if wantsInitialEvents(c.opts) {
		return s.watchFromList(ctx, c, ended)
	}
	source, err := s.Interface.Watch(ctx, c.key, c.opts)
	if follow := s.restored(ctx, c); err == nil && (follow != nil || ended != nil) {
		w := newPrefixedWatch(source, follow, ended)
		go w.run(nil)
		return w, nil
	}
	return source, err
}
