package discovery

import (
	"errors"
	"math"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/util/responsewriter"
	"k8s.io/utils/lru"

	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/process/ratelimit"
)

// cacheBytes is what the values of a cache may take, of all spaces, as estimated. The last one is cached however large
// it is; the others are made again. So is one that nobody has asked for so long as unasked: those of a space with many
// definitions take a hundred megabytes. Both are chosen.
const (
	cacheBytes = 64 << 20
	unasked    = 2 * time.Minute
)

// largeDocument is from how many bytes on a document is large: of about sixty versions. At once, one large document is
// made in a process and smallAtOnce others, and waitingForLarge more requests of a space wait for a large one. All are
// chosen.
const (
	largeDocument   = 16 << 20
	smallAtOnce     = 2
	waitingForLarge = 2
)

// largeBytes bounds how many bytes of large documents are made for a space, which takes some 45 milliseconds of a core
// for each MiB: a space that changes its definitions and asks for the document again and again does not have all turns
// of the others. One of 600 versions, the most that a space has, is 150 MiB. Both numbers are chosen.
func largeBytes() *ratelimit.Limits[string] {
	return &ratelimit.Limits[string]{PerSecond: 2 << 20, AtOnce: 256 << 20}
}

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

// newBoundedCache returns a cache of at most so many values, 0 for any number.
func newBoundedCache[T any](most int) *boundedCache[T] {
	c := &boundedCache[T]{}
	c.entries = lru.NewWithEvictionFunc(most, func(_ lru.Key, evicted any) {
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

// builtCache caches the documents that are built of definitions. Large and small ones, and those that spaces without
// definitions of their own share, have separate caches and turns, so that none evicts or delays another.
type builtCache struct{ small, large, shared *builtBySize }

// builtBySize caches small documents, large ones, or shared ones.
type builtBySize struct {
	*boundedCache[*built]
	// turns are those of spaces, and all those of all: what is built and encoded takes some times what counts, and one
	// space must not have all turns.
	turns keyed.Turns[string]
	all   chan struct{}
	// rate is how many bytes are made for a space, nil without a bound.
	rate   *ratelimit.Limits[string]
	format *format
}

// newBuiltCaches returns caches that share the turns of all.
func newBuiltCaches() (v2, v3 *builtCache) {
	small, large, shared, rate := make(chan struct{}, smallAtOnce), make(chan struct{}, 1), make(chan struct{}, 1), largeBytes()
	of := func(f *format) *builtCache {
		return &builtCache{
			small:  &builtBySize{newBoundedCache[*built](0), keyed.Turns[string]{Each: 1}, small, nil, f},
			large:  &builtBySize{newBoundedCache[*built](0), keyed.Turns[string]{Each: 1, Waiting: waitingForLarge}, large, rate, f},
			shared: &builtBySize{newBoundedCache[*built](0), keyed.Turns[string]{Each: 1}, shared, nil, f},
		}
	}
	return of(formatV2), of(formatV3)
}

// built is what serves a document that is built of definitions with a tag.
type built struct {
	http.Handler
	tag    string
	format *format
	// encoded is whether it has been encoded as JSON: upstream does so when it is first asked for.
	encoded  atomic.Bool
	protobuf atomic.Pointer[protobufDocument]
}

// ServeHTTP implements http.Handler.
func (d *built) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if document := d.protobuf.Load(); document != nil && d.format.isProtobufFor(req) {
		document.ServeHTTP(w, req)
		return
	}
	d.Handler.ServeHTTP(w, withoutProtobuf(req))
}

// state is the document that there is to be: by its tag, with what tells how many bytes it takes, and what makes it.
type state struct {
	tag    string
	bytes  func() int64
	create func() (http.Handler, error)
}

// getOrCreate returns what serves the document of a key, which is one of a space, as it is now, to a request.
func (c *builtCache) getOrCreate(req *http.Request, space, key string, now func() state) (*built, error) {
	wanted := now()
	if document := c.get(key, wanted.tag); document != nil && document.isEncodedFor(req) {
		return document, nil
	}
	of := c.by(space, wanted.bytes())
	release, err := of.turns.Take(req.Context(), space, of.all)
	switch {
	case errors.Is(err, keyed.ErrTooMany):
		return nil, apierrors.NewTooManyRequests("others wait for large OpenAPI documents of this space, which are made one after the other; try again", 5)
	case err != nil:
		return nil, apierrors.NewTimeoutError("OpenAPI documents of definitions are made one after the other; try again", 5)
	}
	defer release()
	wanted = now() // definitions may have changed meanwhile
	document := c.get(key, wanted.tag)
	if document == nil {
		bytes := wanted.bytes()
		if c.by(space, bytes) != of {
			return nil, apierrors.NewTooManyRequests("the OpenAPI document of this space has become much larger or smaller; try again", 1)
		}
		c.remove(key)
		if document, err = of.create(space, key, wanted, bytes); err != nil {
			return nil, err
		}
	}
	document.encode(req)
	return document, nil
}

func (c *builtCache) all() []*builtBySize { return []*builtBySize{c.small, c.large, c.shared} }

// remove removes what was made of an earlier state, which may have been smaller or larger.
func (c *builtCache) remove(key string) {
	for _, of := range c.all() {
		of.entries.Remove(key)
	}
}

// get returns the document of a key with a tag, nil if there is none.
func (c *builtCache) get(key, tag string) *built {
	for _, of := range c.all() {
		if document := of.get(key); document != nil && document.tag == tag {
			return document
		}
	}
	return nil
}

// by returns where a document of a space is that takes so many bytes.
func (c *builtCache) by(space string, bytes int64) *builtBySize {
	switch {
	case strings.HasPrefix(space, sharedKey):
		return c.shared
	case bytes >= largeDocument:
		return c.large
	default:
		return c.small
	}
}

func (c *builtBySize) create(space, key string, wanted state, bytes int64) (*built, error) {
	if c.rate != nil {
		if wait := c.rate.Take(time.Now(), space, int(bytes)); wait > 0 {
			return nil, apierrors.NewTooManyRequests("large OpenAPI documents of this space were made often of late, as its definitions change; try again", int(math.Ceil(wait.Seconds())))
		}
	}
	handler, err := wanted.create()
	if err != nil {
		return nil, err
	}
	document := &built{Handler: handler, tag: wanted.tag, format: c.format}
	c.put(key, document, bytes)
	return document, nil
}

func (d *built) isEncodedFor(req *http.Request) bool {
	if d.format.isProtobufFor(req) {
		return d.protobuf.Load() != nil
	}
	return d.encoded.Load()
}

// encode encodes the document for a request, unless it has been.
func (d *built) encode(req *http.Request) {
	switch {
	case d.isEncodedFor(req):
	case d.format.isProtobufFor(req):
		if document := d.format.protobufOf(d.Handler, req.URL.Path); document != nil {
			d.encoded.Store(true)
			d.protobuf.Store(document)
		}
	default:
		w := responsewriter.NewInMemoryResponseWriter()
		d.Handler.ServeHTTP(w, &http.Request{Method: http.MethodHead, URL: &url.URL{Path: req.URL.Path}, Header: http.Header{"Accept": withoutProtobuf(req).Header["Accept"]}})
		if w.RespCode() == http.StatusOK { // not 406
			d.encoded.Store(true)
		}
	}
}
