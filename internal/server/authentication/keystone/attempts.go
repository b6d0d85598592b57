package keystone

import (
	"sync"
	"time"

	"k8s.io/utils/lru"
)

// maxBuckets is how many users, and how many addresses, are counted.
const maxBuckets = 8192

// buckets limit attempts by name: each name has some, and one more after each pause.
type buckets struct {
	size  int
	pause time.Duration

	mu    sync.Mutex
	names *lru.Cache
}

// bucket is empty of what was taken at a time when that many pauses have gone by.
type bucket struct {
	taken int
	at    time.Time
}

func newBuckets(size int, pause time.Duration) *buckets {
	return &buckets{size: size, pause: pause, names: lru.New(maxBuckets)}
}

// take takes one attempt or returns after what time there is one.
func (b *buckets) take(name string, now time.Time) (wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	found, ok := b.names.Get(name)
	if !ok {
		found = &bucket{at: now}
		b.names.Add(name, found)
	}
	of := found.(*bucket)
	if returned := int(now.Sub(of.at) / b.pause); returned >= of.taken {
		of.taken, of.at = 0, now
	} else if returned > 0 {
		of.taken, of.at = of.taken-returned, of.at.Add(time.Duration(returned)*b.pause)
	}
	if of.taken >= b.size {
		return of.at.Add(b.pause).Sub(now)
	}
	of.taken++
	return 0
}

// giveBack undoes one take.
func (b *buckets) giveBack(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if found, ok := b.names.Get(name); ok && found.(*bucket).taken > 0 {
		found.(*bucket).taken--
	}
}
