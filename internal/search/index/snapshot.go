package index

import (
	"cmp"
	"context"
	"database/sql"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/tenantry/tenantry/internal/search/query"
	"github.com/tenantry/tenantry/internal/search/rights"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Scope says which objects there are for somebody who asks.
type Scope struct {
	Space tenant.Name
	// Shared is whether the space also has what every tenant's space has without storing it.
	Shared bool
	// Visible is what may be seen.
	Visible *rights.Set
}

// Snapshot is one state of the index. It is used by one goroutine.
type Snapshot struct {
	*Index
	tx *sql.Tx
	Progress
	// Aside is how many objects have nothing but their name in the index, of what was visible to a question, at most.
	Aside int
	// budget is for all that is read of it.
	budget *budget
}

// View has something read of one state of the index: MaxRead bytes at most.
func (x *Index) View(ctx context.Context, read func(s *Snapshot) error) error {
	return x.view(ctx, func(tx *sql.Tx, p Progress) error {
		return read(&Snapshot{Index: x, tx: tx, Progress: p, budget: &budget{left: MaxRead}})
	})
}

// Select returns the rows of a selection.
func (s *Snapshot) Select(ctx context.Context, selected Selection) (Found, error) {
	found := Found{Revision: s.Revision}
	if err := s.selectFrom(ctx, s.tx, selected, &found, s.budget); err != nil {
		return found, s.failed("reading the search index", err)
	}
	s.Aside = max(s.Aside, found.Aside)
	return found, nil
}

// chosen returns how what matches is found among what is visible. It is not possible if nothing can match.
func (s *Snapshot) chosen(ctx context.Context, scopes []Scope, q query.Query) (*selection, *visible, bool, error) {
	selected := Selection{Scopes: scopes, Query: q}
	if !isPossible(q) {
		return nil, nil, false, nil
	}
	v, err := s.find(ctx, s.tx, selected)
	if err != nil {
		return nil, nil, false, err
	}
	aside, err := s.setAside(ctx, s.tx, selected, v)
	if err != nil {
		return nil, nil, false, err
	}
	s.Aside = max(s.Aside, aside)
	chosen := &selection{Index: s.Index, tx: s.tx, s: selected, budget: s.budget}
	return chosen, v, true, chosen.choose(ctx, v)
}

// Values returns the values that a property has among the objects that match, each once, in the order of their bytes
// or, of times, in that of time. Of more than limit, it returns the first ones; values too long for an index come
// before others with the same beginning then.
func (s *Snapshot) Values(ctx context.Context, scopes []Scope, q query.Query, property string, limit int) ([]string, error) {
	values, err := s.values(ctx, scopes, q, property, limit)
	if err != nil {
		return nil, s.failed("reading values from the search index", err)
	}
	return values[:min(len(values), limit)], nil
}

func (s *Snapshot) values(ctx context.Context, scopes []Scope, q query.Query, property string, limit int) ([]string, error) {
	chosen, v, possible, err := s.chosen(ctx, scopes, q)
	if err != nil || !possible || !isAskedFor(property) {
		return []string{}, err
	}
	if value, about := rangeValue[property]; about {
		return chosen.rangeValues(ctx, v, value)
	}
	var values []string
	if property == name || property == query.Created {
		values, err = chosen.columnValues(ctx, v, property, limit)
	} else {
		values, err = chosen.propertyValues(ctx, v, property, limit)
	}
	slices.Sort(values)
	return slices.Compact(append([]string{}, values...)), err
}

// columnValues returns the values of a property that is a column of objects.
func (q *selection) columnValues(ctx context.Context, v *visible, property string, limit int) ([]string, error) {
	column, some := `o.name`, ` >= ' '` // others stand for names that are no text
	if property == query.Created {
		column, some = `o.created`, ` <> 0`
	}
	var values []string
	err := q.each(ctx, q.parts(v, false, false), `SELECT DISTINCT `+column+` AS value`, func(lookedAt) string { return `` }, ` AND `+column+some+` ORDER BY value LIMIT ?`, []any{limit}, func(rows *sql.Rows) error {
		var value string
		err := rows.Scan(&value)
		if seconds, isTime := strconv.ParseInt(value, 10, 64); property == query.Created && isTime == nil {
			value = time.Unix(seconds, 0).UTC().Format(time.RFC3339)
		}
		if err != nil {
			return err
		}
		values = append(values, value)
		return q.budget.take(len(value))
	})
	return values, err
}

// propertyValues returns the values of a property of the table of properties.
func (q *selection) propertyValues(ctx context.Context, v *visible, property string, limit int) ([]string, error) {
	var values []string
	read := func(rows *sql.Rows) error {
		var value, whole string
		err := rows.Scan(&value, &whole)
		if err != nil {
			return err
		}
		values = append(values, cmp.Or(whole, value))
		return q.budget.take(len(value) + len(whole))
	}
	if q.isAll() {
		next := `SELECT p.value FROM properties p` + q.by(`properties_value`) + ` WHERE p.home = f.home AND p.name = ? AND p.value > f.value ORDER BY p.value LIMIT 1`
		many, rest := v.divide()
		found, err := q.distinct(ctx, many, next, []any{property}, limit)
		if err != nil {
			return nil, err
		}
		if err := q.whole(ctx, property, found, read); err != nil {
			return nil, err
		}
		v = rest
	}
	err := q.each(ctx, q.parts(v, false, true), `SELECT DISTINCT p.value, p.whole`, q.properties,
		` AND p.name = ? AND p.value > '' ORDER BY p.value LIMIT ?`, []any{property, limit}, read)
	return values, err
}

// whole calls read with values of a property, each of which some object of a range has, and what they are if that is
// too long for an index.
func (q *selection) whole(ctx context.Context, property string, found map[string]int64, read func(rows *sql.Rows) error) error {
	if len(found) == 0 {
		return nil
	}
	values, homes := slices.Sorted(maps.Keys(found)), make([]int64, len(found))
	for i, value := range values {
		homes[i] = found[value]
	}
	list, args := q.list(`l`, column{`value`, values}, column{`home`, homes})
	text := `SELECT l.value, CASE WHEN ` + q.contains(`l.value`) + ` THEN (SELECT p.whole FROM properties p` + q.by(`properties_value`) +
		` WHERE p.home = l.home AND p.name = ? AND p.value = l.value LIMIT 1) ELSE '' END FROM ` + list
	return queryEach(ctx, q.tx, q.bind(text), append([]any{"\n", property}, args...), read)
}

// distinct returns the first texts, limit at most, that an index has below some ranges, each with one of these. next
// selects the least one of the range f.home that is greater than f.value: what many objects have is passed over.
//
// Ranges are looked at by ever more at once. From the first of them it is known how far is to be looked in the others.
func (q *selection) distinct(ctx context.Context, ranges []int64, next string, args []any, limit int) (map[string]int64, error) {
	found, before := map[string]int64{}, ``
	for from, n := 0, 1; from < len(ranges); from, n = from+n, 2*n {
		list, with := q.list(`r`, column{`id`, ranges[from:min(from+n, len(ranges))]})
		text := `WITH RECURSIVE f(home, value, n) AS (SELECT r.id, ` + q.either(`''`, `''::text COLLATE "C"`) + `, 0 FROM ` + list +
			` UNION ALL SELECT f.home, (` + next + `), f.n + 1 FROM f WHERE f.value IS NOT NULL AND f.n <= ?`
		with = append(append(with, args...), limit)
		if before != `` {
			text, with = text+` AND f.value < ?`, append(with, before)
		}
		text += `) SELECT f.value, min(f.home) FROM f WHERE f.value > '' GROUP BY f.value ORDER BY f.value LIMIT ?`
		if err := queryEach(ctx, q.tx, q.bind(text), append(with, limit+1), func(rows *sql.Rows) error {
			var value string
			var home int64
			err := rows.Scan(&value, &home)
			found[value] = home
			return err
		}); err != nil {
			return nil, err
		}
		if len(found) > limit {
			all := slices.Sorted(maps.Keys(found))
			for _, value := range all[limit:] {
				delete(found, value)
			}
			before = all[limit]
		}
	}
	return found, nil
}

// each calls what for every row of the objects of some parts. join returns what is put behind the objects where they
// are looked at, and last is put at the end.
func (q *selection) each(ctx context.Context, parts []part, columns string, join func(at lookedAt) string, last string, lastArgs []any, what func(*sql.Rows) error) error {
	for _, part := range parts {
		before, after, _ := strings.Cut(part.text, ` WHERE true`)
		text := columns + before + join(part.at) + ` WHERE true` + after + last
		if err := queryEach(ctx, q.tx, q.bind(text), slices.Concat(part.args, lastArgs), what); err != nil {
			return err
		}
	}
	return nil
}

// properties joins the properties of objects.
func (q *selection) properties(at lookedAt) string {
	return q.join() + `properties p ON p.object = ` + at.id()
}

// rangeValues returns the values of the ranges that have objects that match.
func (q *selection) rangeValues(ctx context.Context, v *visible, value func(space tenant.Name, p rangeKey) string) ([]string, error) {
	values := []string{}
	for _, scope := range q.s.scopes() { // what all spaces see is in each of them
		more, err := q.rangeValuesIn(ctx, scope.Space, v.part(func(p *rangeKey) bool { return p.space == scope.Space }), value)
		if err != nil {
			return nil, err
		}
		values = append(values, more...)
	}
	slices.Sort(values)
	return slices.Compact(values), nil
}

func (q *selection) rangeValuesIn(ctx context.Context, space tenant.Name, v *visible, value func(space tenant.Name, p rangeKey) string) ([]string, error) {
	const columns = `SELECT DISTINCT g.resource, g.namespace, g.kind`
	var values []string
	read := func(rows *sql.Rows) error {
		var p rangeKey
		err := rows.Scan(&p.resource, &p.namespace, &p.kind)
		if err != nil {
			return err
		}
		if text := value(space, p); text != "" {
			values = append(values, text)
		}
		return q.budget.take(len(p.resource) + len(p.namespace) + len(p.kind))
	}
	if q.isAll() { // what ranges have has been counted, and is not looked at
		list, args := q.list(`r`, column{`id`, v.ranges})
		if err := queryEach(ctx, q.tx, q.bind(columns+` FROM `+list+q.join()+`ranges g ON g.id = r.id WHERE g.objects > 0`), args, read); err != nil {
			return nil, err
		}
		v = v.single()
	}
	ranges := func(at lookedAt) string { return q.join() + `ranges g ON g.id = ` + string(at) + `.home` }
	err := q.each(ctx, q.parts(v, false, true), columns, ranges, ``, nil, read)
	return values, err
}

// Names returns the names of the properties that the objects that match have, in their order.
func (s *Snapshot) Names(ctx context.Context, scopes []Scope, q query.Query) ([]string, error) {
	names, err := s.names(ctx, scopes, q)
	if err != nil {
		return nil, s.failed("reading properties from the search index", err)
	}
	return names, nil
}

func (s *Snapshot) names(ctx context.Context, scopes []Scope, q query.Query) ([]string, error) {
	chosen, v, possible, err := s.chosen(ctx, scopes, q)
	if err != nil || !possible {
		return []string{}, err
	}
	count, err := chosen.count(ctx, v)
	if err != nil || count == 0 {
		return []string{}, err
	}
	names := []string{name, query.Created}
	for property := range rangeValue {
		names = append(names, property)
	}
	read := func(property string) error {
		if isAskedFor(property) {
			names = append(names, property)
		}
		return chosen.budget.take(len(property))
	}
	if chosen.isAll() {
		next := `SELECT p.name FROM properties p` + s.by(`properties_value`) + ` WHERE p.home = f.home AND p.name > f.value ORDER BY p.name LIMIT 1`
		many, rest := v.divide()
		found, err := chosen.distinct(ctx, many, next, nil, MaxRead)
		if err != nil {
			return nil, err
		}
		for property := range found {
			if err := read(property); err != nil {
				return nil, err
			}
		}
		v = rest
	}
	err = chosen.each(ctx, chosen.parts(v, false, true), `SELECT DISTINCT p.name`, chosen.properties, ``, nil, func(rows *sql.Rows) error {
		var property string
		if err := rows.Scan(&property); err != nil {
			return err
		}
		return read(property)
	})
	slices.Sort(names)
	return slices.Compact(names), err
}

// isAskedFor reports whether a property has a name that somebody may ask for: others have what is compared, and
// relations.
func isAskedFor(property string) bool {
	return !strings.HasSuffix(property, orderedSuffix) && !strings.ContainsFunc(property, unicode.IsUpper)
}

// Place returns what tells the place of a row in the order in which it was selected.
func (r *Row) Place() After {
	return After{Key: r.Key, Space: r.Space, Resource: r.Resource.String(), Namespace: r.Namespace, Name: r.Name}
}
