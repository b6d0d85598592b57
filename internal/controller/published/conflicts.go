package published

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/tenantry/tenantry/internal/progress"
	"github.com/tenantry/tenantry/internal/tenant"
)

// conflicts knows in which spaces tenants have objects of their own where copies
// are to be. There is a watch for a published object only while it has such
// conflicts, and for each published definition, of which there are no copies.
type conflicts struct {
	// observe tells an observer about tenants' own objects at the place of o; see observe.
	observe func(ctx context.Context, o Object, to observer, seen *progress.Progress)
	// changed is called with each object whose conflicts may have become others.
	changed func(Object)

	mu      sync.Mutex
	watched map[Object]*conflict
}

type conflict struct {
	// seen has begun when all conflicts are known.
	seen progress.Progress
	stop context.CancelFunc

	mu      sync.Mutex
	spaces  map[tenant.Name]struct{}
	changed func()
}

func newConflicts(observe func(ctx context.Context, o Object, to observer, seen *progress.Progress), changed func(Object)) *conflicts {
	return &conflicts{observe: observe, changed: changed, watched: map[Object]*conflict{}}
}

// own selects what is not a copy at the place of o.
func own(o Object) metav1.ListOptions {
	place := fields.Set{"metadata.name": o.Name}
	if o.Namespace != "" {
		place["metadata.namespace"] = o.Namespace
	}
	return metav1.ListOptions{FieldSelector: place.AsSelector().String(), LabelSelector: "!" + tenant.PublishedCopyLabel}
}

// watch watches the conflicts of o until ctx or unwatch ends it.
func (c *conflicts) watch(ctx context.Context, o Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.watched[o]; ok {
		return
	}
	watching, stop := context.WithCancel(ctx)
	found := &conflict{stop: stop, spaces: map[tenant.Name]struct{}{}, changed: func() { c.changed(o) }}
	c.watched[o] = found
	go c.observe(watching, o, found, &found.seen)
}

func (c *conflicts) unwatch(o Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found, ok := c.watched[o]; ok {
		found.stop()
		delete(c.watched, o)
	}
}

// at reports whether the tenant is known to have an object of its own where a
// copy of o is to be.
func (c *conflicts) at(o Object, n tenant.Name) bool {
	c.mu.Lock()
	found, ok := c.watched[o]
	c.mu.Unlock()
	if !ok || !found.seen.Begun() {
		return false
	}
	found.mu.Lock()
	defer found.mu.Unlock()
	_, there := found.spaces[n]
	return there
}

func (c *conflict) Set(o *metav1.PartialObjectMetadata) {
	n := tenant.Name(o.Annotations[tenant.Annotation])
	c.mu.Lock()
	_, known := c.spaces[n]
	c.spaces[n] = struct{}{}
	c.mu.Unlock()
	if !known {
		c.changed()
	}
}

func (c *conflict) Delete(o *metav1.PartialObjectMetadata) {
	c.mu.Lock()
	delete(c.spaces, tenant.Name(o.Annotations[tenant.Annotation]))
	c.mu.Unlock()
	c.changed()
}

func (c *conflict) Replace(objects []*metav1.PartialObjectMetadata) {
	c.mu.Lock()
	clear(c.spaces)
	for _, o := range objects {
		c.spaces[tenant.Name(o.Annotations[tenant.Annotation])] = struct{}{}
	}
	c.mu.Unlock()
	c.changed() // there may have been more when the watch was asked for
}
