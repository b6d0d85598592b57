package index

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tenantry/tenantry/internal/search/query"
	"github.com/tenantry/tenantry/internal/search/rights"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Selection is what is asked of the objects of one space.
type Selection struct {
	Space tenant.Name
	// Shared is whether the space also has what every tenant's space has without storing it.
	Shared bool
	// Visible is what may be seen.
	Visible *rights.Set
	Query   query.Query
	// Limit is how many rows are returned at most, and After the place behind which they begin.
	Limit int
	After *After
}

// After is a place in the order of rows: by resource, namespace and name.
type After struct {
	Resource, Namespace, Name string
}

// Found is what a selection has found.
type Found struct {
	// Revision is the one that the index has everything up to.
	Revision int64
	// Count is how many rows there are in all, on whatever page.
	Count int64
	Rows  []Row
	// More is whether there are rows behind the last one.
	More bool
}

// Select returns the rows of a selection, of one state of the index.
func (x *Index) Select(ctx context.Context, s Selection) (Found, error) {
	var found Found
	return found, x.view(ctx, func(tx *sql.Tx, p Progress) error {
		found.Revision = p.Revision
		return x.selectFrom(ctx, tx, s, &found)
	})
}

func (x *Index) selectFrom(ctx context.Context, tx *sql.Tx, s Selection, found *Found) error {
	if _, possible := x.conditions(s, nil); !possible {
		return nil
	}
	v, err := x.find(ctx, tx, s)
	if err != nil {
		return err
	}
	q := &selection{Index: x, tx: tx, s: s}
	if err := q.choose(ctx, v); err != nil {
		return err
	}
	if found.Count, err = q.count(ctx, v); err != nil || found.Count == 0 {
		return err
	}
	if found.Rows, err = q.page(ctx, v, s.Limit+1); err != nil {
		return err
	}
	found.More = len(found.Rows) > s.Limit || q.full
	found.Rows = found.Rows[:min(len(found.Rows), s.Limit)]
	return nil
}

// selection is a selection that is being answered.
type selection struct {
	*Index
	tx *sql.Tx
	s  Selection
	// found is the filter by which objects in ranges are found, nil if all are looked at, and finds how many it finds, -1 if
	// that is not known.
	found *query.Filter
	finds int64
	// in is what is demanded of objects that were found so, and of are those of single objects.
	in, of *condition
	// size is how many bytes the rows of the page show, and full whether there are more for which it has no room.
	size int
	full bool
}

// pageBytes is how much a page has at most, in bytes of what its rows show, and one row more.
const pageBytes = 8 << 20

// errFull ends the reading of a page.
var errFull = errors.New("the page is full")

const (
	// small is how many objects are looked at without asking for a shorter way.
	small = 2000
	// enough is how many a filter may find for it to be the shortest way.
	enough = 500
)

// choose chooses how objects are found: by the filter that finds the fewest of what is visible, if there is one.
func (q *selection) choose(ctx context.Context, v *visible) error {
	q.finds = -1
	if v.count() > small {
		limit := v.count() + 1
		for i := range q.s.Query.Filters {
			f := &q.s.Query.Filters[i]
			if !slices.Contains(others, f.Property) || len(f.Any) != 1 || len(f.None) > 0 || f.Any[0].Parts != nil {
				continue
			}
			count, err := q.countBy(ctx, v, f, limit)
			if err != nil {
				return err
			}
			if q.found == nil || count < q.finds {
				q.found, q.finds, limit = f, count, count // no other one needs to find more
			}
			if count <= enough {
				break
			}
		}
	}
	q.in, _ = q.conditions(q.s, q.found)
	q.of, _ = q.conditions(q.s, nil)
	return nil
}

// countBy returns how many objects in ranges a filter by one value finds, limit if there are more.
func (q *selection) countBy(ctx context.Context, v *visible, f *query.Filter, limit int64) (count int64, err error) {
	list, args := q.list(`r`, column{`id`, v.ranges})
	text := `SELECT count(*) FROM (SELECT 1 FROM ` + list + q.join() + `properties d` + q.by(`properties_value`) +
		` ON d.home = r.id AND d.name = ? AND d.value = ? LIMIT ?) few`
	err = q.tx.QueryRowContext(ctx, q.bind(text), append(args, f.Property, short(f.Any[0].Text), limit)...).Scan(&count)
	return count, err
}

// ordered are the columns of a list of ids. Their positions are needed for pages alone.
func ordered(ids, positions []int64, order bool) []column {
	if !order {
		return []column{{`id`, ids}}
	}
	return []column{{`id`, ids}, {`pos`, positions}}
}

// inRanges returns the part of a statement behind columns that finds objects o in ranges r.
func (q *selection) inRanges(v *visible, order bool) (string, []any) {
	list, args := q.list(`r`, ordered(v.ranges, v.rangeAt, order)...)
	if q.found == nil {
		return ` FROM ` + list + q.join() + `objects o` + q.by(`objects_scan`) + ` ON o.home = r.id WHERE true` + q.in.text.String(), append(args, q.in.args...)
	}
	args = append(args, q.found.Property, short(q.found.Any[0].Text))
	return ` FROM ` + list + q.join() + `properties d` + q.by(`properties_value`) + ` ON d.home = r.id AND d.name = ? AND d.value = ?` +
		q.join() + `objects o ON o.id = d.object WHERE true` + q.in.text.String(), append(args, q.in.args...)
}

// single is inRanges for single objects.
func (q *selection) single(v *visible, order bool) (string, []any) {
	list, args := q.list(`r`, ordered(v.objects, v.objectAt, order)...)
	return ` FROM ` + list + q.join() + `objects o ON o.id = r.id WHERE true` + q.of.text.String(), append(args, q.of.args...)
}

// count returns how many objects match.
func (q *selection) count(ctx context.Context, v *visible) (int64, error) {
	if q.of.text.Len() == 0 {
		return v.count(), nil
	}
	total := int64(0)
	if q.found != nil && q.in.text.Len() == 0 { // it is known already
		total, v = q.finds, &visible{objects: v.objects, objectAt: v.objectAt}
	}
	for _, part := range q.parts(v, false) {
		var count int64
		if err := q.tx.QueryRowContext(ctx, q.bind(`SELECT count(*)`+part.text), part.args...).Scan(&count); err != nil {
			return 0, err
		}
		total += count
	}
	return total, nil
}

// part is a part of a statement with its parameters.
type part struct {
	text string
	args []any
}

// parts returns the ways to what is visible, none if nothing is.
func (q *selection) parts(v *visible, order bool) []part {
	var parts []part
	if len(v.ranges) > 0 {
		text, args := q.inRanges(v, order)
		parts = append(parts, part{text, args})
	}
	if len(v.objects) > 0 {
		text, args := q.single(v, order)
		parts = append(parts, part{text, args})
	}
	return parts
}

// page returns rows behind a place, in order. It looks at a part of what is visible, and at ever more of it while rows are missing.
func (q *selection) page(ctx context.Context, v *visible, limit int) ([]Row, error) {
	var rows []Row
	from, name := q.begin(v)
	for budget := int64(4 * limit); from < int64(len(v.places)) && len(rows) < limit; budget *= 8 {
		to := v.until(from, budget)
		more, err := q.rows(ctx, v.between(from, to), from, name, limit-len(rows))
		if err != nil && !q.full {
			return nil, err
		}
		if rows, from, name = append(rows, more...), to, nil; q.full {
			break
		}
	}
	return rows, nil
}

// begin returns the position at which a page begins, and the name behind which it does there.
func (q *selection) begin(v *visible) (int64, *string) {
	if q.s.After == nil {
		return 0, nil
	}
	after := place{resource: q.s.After.Resource, namespace: q.s.After.Namespace}
	at, here := slices.BinarySearchFunc(v.places, after, func(a, b place) int {
		return strings.Compare(a.resource+"\x00"+a.namespace, b.resource+"\x00"+b.namespace)
	})
	if !here {
		return int64(at), nil
	}
	name := storedName(q.s.After.Name)
	return int64(at), &name
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
	for n := int64(0); to < int64(len(v.places)) && n < budget; to++ {
		n += sizes[to]
	}
	return to
}

// rows returns the first rows of what is visible, at the position from behind a name.
func (q *selection) rows(ctx context.Context, v *visible, from int64, name *string, limit int) ([]Row, error) {
	parts := q.parts(v, true)
	if len(parts) == 0 {
		return nil, nil
	}
	texts, args := make([]string, 0, len(parts)), []any(nil)
	for _, each := range parts {
		text := `SELECT r.pos AS pos, o.id AS id, o.name AS name, o.created AS created, o.home AS home` + each.text
		args = append(args, each.args...)
		if name != nil {
			text += ` AND (r.pos > ? OR o.name > ?)`
			args = append(args, from, *name)
		}
		texts = append(texts, text)
	}
	text := `SELECT f.pos, g.kind, f.name, f.created, b.details FROM (SELECT * FROM (` + strings.Join(texts, ` UNION ALL `) + `) u ORDER BY pos, name LIMIT ?) f` +
		q.join() + `bodies b ON b.id = f.id` + q.join() + `ranges g ON g.id = f.home ORDER BY f.pos, f.name`
	var found []Row
	err := queryEach(ctx, q.tx, q.bind(text), append(args, limit), func(rows *sql.Rows) error {
		if q.size > pageBytes {
			q.full = true
			return errFull
		}
		row := Row{Space: q.s.Space}
		var at int64
		var details string
		if err := rows.Scan(&at, &row.Kind, &row.Name, &row.Created, &details); err != nil {
			return err
		}
		q.size += len(details)
		row.Resource, row.Namespace = schema.ParseGroupResource(v.places[at].resource), v.places[at].namespace
		found = append(found, row)
		return found[len(found)-1].restore(details)
	})
	return found, err
}

func resources(set sets.Set[schema.GroupResource]) []string {
	names := make([]string, 0, len(set))
	for resource := range set {
		names = append(names, resource.String())
	}
	slices.Sort(names)
	return names
}

// body is what is stored of a row beside its columns.
type body struct {
	Details
	// Name is the name, if it is stored in another form.
	Name []byte `json:"name,omitempty"`
}

func (r *Row) restore(details string) error {
	var b body
	if err := json.Unmarshal([]byte(details), &b); err != nil {
		return err
	}
	r.Details = b.Details
	if b.Name != nil {
		r.Name = string(b.Name)
	}
	return nil
}
