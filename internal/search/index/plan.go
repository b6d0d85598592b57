package index

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tenantry/tenantry/internal/search/query"
	"github.com/tenantry/tenantry/internal/tenant"
)

// way is what is demanded of the objects of some spaces: a keyword in the name of a space is in all of its objects.
type way struct {
	spaces sets.Set[tenant.Name]
	// in is what is demanded of objects that were found by a filter, and of are those of single objects.
	in, of *condition
}

const (
	// small is how many objects are looked at without asking for a shorter way.
	small = 2000
	// enough is how many a filter may find for it to be the shortest way, and more by how many times more is tried if
	// all find more.
	enough, more = 500, 8
)

// choose chooses how objects are found: by the filter that finds the fewest of what is visible, if there is one.
func (q *selection) choose(ctx context.Context, v *visible) error {
	q.finds = -1
	var finding []*query.Filter
	for i := range q.s.Query.Filters {
		if f := &q.s.Query.Filters[i]; isFinding(f) {
			finding = append(finding, f)
		}
	}
	all := v.count() + 1
	if all > small+1 && len(finding) > 0 {
		if err := q.fewest(ctx, v, finding, all); err != nil {
			return err
		}
	}
	q.ways = q.waysOf(q.s.scopes())
	return nil
}

// fewest takes the filter that finds the fewest. They are counted by turns and ever further, so that none is counted
// much further than the one that is taken finds.
func (q *selection) fewest(ctx context.Context, v *visible, filters []*query.Filter, all int64) error {
	if len(filters) == 1 { // however many it finds
		q.found = filters[0]
		return nil
	}
	for limit := int64(enough); q.found == nil && limit < all*more; limit *= more {
		least := min(limit, all)
		for _, f := range filters {
			count, err := q.countBy(ctx, v, f, least)
			if err != nil {
				return err
			}
			if count < least {
				q.found, q.finds, least = f, count, count // no other one needs to find more
			}
		}
	}
	return nil
}

// waysOf returns the ways of spaces: one, unless the names of some have keywords.
func (q *selection) waysOf(scopes []Scope) []way {
	var ways []way
	at := map[string]int{}
	for i := range scopes {
		space := scopes[i].Space
		keywords := slices.DeleteFunc(slices.Clone(q.s.Query.Keywords), func(keyword string) bool { return strings.Contains(query.Fold(string(space)), keyword) })
		key := strings.Join(keywords, "\n") // which is in no keyword
		if _, known := at[key]; !known {
			at[key] = len(ways)
			demanded := query.Query{Filters: q.s.Query.Filters, Keywords: keywords}
			table := inObjects
			switch {
			case q.found != nil:
				table = inProperties
			case len(keywords) > 0:
				table = inTexts
			}
			ways = append(ways, way{spaces: sets.New[tenant.Name](), in: q.conditions(demanded, table, q.found), of: q.conditions(demanded, inObjects, nil)})
		}
		ways[at[key]].spaces.Insert(space)
	}
	return ways
}

// isFinding reports whether objects can be found by a filter: it has one value of a property that stands in the table
// of properties, or what such a value begins with.
func isFinding(f *query.Filter) bool {
	if rangeValue[f.Property] != nil || f.Property == name || f.Property == query.Created || len(f.Any) != 1 || len(f.None) > 0 {
		return false
	}
	v := &f.Any[0]
	return (v.Parts == nil || isBeginning(v)) && v.Ordered == "" && v.Since == ""
}

// isBeginning reports whether a value says what others begin with, and nothing else. Values that are too long for an
// index must have all of it there.
func isBeginning(v *query.Value) bool {
	return len(v.Parts) == 2 && v.Parts[0] != "" && v.Parts[1] == "" && len(v.Parts[0]) <= shortened && behind(v.Parts[0]) != ""
}

// behind returns the least text that is greater than all that begin with another one, empty if there is none.
func behind(beginning string) string {
	last, size := utf8.DecodeLastRuneInString(beginning)
	if last++; utf8.RuneLen(last) < 0 {
		return ""
	}
	return beginning[:len(beginning)-size] + string(last)
}

// countBy returns how many objects in ranges a filter by one value finds, limit if there are more. By a beginning, some
// may count several times.
func (q *selection) countBy(ctx context.Context, v *visible, f *query.Filter, limit int64) (count int64, err error) {
	list, args := q.list(`r`, column{`id`, v.ranges})
	on, found := finding(f)
	text := `SELECT count(*) FROM (SELECT 1 FROM ` + list + q.join() + `properties d` + q.by(`properties_value`) + ` ON d.home = r.id` + on + ` LIMIT ?) few`
	err = q.tx.QueryRowContext(ctx, q.bind(text), append(append(args, found...), limit)...).Scan(&count)
	return count, err
}

// isAll reports whether all objects in ranges match.
func (q *selection) isAll() bool { return q.found == nil && !q.demands() }

// demands reports whether more is demanded of objects in ranges than that they are found.
func (q *selection) demands() bool {
	return slices.ContainsFunc(q.ways, func(w way) bool { return w.in.text.Len() > 0 })
}

// lookedAt returns what is looked at by one way.
func (q *selection) lookedAt(v *visible, i int) *visible {
	if len(q.ways) == 1 {
		return v
	}
	return v.part(func(p *rangeKey) bool { return q.ways[i].spaces.Has(p.space) })
}
