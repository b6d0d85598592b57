package storage

import (
	"context"
	"maps"
	"path"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/registry/generic"
	serveroptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/etcdstore"
	"github.com/tenantry/tenantry/internal/server/storage/cachememory"
	"github.com/tenantry/tenantry/internal/tenant"
)

// RawFunc makes upstream's storage of one resource, as factory.Create does.
type RawFunc func(config storagebackend.ConfigForResource, newFunc, newListFunc func() runtime.Object, resourcePrefix string) (storage.Interface, factory.DestroyFunc, error)

// Preparation completes an object before it is stored in the space of n. It gets the
// current object, nil if there is none, and returns a function that gets the new
// object. The current one must be read at once, because it may be changed in place.
type Preparation func(ctx context.Context, n tenant.Name, before runtime.Object) func(after runtime.Object) error

// RESTOptionsGetter gives every resource tenant-aware storage.
type RESTOptionsGetter struct {
	generic.RESTOptionsGetter
	// Raw makes the storage below.
	Raw RawFunc
	// Uncached names the resources without a watch cache.
	Uncached map[schema.GroupResource]bool
	// Uncaching is whether no resource has a watch cache.
	Uncaching bool
	// Ranges learns where each resource is stored.
	Ranges *Ranges
	// Counts learns how many objects each space has.
	Counts *Counts
	// Events, if set, bounds what tenants write of objects that expire.
	Events *EventBudget
	// Histories, if set, bounds what all watch caches keep of the past.
	Histories *Histories
	// CacheMemory, if set, bounds what objects of spaces take in watch caches with Histories.
	CacheMemory *cachememory.Budget
	// Defaults are the default objects, by resource.
	Defaults map[schema.GroupResource]*Defaults
	// Prepare completes new objects, by resource.
	Prepare map[schema.GroupResource]Preparation
	// Closed returns an error if a space accepts no new objects. Requests to create are
	// refused earlier; only here is it known that an update or apply creates an object.
	Closed func(ctx context.Context, n tenant.Name) error
	// Frozen returns an error if a space is being emptied: its users change nothing any more, but let objects go. Such
	// requests are refused earlier; here are those that were accepted before.
	Frozen func(ctx context.Context, n tenant.Name) error
	// Terminating, if set, reports whether the tenant of a space is being deleted.
	Terminating func(n tenant.Name) bool
	// Fence, if set, returns the fence of the space of the tenant with a UID. It keeps
	// transactions of requests that were admitted to that space out of the space of the next
	// tenant of the name, however late they reach etcd.
	Fence func(n tenant.Name, uid types.UID) etcdstore.Fence
	// OldestRevision, if set, says since when names are those of a tenant and of a namespace: nobody sees in a space
	// what was there before.
	OldestRevision OldestRevisionFunc
	// Protect, if set, decides about every change of an object in a space. It gets
	// the current object, nil if there is none, and returns a function that gets
	// the new object, nil if it is deleted.
	Protect Protection
	// Ledger, if set, accounts for the objects in spaces.
	Ledger Ledger
	// Of is which objects are stored and cached: Everything, or those of one space. The
	// custom resources of a tenant are decoded by that tenant's definitions.
	Of tenant.Scope
	// Foreign, if set, makes this the storage of custom resources of one definition for
	// many spaces. It reports the spaces that define the resource themselves, whose objects
	// are left out.
	Foreign func(resource schema.GroupResource, n tenant.Name) bool
	// Ending, if set, reports whether the definition of a resource is being deleted, so
	// that no objects of it can be created.
	Ending func(resource schema.GroupResource) bool

	// sharedVersions, if set, are the versions of what spaces share.
	sharedVersions *sharedVersions
}

// isCustom reports whether this is the storage of custom resources.
func (g *RESTOptionsGetter) isCustom() bool { return g.Of != tenant.Everything || g.Foreign != nil }

// In returns a copy for the resources that only the space of n defines.
func (g *RESTOptionsGetter) In(n tenant.Name) *RESTOptionsGetter {
	only := *g
	only.Of = n.Scope()
	return &only
}

// Shared returns a copy for the resources that the system space defines for others; see
// Foreign and Ending.
func (g *RESTOptionsGetter) Shared(foreign func(resource schema.GroupResource, n tenant.Name) bool,
	ending func(resource schema.GroupResource) bool) *RESTOptionsGetter {
	shared := *g
	shared.Of, shared.Foreign, shared.Ending = tenant.Everything, foreign, ending
	shared.sharedVersions = &sharedVersions{of: map[schema.GroupResource][]*foreignCodec{}}
	return &shared
}

// WithoutCache returns a copy that gives a resource no watch cache.
func (g *RESTOptionsGetter) WithoutCache(resource schema.GroupResource) *RESTOptionsGetter {
	uncached := *g
	uncached.Uncached = make(map[schema.GroupResource]bool, len(g.Uncached)+1)
	maps.Copy(uncached.Uncached, g.Uncached)
	uncached.Uncached[resource] = true
	return &uncached
}

// Uncached returns the resources without watch cache according to etcd's
// options (--watch-cache, --watch-cache-sizes).
func Uncached(options *serveroptions.EtcdOptions) (map[schema.GroupResource]bool, error) {
	sizes, err := serveroptions.ParseWatchCacheSizes(options.WatchCacheSizes)
	if err != nil {
		return nil, err
	}
	uncached := make(map[schema.GroupResource]bool)
	for resource, size := range sizes {
		uncached[resource] = size <= 0
	}
	return uncached, nil
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (g *RESTOptionsGetter) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := g.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err != nil {
		return options, err
	}
	options.Decorator = g.decorate(resource)
	return options, nil
}

// decorate returns the decorator that wraps the storage of a resource, which enforces the limits
// of the context of each call.
func (g *RESTOptionsGetter) decorate(resource schema.GroupResource) generic.StorageDecorator {
	return func(config *storagebackend.ConfigForResource, resourcePrefix string, keyFunc func(runtime.Object) (string, error),
		newFunc, newListFunc func() runtime.Object, attributes storage.AttrFunc, triggers storage.IndexerFuncs,
		indexers *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
		ofSpaces, attributes := g.withCodec(config, resource, newFunc()), spaceAttributes(attributes)
		if g.Foreign != nil {
			attributes = foreignAttributes(attributes)
		}
		etcd, destroy, err := g.newEtcdKeys(ofSpaces, resource, resourcePrefix, keyFunc, newFunc, newListFunc, attributes)
		if err != nil {
			return nil, destroy, err
		}
		served, stop, err := g.newCache(etcd, resource, cacher.Config{
			Storage:             etcd,
			Versioner:           storage.APIObjectVersioner{},
			GroupResource:       config.GroupResource,
			EventsHistoryWindow: config.EventsHistoryWindow,
			ResourcePrefix:      strings.TrimSuffix(tenant.CachePrefix(etcd.resourcePrefix, g.Of), "/"),
			KeyFunc:             etcd.cacheKey,
			NewFunc:             newFunc,
			NewListFunc:         newListFunc,
			GetAttrsFunc:        attributes,
			IndexerFuncs:        triggers,
			Indexers:            indexers,
			Codec:               ofSpaces.Codec,
		})
		if err != nil {
			destroy()
			return nil, func() {}, err
		}
		space := g.newSpace(etcd, served, resource, ofSpaces, newFunc, newListFunc)
		return &limitedLists{Interface: space, resource: resource, newList: newListFunc, codec: config.Codec}, func() {
			stop()
			destroy()
			g.Counts.forget(etcd.cacheID)
		}, nil
	}
}

// newCache makes the watch cache over etcd, and returns what stops it. Of a resource without one, it returns etcd.
func (g *RESTOptionsGetter) newCache(etcd *etcdKeys, resource schema.GroupResource, config cacher.Config) (cached storage.Interface, stop func(), err error) {
	if g.Uncaching || g.Uncached[resource] {
		return etcd, func() {}, nil
	}
	var h *history
	if g.Histories != nil {
		counted := g.CacheMemory.NewCache(etcd.cacheID, config.NewFunc().GetObjectKind().GroupVersionKind().Version, etcd.cacheKey, tenantOf)
		h = g.Histories.newHistory(etcd, counted, config.NewFunc(), config.EventsHistoryWindow)
		config.Storage, config.KeyFunc, config.GetAttrsFunc = h, h.cacheKeyOf, h.attributesOf
	}
	made, err := cacher.NewCacherFromConfig(config)
	if err != nil {
		h.forget()
		return nil, nil, err
	}
	etcd.cached.Store(made) // which is made of etcd, and has the objects that etcd measures
	delegator := cacher.NewCacheDelegator(made, etcd)
	stop = func() {
		delegator.Stop()
		h.stop(made)
	}
	if h == nil {
		return delegator, stop, nil
	}
	return &withHistory{delegator, h}, stop, nil
}

// withCodec returns a copy of config whose codec is that of spaces.
func (g *RESTOptionsGetter) withCodec(config *storagebackend.ConfigForResource, resource schema.GroupResource, example runtime.Object) *storagebackend.ConfigForResource {
	changed := *config
	changed.Codec = interningCodec{Codec: keysCodec{Codec: config.Codec}}
	if g.isCustom() {
		foreign := g.foreign(resource)
		if foreign == nil {
			foreign = func(n tenant.Name) bool { return n.Scope() != g.Of }
		}
		codec := &foreignCodec{
			Codec: changed.Codec, foreign: foreign, kind: example.GetObjectKind().GroupVersionKind(), terminating: g.Terminating,
		}
		if g.sharedVersions != nil {
			codec.undecodable = &undecodable{versions: g.sharedVersions, resource: resource, left: leftOut{}}
		}
		changed.Codec = codec
	}
	return &changed
}

// newEtcdKeys makes the storage below the watch cache, and adds its range to Ranges.
func (g *RESTOptionsGetter) newEtcdKeys(config *storagebackend.ConfigForResource, resource schema.GroupResource, resourcePrefix string,
	keyFunc func(runtime.Object) (string, error), newFunc, newListFunc func() runtime.Object,
	attributes storage.AttrFunc) (*etcdKeys, factory.DestroyFunc, error) {
	prefix := strings.TrimSuffix(resourcePrefix, "/") + "/"
	if n, one := g.Of.Tenant(); one {
		resourcePrefix = prefix + string(n)
	}
	raw, destroy, err := g.Raw(*config, newFunc, newListFunc, resourcePrefix)
	if err != nil {
		return nil, destroy, err
	}
	namespaced, err := isNamespaced(prefix, keyFunc, newFunc())
	if err != nil {
		destroy()
		return nil, func() {}, err
	}
	g.Ranges.add(config.Prefix, prefix, etcdRange{
		resource: resource, namespaced: namespaced, custom: g.isCustom(),
		transformer: config.Transformer, transport: config.Transport,
	})
	if g.isCustom() {
		keyFunc = customKey(prefix)
	}
	var shared *foreignCodec
	if codec, ok := config.Codec.(*foreignCodec); ok && g.sharedVersions != nil {
		remove, destroyRaw := g.sharedVersions.add(resource, codec), destroy
		shared, destroy = codec, func() { remove(); destroyRaw() }
	}
	return &etcdKeys{
		Interface:      raw,
		resourcePrefix: prefix,
		namespaced:     namespaced,
		custom:         g.isCustom(),
		shared:         shared,
		attributes:     attributes,
		cacheKey:       func(obj runtime.Object) (string, error) { return cacheKeyOf(prefix, keyFunc, obj) },
		counts:         g.Counts,
		cacheID:        tenant.CacheID{Resource: resource.String(), Of: g.Of},
		cached:         &atomic.Pointer[cacher.Cacher]{},
		newFunc:        newFunc,
	}, destroy, nil
}

// newSpace makes the upper wrapper of what is served: the watch cache, or etcd.
func (g *RESTOptionsGetter) newSpace(etcd *etcdKeys, served storage.Interface, resource schema.GroupResource, config *storagebackend.ConfigForResource,
	newFunc, newListFunc func() runtime.Object) *Space {
	return &Space{
		Interface:      served,
		uncached:       etcd,
		cached:         served != storage.Interface(etcd),
		resumes:        newResumes(),
		cacheID:        etcd.cacheID,
		resourcePrefix: etcd.resourcePrefix,
		attributes:     etcd.attributes,
		newFunc:        newFunc,
		newListFunc:    newListFunc,
		resource:       resource,
		transport:      config.Transport,
		options:        *g,
		defaults:       g.Defaults[resource],
		definedBy:      g.definedBy(resource, config.Transport),
		foreign:        g.foreign(resource),
		codec:          config.Codec,
	}
}

// foreign returns Foreign for a resource.
func (g *RESTOptionsGetter) foreign(resource schema.GroupResource) func(tenant.Name) bool {
	if g.Foreign == nil {
		return nil
	}
	return func(n tenant.Name) bool { return g.Foreign(resource, n) }
}

// isNamespaced asks a resource's key function whether namespaces are part of its
// keys. Nothing else in a decorator's arguments says so.
func isNamespaced(prefix string, keyFunc func(obj runtime.Object) (string, error), probe runtime.Object) (bool, error) {
	accessor, err := meta.Accessor(probe)
	if err != nil {
		return false, err
	}
	accessor.SetNamespace("namespace")
	accessor.SetName("name")
	key, err := keyFunc(probe)
	return strings.TrimPrefix(key, prefix) == "namespace/name", err
}

// cacheKeyOf returns the cache key of a stored object.
func cacheKeyOf(prefix string, keyFunc func(obj runtime.Object) (string, error), obj runtime.Object) (string, error) {
	n, err := tenantOf(obj)
	if err != nil {
		return "", err
	}
	key, err := keyFunc(obj)
	if err != nil {
		return "", err
	}
	return tenant.CacheKey(prefix, n, key), nil
}

// customKey returns the key of a custom resource below prefix. Upstream's function fails where an
// object has no namespace and the definition wants one, which would end a cache of many
// spaces: some of them define the resource themselves, with another scope.
func customKey(prefix string) func(obj runtime.Object) (string, error) {
	return func(obj runtime.Object) (string, error) {
		accessor, err := meta.Accessor(obj)
		if err != nil {
			return "", err
		}
		return prefix + path.Join(accessor.GetNamespace(), accessor.GetName()), nil
	}
}
