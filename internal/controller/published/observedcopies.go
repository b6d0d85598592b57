package published

import (
	"maps"
	"math"
	"strconv"
	"sync"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/tenant"
)

// observedCopies are the copies that there are in the spaces of all tenants.
type observedCopies struct {
	// changed is called with each object of which a copy was seen to change.
	changed func(Object)

	mu  sync.RWMutex
	all map[Object]map[tenant.Name]observedCopy
}

// observedCopy is what is known of a copy, or of a tenant's own namespace that holds
// copies. There may be a million of them.
type observedCopy struct {
	from    unique.Handle[string]
	version uint64
	// held is true for a tenant's own namespace.
	held        bool
	terminating bool
}

func newObservedCopies(changed func(Object)) *observedCopies {
	return &observedCopies{changed: changed, all: map[Object]map[tenant.Name]observedCopy{}}
}

// copyOf reads the marks of an object and reports whether it has any.
func copyOf(o *metav1.PartialObjectMetadata) (observedCopy, bool) {
	kind, marked := o.Labels[tenant.PublishedCopyLabel]
	version, _ := strconv.ParseUint(o.ResourceVersion, 10, 64)
	return observedCopy{
		from:        unique.Make(o.Annotations[tenant.PublishedFromAnnotation]),
		version:     version,
		held:        kind == tenant.PublishedNamespace,
		terminating: o.DeletionTimestamp != nil,
	}, marked
}

func (c *observedCopies) get(o Object, n tenant.Name) (observedCopy, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	found, ok := c.all[o][n]
	return found, ok
}

// of returns all copies of an object.
func (c *observedCopies) of(o Object) map[tenant.Name]observedCopy {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return maps.Clone(c.all[o])
}

// in reports whether there are copies in a namespace of a space.
func (c *observedCopies) in(n tenant.Name, namespace string) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for o, spaces := range c.all {
		if o.Namespace == namespace {
			if _, ok := spaces[n]; ok {
				return true
			}
		}
	}
	return false
}

// put notes a copy, unless a later state of it is known, and reports whether
// that is news.
func (c *observedCopies) put(o Object, n tenant.Name, seen observedCopy) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.all[o][n]; ok && known.version >= seen.version {
		return false
	}
	keyed.Set(c.all, o, n, seen)
	return true
}

// forever is a version that comes after all others.
const forever = math.MaxUint64

// drop forgets a copy up to a version, and reports whether that is news.
func (c *observedCopies) drop(o Object, n tenant.Name, version uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.all[o][n]; !ok || known.version > version {
		return false
	}
	keyed.Delete(c.all, o, n)
	return true
}

// dropAll forgets the copies in a space.
func (c *observedCopies) dropAll(n tenant.Name) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for o := range c.all {
		keyed.Delete(c.all, o, n)
	}
}

// copiesOf observes the copies of one resource in all spaces.
type copiesOf struct {
	*observedCopies
	resource schema.GroupResource
}

func (c copiesOf) object(o *metav1.PartialObjectMetadata) (Object, tenant.Name) {
	return Object{Resource: c.resource, Namespace: o.Namespace, Name: o.Name}, tenant.Name(o.Annotations[tenant.Annotation])
}

func (c copiesOf) Set(o *metav1.PartialObjectMetadata) {
	object, n := c.object(o)
	if seen, marked := copyOf(o); marked && c.put(object, n, seen) {
		c.changed(object)
	}
}

func (c copiesOf) Delete(o *metav1.PartialObjectMetadata) {
	object, n := c.object(o)
	if seen, _ := copyOf(o); c.drop(object, n, seen.version) {
		c.changed(object)
	}
}

func (c copiesOf) Replace(objects []*metav1.PartialObjectMetadata) {
	type copyKey struct {
		Object
		tenant.Name
	}
	there := make(map[copyKey]bool, len(objects))
	for _, o := range objects {
		object, n := c.object(o)
		there[copyKey{object, n}] = true
		c.Set(o)
	}
	for _, object := range c.objects() {
		for n := range c.of(object) {
			if !there[copyKey{object, n}] && c.drop(object, n, forever) {
				c.changed(object)
			}
		}
	}
}

// objects returns the objects of the resource that have copies.
func (c copiesOf) objects() (objects []Object) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for o := range c.all {
		if o.Resource == c.resource {
			objects = append(objects, o)
		}
	}
	return objects
}
