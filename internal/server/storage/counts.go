package storage

import (
	"context"
	"math/rand/v2"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/process/memory"
	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// fewObjects is how many objects of a resource a space may have without an entry in Counts.
	// An idle tenant has fewer of everything.
	fewObjects = 10
	// sampled is how many objects of a space and resource are measured at a time.
	sampled = 16
)

// Counts knows how many objects each space has of each resource with a watch cache, and how large they are. It counts
// when upstream reads the keys of the cache for the statistics of the whole resource (--etcd-count-metric-poll-period,
// a minute by default), and measures some objects then, chosen at random. Its average is higher at once when a sample
// is, and lower by a quarter at most: so a few large objects among many are not forgotten by the next sample.
type Counts struct {
	mu     sync.RWMutex
	counts map[tenant.CacheID]map[tenant.Name]storage.Stats
}

// In returns about how many objects of a resource the space of n has, none if they are few, and their average size,
// zero if that is not known. It reports false if the number is not known.
func (c *Counts) In(n tenant.Name, resource string) (storage.Stats, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	counts, ok := c.counts[tenant.CacheID{Resource: resource, Of: n.Scope()}]
	if !ok {
		counts, ok = c.counts[tenant.CacheID{Resource: resource, Of: tenant.Everything}]
	}
	return counts[n], ok
}

// set replaces what is known of a watch cache.
func (c *Counts) set(id tenant.CacheID, counts map[tenant.Name]storage.Stats) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = make(map[tenant.CacheID]map[tenant.Name]storage.Stats)
	}
	before := c.counts[id]
	for n, now := range counts {
		now.EstimatedAverageObjectSizeBytes = max(now.EstimatedAverageObjectSizeBytes, before[n].EstimatedAverageObjectSizeBytes*3/4)
		counts[n] = now
	}
	c.counts[id] = counts
}

func (c *Counts) forget(id tenant.CacheID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.counts, id)
}

// EnableResourceSizeEstimation implements storage.Interface. Upstream reads the keys to
// estimate sizes; here they are counted by space, too.
func (s *etcdKeys) EnableResourceSizeEstimation(cacheKeys storage.KeysFunc) error {
	return s.Interface.EnableResourceSizeEstimation(func(ctx context.Context) ([]string, error) {
		keys, err := cacheKeys(ctx)
		if err != nil {
			return nil, err
		}
		mapped := make([]string, len(keys))
		spaces := spaceCounter{sizeOf: func(keys []string) int64 { return s.averageBytes(ctx, keys) }}
		for i := range keys {
			var of tenant.Scope
			mapped[i], of = s.key(keys[i])
			n, _ := of.Space()
			spaces.add(n, keys[i])
		}
		s.counts.set(s.cacheID, spaces.finish())
		return mapped, nil
	})
}

// averageBytes returns the average size of some of the cached objects with the given keys, zero if it is not known.
func (s *etcdKeys) averageBytes(ctx context.Context, keys []string) int64 {
	cached := s.cached.Load()
	if cached == nil {
		return 0
	}
	var bytes, objects int64
	at := rand.Perm(len(keys))
	for _, i := range at[:min(len(at), sampled)] {
		object := s.newFunc()
		if err := cached.Get(ctx, keys[i], storage.GetOptions{ResourceVersion: "0"}, object); err != nil {
			continue // it is gone
		}
		bytes += int64(bytesOf(object))
		objects++
	}
	return bytes / max(objects, 1)
}

// bytesOf returns about how many bytes an object has when it is stored.
func bytesOf(object runtime.Object) int {
	if custom, ok := object.(*unstructured.Unstructured); ok {
		return jsonBytes(custom.Object)
	}
	return memory.Of(object)
}

// spaceCounter counts sorted keys, in which those of a space follow each other.
type spaceCounter struct {
	sizeOf func(keys []string) int64 // the average size of objects
	counts map[tenant.Name]storage.Stats
	space  tenant.Name
	run    []string
}

func (c *spaceCounter) add(n tenant.Name, key string) {
	if n != c.space {
		c.finish()
		c.space, c.run = n, c.run[:0]
	}
	c.run = append(c.run, key)
}

func (c *spaceCounter) finish() map[tenant.Name]storage.Stats {
	if c.counts == nil {
		c.counts = make(map[tenant.Name]storage.Stats)
	}
	if len(c.run) > fewObjects {
		stats := c.counts[c.space]
		stats.ObjectCount += int64(len(c.run))
		stats.EstimatedAverageObjectSizeBytes = max(stats.EstimatedAverageObjectSizeBytes, c.sizeOf(c.run))
		c.counts[c.space] = stats
	}
	c.run = c.run[:0]
	return c.counts
}
