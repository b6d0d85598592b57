package storage

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/etcdstore"
	"github.com/tenantry/tenantry/internal/tenant"
)

// An object of one space that cannot be decoded is left out of the watch cache that all spaces share: it may have been
// stored before its definition had a version, or before its conversion webhook became stricter. While the webhook is
// away, nothing is left out, and the cache stays as it was: it would seem that all objects had gone. So it is left out
// only if the webhook does convert another object then.

const (
	// sampleAge is how old an object may be by which it is seen whether a webhook converts.
	sampleAge = time.Minute
	// maxFailures is how many objects of a list are tried again, and failingTime for how long a list goes on after the
	// first that failed.
	maxFailures = 20
	failingTime = 10 * time.Second
	// relistPeriod is how often it is seen whether what was left out can be converted now. If some can, the cache lists
	// again.
	relistPeriod = 5 * time.Minute
	// maxLeft is how many objects of each tenant are tried then.
	maxLeft = 16
	// conversionsAtOnce is how many objects of a list are decoded at once: until it ends, nobody can list or watch the
	// version.
	conversionsAtOnce = 16
)

// undecodable is what is known of the objects of one version that spaces share.
type undecodable struct {
	versions *sharedVersions
	resource schema.GroupResource

	mu sync.Mutex
	// left are objects that have been left out since the cache was filled.
	left leftOut
	// sample is an object that was decoded, as etcd has it.
	sample    []byte
	sampledAt time.Time
}

// noteSample notes an object that was decoded.
func (u *undecodable) noteSample(data []byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if now := time.Now(); u.sample == nil || now.Sub(u.sampledAt) > sampleAge {
		u.sample, u.sampledAt = bytes.Clone(data), now
	}
}

// converts reports whether an object can be converted now: that which was decoded, to a version in which it is not
// stored.
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

// logLeftOut says that an object is left out, and why.
func (c *foreignCodec) logLeftOut(data []byte, why error) {
	object := c.foreignObject(data, nil)
	klog.ErrorS(why, "A custom resource cannot be converted to a version that all spaces share, and is left out of lists and watches of it", "tenant", ownerIn(data),
		"resource", c.undecodable.resource, "version", c.kind.Version, "namespace", object.GetNamespace(), "name", object.GetName())
}

// leftOut are objects that are left out, up to maxLeft of each tenant, with no more than their names.
type leftOut map[tenant.Name][]*unstructured.Unstructured

func (l leftOut) add(n tenant.Name, objects ...*unstructured.Unstructured) {
	l[n] = append(l[n], objects[:min(len(objects), maxLeft-len(l[n]))]...)
}

// leave notes that objects are left out.
func (u *undecodable) leave(objects leftOut) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for n, some := range objects {
		u.left.add(n, some...)
	}
}

// forgetLeft notes that nothing is left out.
func (u *undecodable) forgetLeft() {
	u.mu.Lock()
	defer u.mu.Unlock()
	clear(u.left)
}

// takesBack reports whether something that was left out can be converted now.
func (h *history) takesBack() bool {
	h.shared.undecodable.mu.Lock()
	left := slices.Concat(slices.Collect(maps.Values(h.shared.undecodable.left))...)
	h.shared.undecodable.mu.Unlock()
	return slices.ContainsFunc(left, func(obj *unstructured.Unstructured) bool {
		key, err := h.cacheKey(obj)
		return err == nil && h.etcdKeys.Get(h.closing, key, storage.GetOptions{}, h.shared.newObject()) == nil
	})
}

// newObject returns what an object of the version is decoded into.
func (c *foreignCodec) newObject() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(c.kind)
	return object
}

// failedObjects are those of one list that could not be decoded.
type failedObjects struct {
	codec *foreignCodec

	mu sync.Mutex
	// some are as etcd has them, up to maxFailures.
	some  [][]byte
	left  leftOut
	first error
	since time.Time
}

// leavingOut returns the context of a page, which may be the first, of a list with which a shared cache is filled, and
// what says in the end whether it is as it should be, with the error that the list has ended with.
func (c *foreignCodec) leavingOut(ctx context.Context, first bool) (context.Context, func(error) error) {
	if c == nil {
		return ctx, func(listed error) error { return listed }
	}
	if first {
		c.undecodable.forgetLeft()
	}
	f := &failedObjects{codec: c, left: leftOut{}}
	ctx, several := etcdstore.WithConcurrent(etcdstore.WithDecoded(ctx, f.replace), conversionsAtOnce)
	return ctx, func(listed error) error {
		if err := several.Wait(listed); err != nil {
			return err
		}
		return f.check()
	}
}

// replace is etcdstore.Decoded: in the place of what failed, it returns an object that is left out.
func (f *failedObjects) replace(data []byte, obj runtime.Object, err error) (runtime.Object, error) {
	if err == nil {
		f.codec.undecodable.noteSample(data)
		return obj, nil
	}
	if n := ownerIn(data); !n.IsSpace() || !f.goesOn(n, data, err) {
		return nil, err
	}
	return f.codec.foreignObject(data, nil), nil
}

// goesOn notes an object that failed, and reports whether the list goes on.
func (f *failedObjects) goesOn(n tenant.Name, data []byte, err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.first == nil {
		f.first, f.since = err, time.Now()
	}
	f.left.add(n, f.codec.foreignObject(data, nil)) // another one than the cache has, whose version is set
	if len(f.some) < maxFailures {
		f.some = append(f.some, bytes.Clone(data))
	}
	return time.Since(f.since) <= failingTime
}

// check returns why the list must not be what the cache has: what failed would not now, or nothing says that the
// webhook converts.
func (f *failedObjects) check() error {
	for _, data := range f.some {
		if !f.codec.leavesOut(data) {
			return f.first
		}
	}
	for _, data := range f.some {
		f.codec.logLeftOut(data, f.first)
	}
	f.codec.undecodable.leave(f.left)
	return nil
}
