package storage

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/tidwall/gjson"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/value"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Ranges knows the etcd range of every resource and counts what a tenant has
// left in them. It reads etcd itself, so that the end of a space is verified by
// other means than those that emptied it.
type Ranges struct {
	// Client connects to the etcd in which a resource is stored.
	Client func(transport storagebackend.TransportConfig) (*clientv3.Client, error)
	// Custom, if set, says how custom resources are stored. This server may not have
	// been asked for those of a definition yet.
	Custom generic.RESTOptionsGetter

	mu sync.Mutex
	// known are all ranges. Only appended to: who reads them keeps what it has.
	known []*etcdRange
	// at says where in known a prefix is.
	at map[string]int
}

// etcdRange is where one resource is stored.
type etcdRange struct {
	// prefix is that of the keys of all spaces.
	prefix     string
	resource   schema.GroupResource
	namespaced bool
	// custom resources have namespaces in one space and none in another.
	custom bool
	// transformer, if set, decrypts.
	transformer value.Transformer
	transport   storagebackend.TransportConfig
}

func (r *Ranges) add(etcdPrefix, resourcePrefix string, stored etcdRange) {
	if r == nil {
		return
	}
	stored.prefix = fullPrefix(etcdPrefix, resourcePrefix)
	r.mu.Lock()
	defer r.mu.Unlock()
	if i, ok := r.at[stored.prefix]; ok {
		r.known = slices.Clone(r.known)
		r.known[i] = &stored
		return
	}
	if r.at == nil {
		r.at = make(map[string]int)
	}
	r.at[stored.prefix] = len(r.known)
	r.known = append(r.known, &stored)
}

// has reports whether a range is known.
func (r *Ranges) has(etcdPrefix, resourcePrefix string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.at[fullPrefix(etcdPrefix, resourcePrefix)]
	return ok
}

func fullPrefix(etcdPrefix, resourcePrefix string) string {
	return "/" + strings.Trim(etcdPrefix, "/") + resourcePrefix
}

// Count returns the number of keys that tenant n has in etcd, by resource.
// Resources without keys are left out.
func (r *Ranges) Count(ctx context.Context, n tenant.Name) (map[string]int64, error) {
	counts := make(map[string]int64)
	ranges, err := r.occupied(ctx, n)
	if err != nil {
		return nil, err
	}
	for _, o := range ranges {
		count, err := o.count(ctx, n)
		if err != nil {
			return nil, err
		}
		if count > 0 {
			counts[o.stored.resource.String()] += count
		}
	}
	return counts, nil
}

// CountOf returns the number of objects of a resource that tenant n has in etcd, in
// all namespaces or, if one is named, in that.
func (r *Ranges) CountOf(ctx context.Context, n tenant.Name, resource schema.GroupResource, namespace string) (int64, error) {
	ranges := r.of(resource)
	if len(ranges) == 0 { // which is one place for all spaces, once it is known
		if err := r.learn(ctx, n); err != nil {
			return 0, err
		}
		ranges = r.of(resource)
	}
	found, err := r.ask(ctx, n, namespace, ranges)
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, o := range found {
		if namespace != "" && !o.stored.custom {
			sum += o.keys // nothing else begins like it
			continue
		}
		count, err := o.count(ctx, n)
		if err != nil {
			return 0, err
		}
		sum += count
	}
	return sum, nil
}

// Stored returns the number of objects that tenant n has in etcd and their size,
// encryption left out, as far as they count: counts is asked with the key below that
// of the tenant.
func (r *Ranges) Stored(ctx context.Context, n tenant.Name, counts func(resource schema.GroupResource, key string) bool) (objects, bytes int64, err error) {
	ranges, err := r.occupied(ctx, n)
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

// holds reports whether what is stored at full, below key, is tenant n's. The range
// of a namespaced resource may also hold objects of the system namespace that is
// called like the tenant; their keys are one segment shorter. Of custom resources,
// the object itself says whose it is. What cannot be read is taken for the tenant's.
func (r etcdRange) holds(ctx context.Context, key, full string, data []byte, n tenant.Name) bool {
	if !r.custom {
		return !r.namespaced || strings.Contains(full[len(key):], "/")
	}
	data = r.plain(ctx, full, data)
	return !gjson.ValidBytes(data) || gjson.GetBytes(data, annotationPath).String() == string(n)
}

// plain returns what is stored at a key, decrypted if it can be.
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
