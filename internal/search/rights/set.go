package rights

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Set is what a user may list in one space. The zero value is nothing: what no rule names is not in it.
type Set struct {
	// Whole are the resources of which the user may list all objects of the space.
	Whole sets.Set[schema.GroupResource]
	// Groups are namespaces with the same rights, in which there are others than those of Whole, the largest
	// first. No namespace is in two. "" stands for what is in no namespace.
	Groups []Group
	// Named are the names of single objects by their resource, in all namespaces or in none.
	Named map[schema.GroupResource]sets.Set[string]
	// NamedIn are those in one namespace.
	NamedIn map[Range]sets.Set[string]
	// Denied are namespaces in which the user may do nothing, whatever else is said.
	Denied sets.Set[string]
	// Incomplete says why the user may be allowed to list more than this, empty if it is all.
	Incomplete string
}

// Group are resources whose objects may be listed in some namespaces.
type Group struct {
	Resources  sets.Set[schema.GroupResource]
	Namespaces sets.Set[string]
}

// Range is a resource in one namespace.
type Range struct {
	Resource  schema.GroupResource
	Namespace string
}

// Allows reports whether an object may be listed.
func (s *Set) Allows(resource schema.GroupResource, namespace, name string) bool {
	if s.Denied.Has(namespace) && namespace != "" {
		return false
	}
	if s.Whole.Has(resource) || s.Named[resource].Has(name) || s.NamedIn[Range{resource, namespace}].Has(name) {
		return true
	}
	return slices.ContainsFunc(s.Groups, func(g Group) bool { return g.Resources.Has(resource) && g.Namespaces.Has(namespace) })
}

// bits are a set of the resources of a space, by their index.
type bits []uint64

func newBits(n int) bits { return make(bits, (n+63)/64) }

func (b bits) set(i int) { b[i/64] |= 1 << (i % 64) }

func (b bits) has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }

func (b bits) add(others bits) {
	for i, other := range others {
		b[i] |= other
	}
}

// without returns whether others are left without those of taken, which it removes.
func (b bits) without(taken bits) bool {
	left := false
	for i := range b {
		b[i] &^= taken[i]
		left = left || b[i] != 0
	}
	return left
}

// key is equal for equal sets.
func (b bits) key() string {
	key := make([]byte, 0, 8*len(b))
	for _, word := range b {
		for shift := 0; shift < 64; shift += 8 {
			key = append(key, byte(word>>shift))
		}
	}
	return string(key)
}
