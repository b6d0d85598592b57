package storage

import (
	"context"
	"sync"

	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/tenant"
)

// fewObjects is how many objects of a resource a space may have without an entry in Counts.
// An idle tenant has fewer of everything.
const fewObjects = 10

// Counts knows how many objects each space has of each resource with a watch
// cache. It counts when upstream reads the keys of the cache for the statistics
// of the whole resource (--etcd-count-metric-poll-period, a minute by default).
type Counts struct {
	mu     sync.RWMutex
	counts map[counted]map[tenant.Name]int64
}

// counted identifies a watch cache: that of a resource of all spaces or, if a
// tenant has defined the resource, of one.
type counted struct {
	resource string // as schema.GroupResource prints it
	only     tenant.Name
}

// In returns about how many objects of a resource the space of n has, zero if they are few.
// It reports false if the number is not known.
func (c *Counts) In(n tenant.Name, resource string) (int64, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	counts, ok := c.counts[counted{resource, n}]
	if !ok {
		counts, ok = c.counts[counted{resource: resource}]
	}
	return counts[n], ok
}

func (c *Counts) set(what counted, counts map[tenant.Name]int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = make(map[counted]map[tenant.Name]int64)
	}
	c.counts[what] = counts
}

func (c *Counts) forget(what counted) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.counts, what)
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
		var spaces spaceCounter
		for i := range keys {
			var of tenant.Scope
			mapped[i], of = s.key(keys[i])
			n, _ := of.Space()
			spaces.add(n)
		}
		s.counts.set(s.counted, spaces.finish())
		return mapped, nil
	})
}

// spaceCounter counts sorted keys, in which those of a space follow each other.
type spaceCounter struct {
	counts map[tenant.Name]int64
	space  tenant.Name
	run    int64
}

func (c *spaceCounter) add(n tenant.Name) {
	if n != c.space {
		c.finish()
		c.space, c.run = n, 0
	}
	c.run++
}

func (c *spaceCounter) finish() map[tenant.Name]int64 {
	if c.counts == nil {
		c.counts = make(map[tenant.Name]int64)
	}
	if c.run > fewObjects {
		c.counts[c.space] += c.run
		c.run = 0
	}
	return c.counts
}
