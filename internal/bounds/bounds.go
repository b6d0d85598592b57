package bounds

import (
	"fmt"
	"math"
)

// MinBody is the size in bytes of the smallest body that is worth a look: with less, nothing
// can be much longer than it may be.
const MinBody = 10_000

// MaxPatchWork bounds the product of the operations of a JSON patch and of the bytes that each
// may copy: a list as long as the patch and the object. With it the patch takes some seconds.
const MaxPatchWork = 8 << 30

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
	// path is about the bytes of the names that lead to a value, and paths about those of all
	// values: upstream says them with each error, field that it does not know, or conflict.
	path, paths *rule
	levels      *rule
}

var (
	unbounded = &rule{most: math.MaxInt}
	objects   = rules{
		lists:    &rule{10_000, "elements in one list", "make several objects of it"},
		maps:     &rule{20_000, "entries in one map", "make several objects of it"},
		owners:   &rule{64, "ownerReferences", "name fewer owners"},
		together: unbounded,
		path:     &rule{8 << 10, "bytes in the names that lead to one of its fields", "use shorter names, or nest less"},
		paths:    &rule{16 << 20, "bytes in the names that lead to its fields, counted for each field", "use shorter names, nest less, or make several objects of it"},
		levels:   &rule{maxLevels, "levels of lists and maps", "nest less"},
	}
	// numbersOnly is for objects that may have any lists and maps.
	numbersOnly = rules{unbounded, unbounded, unbounded, unbounded, unbounded, unbounded, &rule{maxDepth, "levels of lists and maps", "nest less"}}
	// strategicMergePatches are merged by looking for each element in the list that is stored.
	strategicMergePatches = rules{
		lists: objects.lists, maps: objects.maps, owners: objects.owners,
		together: &rule{5_000, "elements in the lists of a strategic merge patch", "use kubectl replace, or kubectl apply --server-side --force-conflicts"},
		path:     objects.path, paths: objects.paths, levels: objects.levels,
	}

	// copies is about the paths to which a JSON patch copies or moves. Each may lead to all of the
	// 100,000 values that an object may have: to 100 MB of paths.
	copies = &rule{1 << 10, "bytes in the paths to which a JSON patch copies or moves", "add the values instead"}

	// written is about the bytes of all strings, and elementSize for each element. Decoded
	// values can share memory, and expand when they are written.
	written = &rule{16 << 20, "bytes when it is written out", "make several objects of it"}
)

const (
	// maxDepth is upstream's limit for JSON, which refuses deeper nesting.
	maxDepth = 10_000
	// maxLevels is four times the depth of the deepest of 4,831 public definitions, whose longest
	// path has 638 bytes, and the paths of the largest together 6.3 MB. What upstream does with
	// definitions is quadratic in their depth.
	maxLevels   = 250
	elementSize = 16
	// indexSize is what an index takes in a path.
	indexSize = 6
	// ownerReferences is the key of the lists to which the rule for owners applies.
	ownerReferences = "ownerReferences"
)
