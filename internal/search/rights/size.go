package rights

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
)

const (
	// maxBytes is how large a Set may be: names are written out for the database, and several searches
	// run at once. Some 30,000 names of usual length fit.
	maxBytes = 4 << 20
	// entryBytes is what a name takes beside its length.
	entryBytes = 100
	// ListedGroups is how many groups of namespaces can be looked up as they are. Of all others each
	// pair of a resource and a namespace is written out.
	ListedGroups = 50
)

// ErrTooLarge means that rights name more single objects and namespaces than can be searched by.
var ErrTooLarge = fmt.Errorf("your rights name more single objects (resourceNames) and namespaces than can be searched by, %d MiB with their resources: "+
	"name fewer in roles and policies, or give the right to all objects of a resource", maxBytes>>20)

// fail ends the compilation.
func (c *compilation) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// over reports whether nothing more is to be collected.
func (c *compilation) over() bool { return c.err != nil || c.ctx.Err() != nil }

// pay notes what an entry takes, and reports whether there is room for it.
func (c *compilation) pay(length int) bool {
	if c.bytes += entryBytes + length; c.bytes > maxBytes {
		c.fail(ErrTooLarge)
	}
	return c.err == nil
}

// insert adds names of a resource in a namespace. It reports whether to go on.
func (c *compilation) insert(into sets.Set[string], in Range, names ...string) bool {
	if c.over() {
		return false
	}
	for _, name := range names {
		if into.Has(name) {
			continue
		}
		if !c.pay(len(in.Resource.Group) + len(in.Resource.Resource) + len(in.Namespace) + len(name)) {
			return false
		}
		into.Insert(name)
	}
	return true
}

// group puts groups in order, the largest first, so that of the others few pairs are written out.
func (c *compilation) group(groups []Group) {
	pairs := func(g Group) int { return len(g.Resources) * len(g.Namespaces) }
	slices.SortFunc(groups, func(a, b Group) int { return cmp.Compare(pairs(b), pairs(a)) })
	for _, g := range groups[min(len(groups), ListedGroups):] {
		for namespace := range g.Namespaces {
			if !c.pay(len(g.Resources) * (entryBytes + len(namespace) + lengthOf(g.Resources))) {
				return
			}
		}
	}
	c.set.Groups = groups
}

// lengthOf is how long the names of resources are, on average.
func lengthOf(resources sets.Set[schema.GroupResource]) int {
	length := 0
	for resource := range resources {
		length += len(resource.Group) + len(resource.Resource)
	}
	return length / max(len(resources), 1)
}
