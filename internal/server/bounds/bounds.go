package bounds

import (
	"fmt"
	"math"
)

// MinBody is the size in bytes of the smallest body that is worth a look: with less, nothing
// can be much longer than it may be.
const MinBody = 10_000

// rule is a bound, and what to do about it.
type rule struct {
	most         int
	what, wayOut string
}

func (r *rule) exceeded() error {
	return fmt.Errorf("it has more than %d %s, and a space takes no more; %s", r.most, r.what, r.wayOut)
}

// rules are those for one kind of body.
type rules struct {
	lists, maps, owners *rule
	// together is about the elements of all lists.
	together *rule
}

var (
	unbounded = &rule{most: math.MaxInt}
	objects   = rules{
		lists:    &rule{10_000, "elements in one list", "make several objects of it"},
		maps:     &rule{20_000, "entries in one map", "make several objects of it"},
		owners:   &rule{1_000, "ownerReferences", "name fewer owners"},
		together: unbounded,
	}
	// numbersOnly is for objects that may have any lists and maps.
	numbersOnly = rules{unbounded, unbounded, unbounded, unbounded}
	// strategicMergePatches are merged by looking for each element in the list that is stored.
	strategicMergePatches = rules{
		lists: objects.lists, maps: objects.maps, owners: objects.owners,
		together: &rule{5_000, "elements in the lists of a strategic merge patch", "use kubectl replace, or kubectl apply --server-side --force-conflicts"},
	}

	// written is about the bytes of all strings, and elementSize for each element. Decoded
	// values can share memory, and expand when they are written.
	written = &rule{16 << 20, "bytes when it is written out", "make several objects of it"}
	// levels are twice those of JSON, of which one may be a pointer and a struct here.
	levels = &rule{2 * maxDepth, "levels of lists and maps", "nest less"}
)

const (
	// maxDepth is upstream's limit for JSON, which refuses deeper nesting.
	maxDepth    = 10_000
	elementSize = 16
	// ownerReferences is the key of the lists to which the rule for owners applies.
	ownerReferences = "ownerReferences"
)
