package index

import (
	"cmp"
	"context"
	"database/sql"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tenantry/tenantry/internal/search/query"
	"github.com/tenantry/tenantry/internal/search/rights"
	"github.com/tenantry/tenantry/internal/tenant"
)

// visible is what a selection may look at: ranges of which everything may be seen, and single objects of others. Each
// is at the position of its resource and namespace in the order of rows.
type visible struct {
	keys []rangeKey
	// ranges and objects are ids, with their positions, in the order of positions. No object is in both.
	ranges, rangeAt, objects, objectAt []int64
	// sizes are how many objects ranges have.
	sizes []int64
}

// seen is a range, or an object in one.
type seen struct {
	rangeKey
	id, object, size int64
	// omitted is how many objects of the range are left out.
	omitted int64
}

// maxGroups is how many groups of namespaces are looked up each by a statement. The pairs of resource and namespace of
// all others are listed one by one.
const maxGroups = rights.ListedGroups

// find returns what may be seen by the rights of a selection, and what of it the filters of places leave.
func (x *Index) find(ctx context.Context, tx *sql.Tx, s Selection) (*visible, error) {
	all := &visible{}
	for _, scope := range s.scopes() {
		f := &finder{Index: x, tx: tx, s: scope, query: s.Query}
		if err := f.all(ctx, scope.Space); err != nil {
			return nil, err
		}
		if scope.Shared {
			if err := f.all(ctx, Shared); err != nil {
				return nil, err
			}
		}
		if err := f.misses(ctx); err != nil {
			return nil, err
		}
		if err := f.addTo(all); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// finder collects what may be seen of one space.
type finder struct {
	*Index
	tx    *sql.Tx
	s     Scope
	query query.Query
	found []seen
}

func (f *finder) all(ctx context.Context, space tenant.Name) error {
	set := f.s.Visible
	if err := f.inRanges(ctx, space, column{`resource`, resources(set.Whole)}); err != nil {
		return err
	}
	var pairs [2][]string
	for i, g := range set.Groups {
		if i >= maxGroups {
			for _, resource := range resources(g.Resources) {
				for namespace := range g.Namespaces {
					pairs[0], pairs[1] = append(pairs[0], resource), append(pairs[1], namespace)
				}
			}
			continue
		}
		if err := f.inGroup(ctx, space, resources(g.Resources), slices.Sorted(maps.Keys(g.Namespaces))); err != nil {
			return err
		}
	}
	if err := f.inRanges(ctx, space, column{`resource`, pairs[0]}, column{`namespace`, pairs[1]}); err != nil {
		return err
	}
	return f.named(ctx, space)
}

const seenColumns = `g.id, g.resource, g.namespace, g.kind, g.objects, g.omitted`

// inRanges finds the ranges of resources, or of pairs of a resource and a namespace.
func (f *finder) inRanges(ctx context.Context, space tenant.Name, columns ...column) error {
	if length(columns[0].values) == 0 {
		return nil
	}
	on := ` ON g.space = ? AND g.resource = l.resource`
	if len(columns) == 2 {
		on += ` AND g.namespace = l.namespace`
	}
	list, args := f.list(`l`, columns...)
	return f.add(ctx, space, list+f.join()+`ranges g`+f.by(`ranges_place`)+on, append(args, string(space)))
}

func (f *finder) inGroup(ctx context.Context, space tenant.Name, resources, namespaces []string) error {
	if len(resources) == 0 || len(namespaces) == 0 {
		return nil
	}
	list, args := f.list(`l`, column{`resource`, resources})
	in, more := f.list(`n`, column{`namespace`, namespaces})
	return f.add(ctx, space, list+` CROSS JOIN `+in+f.join()+`ranges g`+f.by(`ranges_place`)+` ON g.space = ? AND g.resource = l.resource AND g.namespace = n.namespace`,
		append(append(args, more...), string(space)))
}

// add adds ranges. Of shared ones it adds the objects that the space has none of its own in the place of.
func (f *finder) add(ctx context.Context, space tenant.Name, from string, args []any) error {
	if space == Shared {
		return f.addObjects(ctx, space, from+f.join()+`objects o`+f.by(`objects_scan`)+` ON o.home = g.id`, args)
	}
	return queryEach(ctx, f.tx, f.bind(`SELECT `+seenColumns+` FROM `+from), args, func(rows *sql.Rows) error {
		s := seen{rangeKey: rangeKey{space: space}}
		err := rows.Scan(&s.id, &s.resource, &s.namespace, &s.kind, &s.size, &s.omitted)
		f.found = append(f.found, s)
		return err
	})
}

// named finds single objects by their names.
func (f *finder) named(ctx context.Context, space tenant.Name) error {
	var anywhere [2][]string
	for resource, names := range f.s.Visible.Named {
		for name := range names {
			anywhere[0], anywhere[1] = append(anywhere[0], resource.String()), append(anywhere[1], storedName(name))
		}
	}
	if len(anywhere[0]) > 0 {
		list, args := f.list(`l`, column{`resource`, anywhere[0]}, column{`name`, anywhere[1]})
		if err := f.addObjects(ctx, space, list+f.join()+`objects o`+f.by(`objects_name`)+
			` ON o.area = (SELECT a.area FROM ranges a WHERE a.space = ? AND a.resource = l.resource LIMIT 1) AND o.name = l.name`+f.join()+`ranges g ON g.id = o.home`,
			append(args, string(space))); err != nil {
			return err
		}
	}
	var inOne [3][]string
	for in, names := range f.s.Visible.NamedIn {
		for name := range names {
			inOne[0], inOne[1], inOne[2] = append(inOne[0], in.Resource.String()), append(inOne[1], in.Namespace), append(inOne[2], storedName(name))
		}
	}
	if len(inOne[0]) == 0 {
		return nil
	}
	list, args := f.list(`l`, column{`resource`, inOne[0]}, column{`namespace`, inOne[1]}, column{`name`, inOne[2]})
	return f.addObjects(ctx, space, list+f.join()+`ranges g`+f.by(`ranges_place`)+` ON g.space = ? AND g.resource = l.resource AND g.namespace = l.namespace`+
		f.join()+`objects o`+f.by(`objects_scan`)+` ON o.home = g.id AND o.name = l.name`, append(args, string(space)))
}

// addObjects adds single objects. Shared ones are left out where the space has one of its own.
func (f *finder) addObjects(ctx context.Context, space tenant.Name, from string, args []any) error {
	where := ``
	if space == Shared {
		where = ` WHERE NOT EXISTS (SELECT 1 FROM ranges own` + f.join() + `objects mine ON mine.home = own.id AND mine.name = o.name` +
			` WHERE own.space = ? AND own.resource = g.resource AND own.namespace = g.namespace)`
		args = append(args, string(f.s.Space))
	}
	return queryEach(ctx, f.tx, f.bind(`SELECT `+seenColumns+`, o.id FROM `+from+where), args, func(rows *sql.Rows) error {
		s := seen{rangeKey: rangeKey{space: space}}
		err := rows.Scan(&s.id, &s.resource, &s.namespace, &s.kind, &s.size, &s.omitted, &s.object)
		f.found = append(f.found, s)
		return err
	})
}

// addTo adds what was found to what may be seen of earlier spaces, in order, each once. It is an error if the index has
// not all of that.
func (f *finder) addTo(v *visible) error {
	whole := map[int64]bool{}
	kept := f.found[:0]
	for _, s := range f.found {
		if f.excludes(s.rangeKey) {
			continue
		}
		if s.object == 0 && s.omitted > 0 {
			return ErrOmitted
		}
		whole[s.id] = whole[s.id] || s.object == 0
		kept = append(kept, s)
	}
	kept = slices.DeleteFunc(kept, func(s seen) bool { return s.object != 0 && whole[s.id] })
	slices.SortFunc(kept, func(a, b seen) int {
		return cmp.Or(cmp.Compare(a.resource, b.resource), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.id, b.id), cmp.Compare(a.object, b.object))
	})
	kept = slices.CompactFunc(kept, func(a, b seen) bool { return a.id == b.id && a.object == b.object })
	begin := len(v.keys)
	for _, s := range kept {
		if last := len(v.keys) - 1; last < begin || v.keys[last].resource != s.resource || v.keys[last].namespace != s.namespace {
			v.keys = append(v.keys, rangeKey{space: f.s.Space, resource: s.resource, namespace: s.namespace})
		}
		at := int64(len(v.keys) - 1)
		if s.object == 0 {
			v.ranges, v.rangeAt, v.sizes = append(v.ranges, s.id), append(v.rangeAt, at), append(v.sizes, s.size)
		} else {
			v.objects, v.objectAt = append(v.objects, s.object), append(v.objectAt, at)
		}
	}
	return nil
}

// excludes reports whether nothing in a range may be seen, or match.
func (f *finder) excludes(p rangeKey) bool {
	return f.s.Visible.Denied.Has(p.namespace) && p.namespace != "" || !f.matches(p)
}

// matches reports whether a range is as the filters of places say.
func (f *finder) matches(p rangeKey) bool {
	return !slices.ContainsFunc(f.query.Filters, func(filter query.Filter) bool {
		value, about := rangeValue[filter.Property]
		return about && !filter.Matches(value(f.s.Space, p))
	})
}

// propertySpace is the property that is the space.
const propertySpace = "space"

// rangeValue are the properties that all objects of a range have in common.
var rangeValue = map[string]func(space tenant.Name, p rangeKey) string{
	propertySpace: func(space tenant.Name, _ rangeKey) string { return string(space) },
	"kind":        func(_ tenant.Name, p rangeKey) string { return p.kind },
	"apigroup":    func(_ tenant.Name, p rangeKey) string { return schema.ParseGroupResource(p.resource).Group },
	"resource":    func(_ tenant.Name, p rangeKey) string { return schema.ParseGroupResource(p.resource).Resource },
	"namespace":   func(_ tenant.Name, p rangeKey) string { return p.namespace },
}

// count returns how many objects are visible.
func (v *visible) count() int64 {
	n := int64(len(v.objects))
	for _, size := range v.sizes {
		n += size
	}
	return n
}

// single returns the single objects alone.
func (v *visible) single() *visible {
	return &visible{keys: v.keys, objects: v.objects, objectAt: v.objectAt}
}

// few is how many objects a range has at most of which each is looked at sooner than what they have in common.
const few = 20

// divide returns the ranges of more than a few objects, and everything else.
func (v *visible) divide() (many []int64, rest *visible) {
	rest = v.single()
	for i, id := range v.ranges {
		if v.sizes[i] > few {
			many = append(many, id)
		} else {
			rest.ranges, rest.rangeAt, rest.sizes = append(rest.ranges, id), append(rest.rangeAt, v.rangeAt[i]), append(rest.sizes, v.sizes[i])
		}
	}
	return many, rest
}

// part returns what is at some places.
func (v *visible) part(wanted func(p *rangeKey) bool) *visible {
	part := &visible{keys: v.keys}
	for i, id := range v.ranges {
		if wanted(&v.keys[v.rangeAt[i]]) {
			part.ranges, part.rangeAt, part.sizes = append(part.ranges, id), append(part.rangeAt, v.rangeAt[i]), append(part.sizes, v.sizes[i])
		}
	}
	for i, id := range v.objects {
		if wanted(&v.keys[v.objectAt[i]]) {
			part.objects, part.objectAt = append(part.objects, id), append(part.objectAt, v.objectAt[i])
		}
	}
	return part
}

// between returns what is at positions from one to before another.
func (v *visible) between(from, to int64) *visible {
	part := func(at []int64) (int, int) {
		first, _ := slices.BinarySearch(at, from)
		last, _ := slices.BinarySearch(at, to)
		return first, last
	}
	r0, r1 := part(v.rangeAt)
	o0, o1 := part(v.objectAt)
	return &visible{keys: v.keys, ranges: v.ranges[r0:r1], rangeAt: v.rangeAt[r0:r1], sizes: v.sizes[r0:r1], objects: v.objects[o0:o1], objectAt: v.objectAt[o0:o1]}
}

// until returns the position before which there are as many objects as a budget says, from a position on.
func (v *visible) until(from, budget int64) int64 {
	sizes := make(map[int64]int64)
	for i, at := range v.rangeAt {
		sizes[at] += v.sizes[i]
	}
	for _, at := range v.objectAt {
		sizes[at]++
	}
	to := from
	for n := int64(0); to < int64(len(v.keys)) && n < budget; to++ {
		n += sizes[to]
	}
	return to
}

func resources(set sets.Set[schema.GroupResource]) []string {
	names := make([]string, 0, len(set))
	for resource := range set {
		names = append(names, resource.String())
	}
	slices.Sort(names)
	return names
}
