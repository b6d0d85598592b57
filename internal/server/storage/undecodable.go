package storage

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/etcdstore"
)

// An object of one space that cannot be decoded is left out of the watch cache that all spaces share: it may have been stored before its
// definition had a version, or before its conversion webhook became stricter. While the webhook is away, nothing is left out, and the cache
// stays as it was: it would seem that all objects had gone. So it is left out only if the webhook does convert another object then.

const (
	// sampleAge is how old an object may be by which it is seen whether a webhook converts.
	sampleAge = time.Minute
	// maxFailures is how many objects of a list are tried again, and failingTime for how long a list goes on after the first that failed.
	maxFailures = 20
	failingTime = 10 * time.Second
	// relistPeriod is after what time a cache that has left something out lists again.
	relistPeriod = 5 * time.Minute
)

// undecodable is what is known of the objects of one version that spaces share.
type undecodable struct {
	versions *sharedVersions
	resource schema.GroupResource
	// left is whether something has been left out since the cache was filled.
	left atomic.Bool

	mu sync.Mutex
	// sample is an object that was decoded, as etcd has it.
	sample    []byte
	sampledAt time.Time
}

// decoded notes an object that was decoded.
func (u *undecodable) decoded(data []byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if now := time.Now(); u.sample == nil || now.Sub(u.sampledAt) > sampleAge {
		u.sample, u.sampledAt = bytes.Clone(data), now
	}
}

// converts reports whether an object can be converted now: that which was decoded, to a version in which it is not stored.
func (u *undecodable) converts() bool {
	u.mu.Lock()
	sample := u.sample
	u.mu.Unlock()
	if sample == nil {
		return false
	}
	codecs := u.versions.codecs(u.resource)
	for _, codec := range codecs {
		if codec.kind.GroupVersion().String() == gjson.GetBytes(sample, "apiVersion").String() && len(codecs) > 1 {
			continue
		}
		if _, _, err := codec.Decode(sample, nil, codec.newObject()); err == nil {
			return true
		}
	}
	return false
}

// leavesOut reports whether what etcd has of an object is to be left out.
func (c *foreignCodec) leavesOut(data []byte) bool {
	if c.undecodable == nil || !ownerIn(data).IsSpace() {
		return false
	}
	if _, _, err := c.Decode(data, nil, c.newObject()); err == nil {
		return false
	}
	return c.undecodable.converts()
}

// leftOut notes that an object is left out, and why.
func (c *foreignCodec) leftOut(data []byte, why error) {
	c.undecodable.left.Store(true)
	object := c.foreignObject(data, nil)
	klog.ErrorS(why, "A custom resource cannot be converted to a version that all spaces share, and is left out of lists and watches of it", "tenant", ownerIn(data),
		"resource", c.undecodable.resource, "version", c.kind.Version, "namespace", object.GetNamespace(), "name", object.GetName())
}

// hasLeftOut reports whether something has been left out.
func (c *foreignCodec) hasLeftOut() bool {
	return c != nil && c.undecodable.left.Load()
}

// newObject returns what an object of the version is decoded into.
func (c *foreignCodec) newObject() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(c.kind)
	return object
}

// failures are the objects of one list that could not be decoded.
type failures struct {
	codec *foreignCodec
	some  [][]byte
	first error
	since time.Time
}

// leavingOut returns the context of a page, which may be the first, of a list with which a shared cache is filled, and what says in the end whether it is as it
// should be.
func (c *foreignCodec) leavingOut(ctx context.Context, first bool) (context.Context, func() error) {
	if c == nil {
		return ctx, func() error { return nil }
	}
	if first {
		c.undecodable.left.Store(false)
	}
	f := &failures{codec: c}
	return etcdstore.WithDecoded(ctx, f.decoded), f.check
}

func (f *failures) decoded(data []byte, obj runtime.Object, err error) (runtime.Object, error) {
	switch {
	case err == nil:
		f.codec.undecodable.decoded(data)
		return obj, nil
	case !ownerIn(data).IsSpace():
		return nil, err
	case f.first == nil:
		f.first, f.since = err, time.Now()
	case time.Since(f.since) > failingTime:
		return nil, err
	}
	if len(f.some) < maxFailures {
		f.some = append(f.some, bytes.Clone(data))
	}
	return f.codec.foreignObject(data, nil), nil
}

// check returns why the list must not be what the cache has: what failed would not now, or nothing says that the webhook converts.
func (f *failures) check() error {
	for _, data := range f.some {
		if !f.codec.leavesOut(data) {
			return f.first
		}
	}
	for _, data := range f.some {
		f.codec.leftOut(data, f.first)
	}
	return nil
}
