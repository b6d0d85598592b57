package storage

import (
	"context"
	"fmt"
	"maps"
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

	mu     sync.Mutex
	ranges map[string]etcdRange
}

// etcdRange is where one resource is stored.
type etcdRange struct {
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
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ranges == nil {
		r.ranges = make(map[string]etcdRange)
	}
	r.ranges[fullPrefix(etcdPrefix, resourcePrefix)] = stored
}

func fullPrefix(etcdPrefix, resourcePrefix string) string {
	return "/" + strings.Trim(etcdPrefix, "/") + resourcePrefix
}

// Count returns the number of keys that tenant n has in etcd, by resource.
// Resources without keys are left out.
func (r *Ranges) Count(ctx context.Context, n tenant.Name) (map[string]int64, error) {
	counts := make(map[string]int64)
	if err := r.learn(ctx, n); err != nil {
		return nil, err
	}
	err := r.each(n, func(client *clientv3.Client, key string, stored etcdRange) error {
		count, err := countRange(ctx, client, key, n, stored)
		if count > 0 {
			counts[stored.resource.String()] += count
		}
		return err
	})
	return counts, err
}

// CountOf returns the number of objects of a resource that tenant n has in etcd, in
// all namespaces or, if one is named, in that.
func (r *Ranges) CountOf(ctx context.Context, n tenant.Name, resource schema.GroupResource, namespace string) (int64, error) {
	if !r.knows(resource) {
		if err := r.learn(ctx, n); err != nil {
			return 0, err
		}
	}
	var sum int64
	err := r.each(n, func(client *clientv3.Client, key string, stored etcdRange) error {
		if stored.resource != resource {
			return nil
		}
		if namespace != "" {
			key, stored.namespaced = key+namespace+"/", false // nothing else begins like it
		}
		count, err := countRange(ctx, client, key, n, stored)
		sum += count
		return err
	})
	return sum, err
}

// Stored returns the number of objects that tenant n has in etcd and their size,
// encryption left out, as far as they count: counts is asked with the key below that
// of the tenant.
func (r *Ranges) Stored(ctx context.Context, n tenant.Name, counts func(resource schema.GroupResource, key string) bool) (objects, bytes int64, err error) {
	if err := r.learn(ctx, n); err != nil {
		return 0, 0, err
	}
	err = r.each(n, func(client *clientv3.Client, key string, stored etcdRange) error {
		return readRange(ctx, client, key, func(full string, data []byte) {
			if counts(stored.resource, full[len(key):]) && stored.holds(ctx, key, full, data, n) {
				objects++
				bytes += int64(len(stored.plain(ctx, full, data)))
			}
		})
	})
	return objects, bytes, err
}

// knows reports whether it is known where a resource is stored, which is one place for
// all spaces.
func (r *Ranges) knows(resource schema.GroupResource) bool {
	for _, stored := range r.snapshot() {
		if stored.resource == resource {
			return true
		}
	}
	return false
}

// each calls visit with the known range of tenant n in each resource.
func (r *Ranges) each(n tenant.Name, visit func(client *clientv3.Client, key string, stored etcdRange) error) error {
	if !n.IsSpace() {
		return fmt.Errorf("counting keys of %q: it is not a tenant with a space of its own", n)
	}
	for prefix, stored := range r.snapshot() {
		client, err := r.Client(stored.transport)
		if err != nil {
			return fmt.Errorf("connecting to the etcd of %s: %w", stored.resource, err)
		}
		if err := visit(client, prefix+string(n)+"/", stored); err != nil {
			return err
		}
	}
	return nil
}

func (r *Ranges) snapshot() map[string]etcdRange {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.ranges)
}

// countRange counts the keys of one tenant in one resource.
func countRange(ctx context.Context, client *clientv3.Client, key string, n tenant.Name, stored etcdRange) (int64, error) {
	response, err := client.Get(ctx, key, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return 0, fmt.Errorf("counting keys below %q: %w", key, err)
	}
	if response.Count == 0 || !stored.namespaced && !stored.custom {
		return response.Count, nil
	}
	var options []clientv3.OpOption
	if !stored.custom {
		options = append(options, clientv3.WithKeysOnly())
	}
	var count int64
	err = readRange(ctx, client, key, func(full string, value []byte) {
		if stored.holds(ctx, key, full, value, n) {
			count++
		}
	}, options...)
	return count, err
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

const (
	// pageSize is how many keys are read from etcd at once, and smallPage how many
	// whose size is not known yet.
	pageSize, smallPage = 500, 20
	// pageBytes is about how much is read at once.
	pageBytes = 4 << 20
)

// readRange visits all that is below key.
func readRange(ctx context.Context, client *clientv3.Client, key string, visit func(full string, value []byte), options ...clientv3.OpOption) error {
	end, limit := clientv3.GetPrefixRangeEnd(key), smallPage
	for from := key; ; {
		response, err := client.Get(ctx, from, append(options, clientv3.WithRange(end), clientv3.WithLimit(int64(limit)))...)
		if err != nil {
			return fmt.Errorf("reading keys below %q: %w", key, err)
		}
		size := 1
		for _, kv := range response.Kvs {
			size += len(kv.Value)
			visit(string(kv.Key), kv.Value)
		}
		if !response.More {
			return nil
		}
		from = string(response.Kvs[len(response.Kvs)-1].Key) + "\x00"
		limit = min(max(pageBytes*len(response.Kvs)/size, smallPage), pageSize)
	}
}
