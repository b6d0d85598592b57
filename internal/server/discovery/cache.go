package discovery

import (
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/utils/lru"
)

// cacheSize is how many documents of a kind are cached, of all spaces, and cacheBytes what they may take, as
// estimated. The last one is cached however large it is; the others are made again. So is one that nobody has
// asked for so long as unasked: those of a space with many definitions take a hundred megabytes.
const (
	cacheSize  = 64
	cacheBytes = 128 << 20
	unasked    = 2 * time.Minute
)

// document is where a document comes from that is part of another.
type document struct {
	handler      http.Handler
	path, accept string
	// excluded is Server.Excluded.
	excluded string
}

// documentCache caches what is put together from documents as long as these do not change.
type documentCache[T any] struct {
	values  *lru.Cache   // of keyOf to *cacheEntry[T]
	bytes   atomic.Int64 // of the entries
	merging singleflight.Group
}

// cacheEntry is something put together from documents with these ETags.
type cacheEntry[T any] struct {
	tags   []string
	bytes  int64
	value  T
	forget *time.Timer
}

func newDocumentCache[T any]() *documentCache[T] {
	c := &documentCache[T]{}
	c.values = lru.NewWithEvictionFunc(cacheSize, func(_ lru.Key, evicted any) {
		entry := evicted.(*cacheEntry[T])
		entry.forget.Stop()
		c.bytes.Add(-entry.bytes)
	})
	return c
}

// add caches an entry in the place of the one of its key.
func (c *documentCache[T]) add(key string, entry *cacheEntry[T]) {
	c.values.Remove(key)
	c.bytes.Add(entry.bytes)
	entry.forget = time.AfterFunc(unasked, func() { c.values.Remove(key) })
	c.values.Add(key, entry)
	for c.bytes.Load() > cacheBytes && c.values.Len() > 1 {
		c.values.RemoveOldest()
	}
}

// last returns the entry of a key, nil if there is none.
func (c *documentCache[T]) last(key string) *cacheEntry[T] {
	found, ok := c.values.Get(key)
	if !ok {
		return nil
	}
	entry := found.(*cacheEntry[T])
	entry.forget.Reset(unasked)
	return entry
}

// made returns what is made of something with a tag, by create, which says how many bytes it takes.
func (c *documentCache[T]) made(key, tag string, create func() (T, int64, error)) (T, error) {
	// Who asks for what is made of a later state does not get what is being made of an earlier one, and keep it by the later tag.
	value, err, _ := c.merging.Do(key+" "+tag, func() (any, error) {
		if last := c.last(key); last != nil && last.tags[0] == tag {
			return last.value, nil
		}
		value, bytes, err := create()
		if err == nil {
			c.add(key, &cacheEntry[T]{tags: []string{tag}, bytes: bytes, value: value})
		}
		return value, err
	})
	result, _ := value.(T) // nil is of no type
	return result, err
}

// get returns what is put together from documents, by together, which is given them in
// their order.
func (c *documentCache[T]) get(key string, documents []document, together func(documents [][]byte) (T, error)) (T, error) {
	value, err, _ := c.merging.Do(key, func() (any, error) {
		last := c.last(key)
		if last == nil || len(last.tags) != len(documents) {
			last = &cacheEntry[T]{tags: make([]string, len(documents))}
		}
		fresh, bodies, err := read(documents, last.tags)
		if err != nil {
			return last.value, err
		}
		if slices.Equal(fresh, last.tags) {
			return last.value, nil
		}
		value, err := together(bodies)
		if err == nil {
			entry := &cacheEntry[T]{tags: fresh, value: value}
			for _, body := range bodies {
				entry.bytes += int64(len(body))
			}
			c.add(key, entry)
		}
		return value, err
	})
	result, _ := value.(T) // nil is of no type
	return result, err
}

// read returns the tags of documents and, if one is not among those known, all of
// them.
func read(documents []document, known []string) (tags []string, bodies [][]byte, err error) {
	changed := false
	for i, from := range documents {
		tag, body, err := from.read(known[i])
		if err != nil {
			return nil, nil, err
		}
		changed = changed || tag != known[i]
		tags, bodies = append(tags, tag), append(bodies, body)
	}
	if !changed {
		return tags, nil, nil
	}
	for i, from := range documents {
		if bodies[i] == nil {
			if tags[i], bodies[i], err = from.read(""); err != nil {
				return nil, nil, err
			}
		}
	}
	return tags, bodies, nil
}

// read returns a document and its tag, and no document if it has the known tag.
func (d document) read(known string) (string, []byte, error) {
	suffix := " " + d.excluded
	var etag string
	if n := len(known) - len(suffix); n > 0 && known[n:] == suffix {
		etag = known[:n]
	}
	response, err := ask(d.handler, d.path, d.accept, etag)
	switch {
	case err != nil:
		return "", nil, err
	case response.status == http.StatusNotModified && etag != "":
		return known, nil, nil
	case response.status != http.StatusOK:
		return "", nil, fmt.Errorf("the server of the definitions answered %d to %s", response.status, d.path)
	}
	return response.header.Get("Etag") + suffix, response.body, nil
}
