package storage

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Ranges knows the etcd range of every resource and counts what a tenant has
// left in them. It reads etcd itself, so that the end of a space is verified by
// other means than those that emptied it.
type Ranges struct {
	// Client reads etcd.
	Client func() (*clientv3.Client, error)

	mu     sync.Mutex
	ranges map[string]etcdRange
}

// etcdRange is where one resource is stored.
type etcdRange struct {
	resource   schema.GroupResource
	namespaced bool
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
	r.ranges["/"+strings.Trim(etcdPrefix, "/")+resourcePrefix] = stored
}

// Count returns the number of keys that tenant n has in etcd, by resource.
// Resources without keys are left out.
func (r *Ranges) Count(ctx context.Context, n tenant.Name) (map[string]int64, error) {
	if !n.IsSpace() {
		return nil, fmt.Errorf("counting keys of %q: it is not a tenant with a space of its own", n)
	}
	client, err := r.Client()
	if err != nil {
		return nil, fmt.Errorf("connecting to etcd: %w", err)
	}
	counts := make(map[string]int64)
	for prefix, stored := range r.snapshot() {
		count, err := countRange(ctx, client, prefix+string(n)+"/", stored.namespaced)
		if err != nil {
			return nil, err
		}
		if count > 0 {
			counts[stored.resource.String()] += count
		}
	}
	return counts, nil
}

func (r *Ranges) snapshot() map[string]etcdRange {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.ranges)
}

// countRange counts the keys of one tenant in one resource. The range of a
// namespaced resource may also hold objects of the system namespace that is
// called like the tenant; their keys are one segment shorter.
func countRange(ctx context.Context, client *clientv3.Client, key string, namespaced bool) (int64, error) {
	response, err := client.Get(ctx, key, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return 0, fmt.Errorf("counting keys below %q: %w", key, err)
	}
	if response.Count == 0 || !namespaced {
		return response.Count, nil
	}
	response, err = client.Get(ctx, key, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return 0, fmt.Errorf("reading keys below %q: %w", key, err)
	}
	count := int64(0)
	for _, kv := range response.Kvs {
		if strings.Contains(string(kv.Key[len(key):]), "/") {
			count++
		}
	}
	return count, nil
}
