package discovery

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/utils/lru"
)

// cacheSize is how many values a cache has, of all spaces, and cacheBytes what they may take, as estimated. The last
// one is cached however large it is; the others are made again. So is one that nobody has asked for so long as unasked:
// those of a space with many definitions take a hundred megabytes. All three are chosen.
const (
	cacheSize  = 64
	cacheBytes = 128 << 20
	unasked    = 2 * time.Minute
)

// boundedCache caches what is made for spaces.
type boundedCache[T any] struct {
	entries *lru.Cache   // of *cacheEntry[T]
	bytes   atomic.Int64 // of the entries
	// putting is held while an entry takes the place of another: entries has no method for that which evicts the other.
	putting sync.Mutex
}

type cacheEntry[T any] struct {
	value  T
	bytes  int64
	forget *time.Timer
}

func newBoundedCache[T any]() *boundedCache[T] {
	c := &boundedCache[T]{}
	c.entries = lru.NewWithEvictionFunc(cacheSize, func(_ lru.Key, evicted any) {
		entry := evicted.(*cacheEntry[T])
		entry.forget.Stop()
		c.bytes.Add(-entry.bytes)
	})
	return c
}

// put caches a value in the place of the one of its key.
func (c *boundedCache[T]) put(key string, value T, bytes int64) {
	c.putting.Lock()
	defer c.putting.Unlock()
	c.entries.Remove(key)
	c.bytes.Add(bytes)
	c.entries.Add(key, &cacheEntry[T]{value, bytes, time.AfterFunc(unasked, func() { c.entries.Remove(key) })})
	for c.bytes.Load() > cacheBytes && c.entries.Len() > 1 {
		c.entries.RemoveOldest()
	}
}

// get returns the value of a key, and the zero value if there is none.
func (c *boundedCache[T]) get(key string) (value T) {
	found, ok := c.entries.Get(key)
	if !ok {
		return value
	}
	entry := found.(*cacheEntry[T])
	entry.forget.Reset(unasked)
	return entry.value
}

// builtCache caches the documents that are built of definitions.
type builtCache struct {
	*boundedCache[built]
	building singleflight.Group
}

// built is what serves a document that is built of definitions with a tag.
type built struct {
	tag string
	http.Handler
}

func newBuiltCache() *builtCache { return &builtCache{boundedCache: newBoundedCache[built]()} }

// getOrCreate returns what serves the document of definitions with a tag. create makes it, and says how many bytes it
// takes.
func (c *builtCache) getOrCreate(key, tag string, create func() (http.Handler, int64, error)) (http.Handler, error) {
	// Who asks for what is made of a later state does not get what is being made of an earlier one, and keep it by the
	// later tag.
	value, err, _ := c.building.Do(key+" "+tag, func() (any, error) {
		if last := c.get(key); last.tag == tag {
			return last.Handler, nil
		}
		document, bytes, err := create()
		if err == nil {
			c.put(key, built{tag, document}, bytes)
		}
		return document, err
	})
	document, _ := value.(http.Handler) // nil is of no type
	return document, err
}
