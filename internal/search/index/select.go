package index

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tenantry/tenantry/internal/search/query"
	"github.com/tenantry/tenantry/internal/search/rights"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Selection is what is asked of the objects of one space, or of several.
type Selection struct {
	Space tenant.Name
	// Shared is whether the space also has what every tenant's space has without storing it.
	Shared bool
	// Visible is what may be seen.
	Visible *rights.Set
	// Others are more spaces. None is there twice.
	Others []Scope
	Query  query.Query
	// Order is what rows are ordered by before their place.
	Order query.Order
	// Limit is how many rows are returned at most, and After the place behind which they begin. Offset is how many are left out
	// then.
	Limit, Offset int
	After         *After
	// Bytes is how much a page has at most, in bytes of what its rows show, and one row more. MaxPage if it is zero.
	Bytes int
	// NoCount and NoRows say that nobody wants them.
	NoCount, NoRows bool
}

// scopes are all spaces of a selection, in the order of rows.
func (s *Selection) scopes() []Scope {
	all := append([]Scope{{Space: s.Space, Shared: s.Shared, Visible: s.Visible}}, s.Others...)
	slices.SortFunc(all, func(a, b Scope) int { return s.compare(place{space: a.Space}, place{space: b.Space}) })
	return all
}

// compare orders places as rows are.
func (s *Selection) compare(a, b place) int {
	spaces := strings.Compare(string(a.space), string(b.space))
	if s.Order.Property == propertySpace && s.Order.Descending {
		spaces = -spaces
	}
	return cmp.Or(spaces, strings.Compare(a.resource, b.resource), strings.Compare(a.namespace, b.namespace))
}

// After is a place in the order of rows: by what they are ordered by, space, resource, namespace and name.
type After struct {
	Key                       string      `json:",omitempty"`
	Space                     tenant.Name `json:",omitempty"`
	Resource, Namespace, Name string
}

// Found is what a selection has found.
type Found struct {
	// Revision is the one that the index has everything up to.
	Revision int64
	// Count is how many rows there are in all, on whatever page.
	Count int64
	Rows  []Row
	// Aside is how many objects that are visible, and may match or not, have nothing but their identity in the index.
	Aside int
	// More is whether there are rows behind the last one, and Full whether they would have been on a page that may have more bytes.
	More, Full bool
}

// Select returns the rows of a selection, of one state of the index.
func (x *Index) Select(ctx context.Context, s Selection) (Found, error) {
	var found Found
	return found, x.view(ctx, func(tx *sql.Tx, p Progress) error {
		found.Revision = p.Revision
		return x.selectFrom(ctx, tx, s, &found, &budget{left: MaxRead})
	})
}

func (x *Index) selectFrom(ctx context.Context, tx *sql.Tx, s Selection, found *Found, b *budget) error {
	if !isPossible(s.Query) {
		return nil
	}
	v, err := x.find(ctx, tx, s)
	if err != nil {
		return err
	}
	if found.Aside, err = x.setAside(ctx, tx, s, v); err != nil {
		return err
	}
	q := &selection{Index: x, tx: tx, s: s, budget: b}
	if err := q.choose(ctx, v); err != nil {
		return err
	}
	if !s.NoRows {
		read := q.page
		if s.Order != (query.Order{}) || s.Offset > 0 {
			read = q.sorted
		}
		if found.Rows, err = read(ctx, v, s.Limit+1); err != nil {
			return err
		}
		if found.More = len(found.Rows) > s.Limit || q.full; len(found.Rows) > s.Limit {
			found.Rows = found.Rows[:s.Limit]
		}
	}
	switch {
	case s.NoCount:
	case !s.NoRows && s.After == nil && s.Offset == 0 && !found.More: // the page has all: what matches little is looked for once
		found.Count = int64(len(found.Rows))
	default:
		if found.Count, err = q.count(ctx, v); err != nil {
			return err
		}
	}
	found.Full = q.full
	return nil
}

// selection is a selection that is being answered.
type selection struct {
	*Index
	tx *sql.Tx
	s  Selection
	// found is the filter by which objects in ranges are found, nil if all are looked at, and finds how many it finds, -1 if
	// nobody has asked.
	found *query.Filter
	finds int64
	// ways are how what is visible is looked at.
	ways []way
	// size is how many bytes its rows show, and full whether they show as much as a page may.
	size int
	full bool
	// budget is that of the answer.
	budget *budget
}

// way is what is demanded of the objects of some spaces: a keyword in the name of a space is in all of its objects.
type way struct {
	spaces sets.Set[tenant.Name]
	// in is what is demanded of objects that were found by a filter, and of are those of single objects.
	in, of *condition
}

const (
	// MaxPage is how much a page has at most, in bytes of what its rows show, and one row more.
	MaxPage = 8 << 20
	// MaxRead is how many bytes are read for one answer at most: of rows, related ones among them, of values and of names.
	MaxRead = 16 << 20
	// rowBytes is what a row shows beside its texts, about.
	rowBytes = 128
)

var errFull = errors.New("the page is full")

// ErrTooMuch means that more would have to be read for one answer than may be.
var ErrTooMuch = fmt.Errorf("more than %d MiB would have to be read", MaxRead>>20)

// budget is how many bytes may still be read for an answer.
type budget struct{ left int }

func (b *budget) take(bytes int) error {
	if b.left -= bytes; b.left < 0 {
		return ErrTooMuch
	}
	return nil
}

const (
	// small is how many objects are looked at without asking for a shorter way.
	small = 2000
	// enough is how many a filter may find for it to be the shortest way, and more by how many times more is tried if all find more.
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

// fewest takes the filter that finds the fewest. They are counted by turns and ever further, so that none is counted much further than the one that
// is taken finds.
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

// isFinding reports whether objects can be found by a filter: it has one value of a property that stands in the table of
// properties, or what such a value begins with.
func isFinding(f *query.Filter) bool {
	if placeValue[f.Property] != nil || f.Property == name || f.Property == query.Created || len(f.Any) != 1 || len(f.None) > 0 {
		return false
	}
	v := &f.Any[0]
	return (v.Parts == nil || isBeginning(v)) && v.Ordered == "" && v.Since == ""
}

// isBeginning reports whether a value says what others begin with, and nothing else. Values that are too long for an index must have all of it there.
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

// finding returns the condition of properties d by which a filter finds objects.
func finding(f *query.Filter) (string, []any) {
	v := &f.Any[0]
	if v.Parts == nil {
		return ` AND d.name = ? AND d.value = ?`, []any{f.Property, short(v.Text)}
	}
	return ` AND d.name = ? AND d.value >= ? AND d.value < ?`, []any{f.Property, v.Parts[0], behind(v.Parts[0])}
}

// countBy returns how many objects in ranges a filter by one value finds, limit if there are more. By a beginning, some may count several times.
func (q *selection) countBy(ctx context.Context, v *visible, f *query.Filter, limit int64) (count int64, err error) {
	list, args := q.list(`r`, column{`id`, v.ranges})
	on, found := finding(f)
	text := `SELECT count(*) FROM (SELECT 1 FROM ` + list + q.join() + `properties d` + q.by(`properties_value`) + ` ON d.home = r.id` + on + ` LIMIT ?) few`
	err = q.tx.QueryRowContext(ctx, q.bind(text), append(append(args, found...), limit)...).Scan(&count)
	return count, err
}

// ordered are the columns of a list of ids. Their positions are needed for pages alone.
func ordered(ids, positions []int64, order bool) []column {
	if !order {
		return []column{{`id`, ids}}
	}
	return []column{{`id`, ids}, {`pos`, positions}}
}

// inRanges returns the part of a statement behind columns that finds objects in ranges r. If it is bare, there is no more of them than where
// they are looked at, and objects o otherwise.
func (q *selection) inRanges(v *visible, in *condition, order, bare bool) (string, []any) {
	list, args := q.list(`r`, ordered(v.ranges, v.rangeAt, order)...)
	from, objects := ` FROM `+list+q.join(), ``
	if in.at != inObjects && (!bare || in.names) {
		objects = q.join() + `objects o ON o.id = ` + in.at.id()
	}
	switch in.at {
	case inProperties:
		on, found := finding(q.found)
		from += `properties d` + q.by(`properties_value`) + ` ON d.home = r.id` + on
		args = append(args, found...)
	case inTexts:
		from += `texts t ON t.home = r.id`
	default:
		from += `objects o` + q.by(`objects_scan`) + ` ON o.home = r.id`
	}
	return from + objects + ` WHERE true` + in.text.String(), append(args, in.args...)
}

// single is inRanges for single objects.
func (q *selection) single(v *visible, of *condition, order bool) (string, []any) {
	list, args := q.list(`r`, ordered(v.objects, v.objectAt, order)...)
	return ` FROM ` + list + q.join() + `objects o ON o.id = r.id WHERE true` + of.text.String(), append(args, of.args...)
}

// count returns how many objects match.
func (q *selection) count(ctx context.Context, v *visible) (int64, error) {
	total, parts := int64(0), []part(nil)
	if q.found != nil && !q.demands() {
		if q.finds < 0 {
			var err error
			if q.finds, err = q.countBy(ctx, v, q.found, v.count()); err != nil {
				return 0, err
			}
		}
		total, v = q.finds, v.single()
	}
	for i := range q.ways {
		if q.ways[i].of.text.Len() == 0 {
			total += q.lookedAt(v, i).count()
		} else {
			parts = append(parts, q.partsBy(v, i, false, true)...)
		}
	}
	for _, part := range parts {
		var count int64
		if err := q.tx.QueryRowContext(ctx, q.bind(`SELECT count(*)`+part.text), part.args...).Scan(&count); err != nil {
			return 0, err
		}
		total += count
	}
	return total, nil
}

// isAll reports whether all objects in ranges match.
func (q *selection) isAll() bool { return q.found == nil && !q.demands() }

// demands reports whether more is demanded of objects in ranges than that they are found.
func (q *selection) demands() bool {
	return slices.ContainsFunc(q.ways, func(w way) bool { return w.in.text.Len() > 0 })
}

// part is a part of a statement with its parameters. at is where its objects are looked at.
type part struct {
	text string
	args []any
	at   lookedAt
}

// parts returns the ways to what is visible, none if nothing is. See inRanges for those that are bare.
func (q *selection) parts(v *visible, order, bare bool) []part {
	var parts []part
	for i := range q.ways {
		parts = append(parts, q.partsBy(v, i, order, bare)...)
	}
	return parts
}

// partsBy returns those by one way.
func (q *selection) partsBy(v *visible, i int, order, bare bool) []part {
	var parts []part
	w := &q.ways[i]
	v = q.lookedAt(v, i)
	if len(v.ranges) > 0 {
		text, args := q.inRanges(v, w.in, order, bare)
		parts = append(parts, part{text, args, w.in.at})
	}
	if len(v.objects) > 0 {
		text, args := q.single(v, w.of, order)
		parts = append(parts, part{text, args, inObjects})
	}
	return parts
}

// lookedAt returns what is looked at by one way.
func (q *selection) lookedAt(v *visible, i int) *visible {
	if len(q.ways) == 1 {
		return v
	}
	return v.part(func(p *place) bool { return q.ways[i].spaces.Has(p.space) })
}

// page returns rows behind a place, in order. It looks at a part of what is visible, and at ever more of it while rows are missing.
func (q *selection) page(ctx context.Context, v *visible, limit int) ([]Row, error) {
	var rows []Row
	from, name := q.begin(v)
	for budget := int64(4 * limit); from < int64(len(v.places)) && len(rows) < limit && !q.full; budget *= 8 {
		to := v.until(from, budget)
		more, err := q.rows(ctx, v.between(from, to), from, name, limit-len(rows))
		if err != nil {
			return nil, err
		}
		rows, from, name = append(rows, more...), to, nil
	}
	return rows, nil
}

// begin returns the position at which a page begins, and the name behind which it does there.
func (q *selection) begin(v *visible) (int64, *string) {
	if q.s.After == nil {
		return 0, nil
	}
	after := place{space: cmp.Or(q.s.After.Space, q.s.Space), resource: q.s.After.Resource, namespace: q.s.After.Namespace}
	at, here := slices.BinarySearchFunc(v.places, after, q.s.compare)
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
	parts := q.parts(v, true, false)
	if len(parts) == 0 {
		return nil, nil
	}
	texts, args := make([]string, 0, len(parts)), []any(nil)
	for _, each := range parts {
		text := `SELECT '' AS k, r.pos AS pos, o.id AS id, o.name AS name, o.created AS created, o.home AS home` + each.text
		args = append(args, each.args...)
		if name != nil {
			text += ` AND (r.pos > ? OR o.name > ?)`
			args = append(args, from, *name)
		}
		texts = append(texts, text)
	}
	text := `SELECT f.k, f.pos, g.kind, f.name, f.created, b.details FROM (SELECT * FROM (` + strings.Join(texts, ` UNION ALL `) + `) u ORDER BY pos, name LIMIT ?) f` +
		q.join() + `bodies b ON b.id = f.id` + q.join() + `ranges g ON g.id = f.home ORDER BY f.pos, f.name`
	return q.scan(ctx, v, text, append(args, limit))
}

// scan returns the rows of a statement.
func (q *selection) scan(ctx context.Context, v *visible, text string, args []any) ([]Row, error) {
	var found []Row
	err := queryEach(ctx, q.tx, q.bind(text), args, func(rows *sql.Rows) error {
		if q.size > cmp.Or(q.s.Bytes, MaxPage) {
			q.full = true
			return errFull
		}
		row, size, err := q.row(v, rows)
		if err != nil {
			return err
		}
		q.size += size
		found = append(found, *row)
		return q.budget.take(size)
	})
	if errors.Is(err, errFull) {
		err = nil
	}
	return found, err
}

// row reads one row of a statement, and returns how many bytes it shows.
func (q *selection) row(v *visible, rows *sql.Rows) (*Row, int, error) {
	row := &Row{}
	var at int64
	var details string
	if err := rows.Scan(&row.Key, &at, &row.Kind, &row.Name, &row.Created, &details); err != nil {
		return nil, 0, err
	}
	of := &v.places[at]
	row.Space, row.Resource, row.Namespace = of.space, schema.ParseGroupResource(of.resource), of.namespace
	size := rowBytes + len(details) + len(row.Key) + len(row.Kind) + len(row.Name) + len(row.Space) + len(of.resource) + len(of.namespace)
	return row, size, row.restore(details)
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
