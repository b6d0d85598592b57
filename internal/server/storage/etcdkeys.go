package storage

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"

	"github.com/tenantry/tenantry/internal/tenant"
)

// etcdKeys is the lower wrapper: it maps cache keys to etcd keys and filters an ambiguous
// etcd range by space.
type etcdKeys struct {
	storage.Interface

	resourcePrefix string // with a trailing slash
	namespaced     bool
	// custom is set for custom resources, which have namespaces in one space and none in another.
	custom bool
	// shared, if set, is the codec of a version of a definition that spaces share.
	shared     *foreignCodec
	attributes storage.AttrFunc
	cacheKey   func(runtime.Object) (string, error)
	// counts gets the number of keys of each space in the watch cache of cacheID.
	counts  *Counts
	cacheID tenant.CacheID
	// cached is the watch cache, from which objects are measured, nil until there is one. newFunc makes an object.
	cached  *atomic.Pointer[cacher.Cacher]
	newFunc func() runtime.Object
}

var _ storage.Interface = &etcdKeys{}

// IsWatchListSemanticsUnSupported keeps the watch cache from initializing itself with
// a streaming list, for which the reflector would key objects by namespace and
// name. Equal names of two spaces would be one object.
func (s *etcdKeys) IsWatchListSemanticsUnSupported() bool { return true }

func (s *etcdKeys) key(cacheKey string) (string, tenant.Scope) {
	key, of, _ := tenant.EtcdKey(s.resourcePrefix, cacheKey)
	return key, of
}

// owned hides an object of another space. With valid names no two objects share a key; this
// check is a second line of defense.
func owned(obj runtime.Object, by tenant.Scope, key string) error {
	owner, err := tenantOf(obj)
	if err != nil {
		return err
	}
	if owner.Scope() != by {
		return storage.NewKeyNotFoundError(key, 0)
	}
	return nil
}

// Create implements storage.Interface.
func (s *etcdKeys) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	key, _ = s.key(key)
	return withoutSpace(s.Interface.Create(ctx, key, obj, out, ttl))
}

// Get implements storage.Interface.
func (s *etcdKeys) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	key, of := s.key(key)
	if err := s.Interface.Get(ctx, key, opts, out); err != nil {
		return err
	}
	if isZero(out) {
		return nil
	}
	if err := owned(out, of, key); err != nil {
		return runtimeZero(out, opts.IgnoreNotFound, err)
	}
	return nil
}

// Delete implements storage.Interface.
func (s *etcdKeys) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, cached runtime.Object, opts storage.DeleteOptions) error {
	key, of := s.key(key)
	ownedAndValid := func(ctx context.Context, obj runtime.Object) error {
		if err := owned(obj, of, key); err != nil {
			return err
		}
		return validate(ctx, obj)
	}
	return s.Interface.Delete(ctx, key, out, preconditions, ownedAndValid, cached, opts)
}

// GuaranteedUpdate implements storage.Interface.
func (s *etcdKeys) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, cached runtime.Object) error {
	key, of := s.key(key)
	ownedUpdate := func(input runtime.Object, res storage.ResponseMeta) (runtime.Object, *uint64, error) {
		if res.ResourceVersion != 0 {
			if err := owned(input, of, key); err != nil {
				return nil, nil, err
			}
		}
		return tryUpdate(input, res)
	}
	return withoutSpace(s.Interface.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, ownedUpdate, cached))
}

// scope narrows an ambiguous etcd range to the space it is read for.
func (s *etcdKeys) scope(of tenant.Scope, p storage.SelectionPredicate) storage.SelectionPredicate {
	switch of {
	case "": // the whole resource
		return p
	case tenant.All:
		p.Field = and(p.Field, fields.OneTermNotEqualSelector(dispatchField, string(tenant.System)))
	default:
		p.Field = and(p.Field, fields.OneTermEqualSelector(dispatchField, string(of)))
	}
	p.GetAttrs = s.attributes
	return p
}

// rangeKey adds the trailing slash to the key of a range, which callers leave out.
func rangeKey(key string, recursive bool) string {
	if recursive && !strings.HasSuffix(key, "/") {
		return key + "/"
	}
	return key
}

// GetList implements storage.Interface.
func (s *etcdKeys) GetList(ctx context.Context, cacheKey string, opts storage.ListOptions, list runtime.Object) error {
	key, of := s.key(rangeKey(cacheKey, opts.Recursive))
	if of == "" && opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact {
		return s.listInCacheOrder(ctx, key, opts, list)
	}
	if s.isTenantRange(of, key) && opts.Predicate.Empty() {
		// Without a selector upstream counts the remaining items.
		if err := s.Interface.GetList(ctx, key, opts, list); err != nil {
			return err
		}
		return dropForeign(list, of)
	}
	opts.Predicate = s.scope(of, opts.Predicate)
	return s.Interface.GetList(ctx, key, opts, list)
}

// isTenantRange reports whether a range of etcd keys can hold only objects of one tenant:
// those of one namespace, or of a resource without namespaces. The range of all namespaces
// may also be that of a system namespace, and each space decides whether its custom
// resources have namespaces.
func (s *etcdKeys) isTenantRange(of tenant.Scope, key string) bool {
	n, one := of.Tenant()
	rest, ok := strings.CutPrefix(key, s.resourcePrefix+string(n)+"/")
	return ok && one && !s.custom && (!s.namespaced || rest != "")
}

// dropForeign removes objects of other spaces from a list; see owned.
func dropForeign(list runtime.Object, by tenant.Scope) error {
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	remaining := slices.DeleteFunc(slices.Clone(items), func(item runtime.Object) bool { return owned(item, by, "") != nil })
	if len(remaining) == len(items) {
		return nil
	}
	return meta.SetList(list, remaining)
}

// listInCacheOrder serves upstream's consistency checker, which compares the whole resource
// in the cache with that in etcd item by item. Their orders differ, so the checker gets
// everything at once, sorted.
func (s *etcdKeys) listInCacheOrder(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	opts.Predicate.Limit = 0
	if err := s.Interface.GetList(ctx, key, opts, list); err != nil {
		return err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	keys := make(map[runtime.Object]string, len(items))
	for _, item := range items {
		if keys[item], err = s.cacheKey(item); err != nil {
			return err
		}
	}
	slices.SortFunc(items, func(a, b runtime.Object) int { return strings.Compare(keys[a], keys[b]) })
	return meta.SetList(list, items)
}

// Watch implements storage.Interface.
func (s *etcdKeys) Watch(ctx context.Context, cacheKey string, opts storage.ListOptions) (watch.Interface, error) {
	key, of := s.key(rangeKey(cacheKey, opts.Recursive))
	opts.Predicate = s.scope(of, opts.Predicate)
	return s.Interface.Watch(ctx, key, opts)
}
