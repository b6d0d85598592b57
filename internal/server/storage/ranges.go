package storage

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/tidwall/gjson"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/value"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Ranges knows the etcd range of every resource and counts a tenant's keys in them. It
// reads etcd itself, so that the end of a space is verified independently of the deletions.
type Ranges struct {
	// Client connects to the etcd in which a resource is stored.
	Client func(transport storagebackend.TransportConfig) (*clientv3.Client, error)
	// Custom knows how custom resources are stored. This server may not have served those
	// of a definition yet.
	Custom generic.RESTOptionsGetter

	mu sync.Mutex
	// known are all ranges. It is appended to, and never changed otherwise, so that readers can use it without the lock.
	known []*etcdRange
	// at is the index in known of each prefix.
	at map[string]int
	// tidied is how many ranges of custom resources were left when those that nothing is stored in were forgotten.
	tidied int
	// touched are the prefixes that were learned since it began to be looked which to forget, nil if nobody looks.
	touched sets.Set[string]
}

// etcdRange is the range of one resource.
type etcdRange struct {
	// prefix is that of the keys of all spaces.
	prefix     string
	resource   schema.GroupResource
	namespaced bool
	// custom is set for custom resources, which have namespaces in one space and none in another.
	custom bool
	// transformer, if set, decrypts objects.
	transformer value.Transformer
	transport   storagebackend.TransportConfig
}

func (r *Ranges) add(etcdPrefix, resourcePrefix string, stored etcdRange) *etcdRange {
	stored.prefix = fullPrefix(etcdPrefix, resourcePrefix)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.touch(stored.prefix)
	if i, ok := r.at[stored.prefix]; ok {
		r.known = slices.Clone(r.known)
		r.known[i] = &stored
		return &stored
	}
	if r.at == nil {
		r.at = make(map[string]int)
	}
	r.at[stored.prefix] = len(r.known)
	r.known = append(r.known, &stored)
	return &stored
}

// touch keeps a range from being forgotten by who looks now. It is called with the lock.
func (r *Ranges) touch(prefix string) {
	if r.touched != nil {
		r.touched.Insert(prefix)
	}
}

// get returns a range, nil if it is not known.
func (r *Ranges) get(etcdPrefix, resourcePrefix string) *etcdRange {
	prefix := fullPrefix(etcdPrefix, resourcePrefix)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.touch(prefix)
	if i, ok := r.at[prefix]; ok {
		return r.known[i]
	}
	return nil
}

func fullPrefix(etcdPrefix, resourcePrefix string) string {
	return "/" + strings.Trim(etcdPrefix, "/") + resourcePrefix
}

// Count returns the number of keys that tenant n has in etcd, by resource, for messages: of many keys only some are
// read, and if one of them is the tenant's, those that are not read count as well, although the system namespace of the
// tenant's name may have them. Resources without keys of the tenant are left out. Before it says that there is none, it
// looks for custom resources that no definition of the space speaks of.
func (r *Ranges) Count(ctx context.Context, n tenant.Name) (map[string]int64, error) {
	if err := r.tidy(ctx); err != nil {
		return nil, err
	}
	known := r.snapshot()
	ranges, err := r.occupied(ctx, n, known)
	if err != nil {
		return nil, err
	}
	counts, err := sums(ctx, n, ranges)
	if err != nil || len(counts) > 0 {
		return counts, err
	}
	now := r.snapshot() // others may have learned ranges meanwhile
	stored, err := r.learnStored(ctx, now)
	if err != nil {
		return nil, err
	}
	if ranges, err = r.count(ctx, n, "", without(append(slices.Clip(now), stored...), known)); err != nil {
		return nil, err
	}
	return sums(ctx, n, ranges)
}

// sums returns how many keys of tenant n are in ranges at most, by resource.
func sums(ctx context.Context, n tenant.Name, ranges []occupied) (map[string]int64, error) {
	counts := make(map[string]int64)
	for _, o := range ranges {
		count, err := o.atMost(ctx, n)
		if err != nil {
			return nil, err
		}
		if count > 0 {
			counts[o.stored.resource.String()] += count
		}
	}
	return counts, nil
}

// CountOf returns the number of objects of a resource that tenant n has in etcd.
func (r *Ranges) CountOf(ctx context.Context, n tenant.Name, resource schema.GroupResource) (int64, error) {
	counts, err := r.CountEach(ctx, n, []schema.GroupResource{resource}, "")
	return counts[resource], err
}

// Has reports whether tenant n has objects of a resource in etcd. It reads on until it finds one.
func (r *Ranges) Has(ctx context.Context, n tenant.Name, resource schema.GroupResource) (bool, error) {
	ranges, err := r.ofAll(ctx, n, sets.New(resource))
	if err != nil {
		return false, err
	}
	return r.hasIn(ctx, n, ranges)
}

// hasCustom is Has for the custom resources of a definition, which may have the name of
// a built-in resource.
func (r *Ranges) hasCustom(ctx context.Context, n tenant.Name, resource schema.GroupResource) (bool, error) {
	if err := r.tidy(ctx); err != nil {
		return false, err
	}
	learned, err := r.learn(resource)
	if err != nil {
		return false, err
	}
	ranges := slices.DeleteFunc(r.of(resource), func(stored *etcdRange) bool { return !stored.custom })
	return r.hasIn(ctx, n, append(ranges, without([]*etcdRange{learned}, ranges)...))
}

func (r *Ranges) hasIn(ctx context.Context, n tenant.Name, ranges []*etcdRange) (bool, error) {
	found, err := r.count(ctx, n, "", ranges)
	for i := 0; i < len(found) && err == nil; i++ {
		var count int64
		if count, err = found[i].atMost(ctx, n); count > 0 {
			return true, nil
		}
	}
	return false, err
}

// Stored returns the number of objects that tenant n has in etcd and their size without
// encryption. It calls counts with each key, relative to that of the tenant, and leaves out
// objects for which it returns false.
func (r *Ranges) Stored(ctx context.Context, n tenant.Name, counts func(resource schema.GroupResource, key string) bool) (objects, bytes int64, err error) {
	if err := r.tidy(ctx); err != nil {
		return 0, 0, err
	}
	ranges, err := r.occupied(ctx, n, r.snapshot())
	if err != nil {
		return 0, 0, err
	}
	err = readAll(ctx, ranges, func(o occupied, full string, data []byte) {
		if counts(o.stored.resource, full[len(o.key):]) && o.stored.holds(ctx, o.key, full, data, n) {
			objects++
			bytes += int64(len(o.stored.plain(ctx, full, data)))
		}
	})
	return objects, bytes, err
}

func (r *Ranges) snapshot() []*etcdRange {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known
}

// of returns the known ranges of a resource.
func (r *Ranges) of(resource schema.GroupResource) []*etcdRange {
	var ranges []*etcdRange
	for _, stored := range r.snapshot() {
		if stored.resource == resource {
			ranges = append(ranges, stored)
		}
	}
	return ranges
}

// holds reports whether the object at full, below key, is tenant n's. The range of a
// namespaced resource may also hold objects of the system namespace with the name of the
// tenant, whose keys are one segment shorter. Custom resources with such keys carry their tenant.
// Unreadable objects count as the tenant's.
func (r etcdRange) holds(ctx context.Context, key, full string, data []byte, n tenant.Name) bool {
	if isNested(key, full) || !r.custom {
		return isNested(key, full) || !r.namespaced
	}
	data = r.plain(ctx, full, data)
	return !gjson.ValidBytes(data) || gjson.GetBytes(data, annotationPath).String() == string(n)
}

// isNested reports whether a key below that of a tenant is in a namespace of its space.
func isNested(key, full string) bool { return strings.Contains(full[len(key):], "/") }

// plain returns the object at a key, decrypted if possible.
func (r etcdRange) plain(ctx context.Context, full string, data []byte) []byte {
	if r.transformer == nil {
		return data
	}
	plain, _, err := r.transformer.TransformFromStorage(ctx, data, value.DefaultContext(full))
	if err != nil {
		return data
	}
	return plain
}
