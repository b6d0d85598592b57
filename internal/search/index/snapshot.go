package index

import (
	"cmp"
	"context"
	"database/sql"
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
	// Aside is how many objects have nothing but their identity in the index, of what was visible to a question, at most.
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
	first := scopes[0]
	selected := Selection{Space: first.Space, Shared: first.Shared, Visible: first.Visible, Others: scopes[1:], Query: q}
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

// Values returns the values that a property has among the objects that match, each once, in the order of their
// bytes or, of times, in that of time.
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
	if value, about := placeValue[property]; about {
		return chosen.placeValues(ctx, v, value)
	}
	column, join, args := `o.name`, ``, []any(nil)
	some := ` >= ' '` // others stand for names that are no text
	switch property {
	case name:
	case query.Created:
		column, some = `o.created`, ` <> 0`
	default:
		column = wholeValue
		join, args = s.join()+`properties p ON p.object = o.id AND p.name = ?`, []any{property}
	}
	var values []string
	err = chosen.each(ctx, chosen.parts(v, false), `SELECT DISTINCT `+column+` AS value`, join, args, ` AND `+column+some+` ORDER BY value LIMIT ?`, []any{limit}, func(rows *sql.Rows) error {
		var value string
		err := rows.Scan(&value)
		if seconds, isTime := strconv.ParseInt(value, 10, 64); property == query.Created && isTime == nil {
			value = time.Unix(seconds, 0).UTC().Format(time.RFC3339)
		}
		if err != nil {
			return err
		}
		values = append(values, value)
		return chosen.budget.take(len(value))
	})
	slices.Sort(values)
	return slices.Compact(append([]string{}, values...)), err
}

// each calls what for every row of the objects of some parts. join is put behind the objects, and last at the end.
func (q *selection) each(ctx context.Context, parts []part, columns, join string, joined []any, last string, lastArgs []any, what func(*sql.Rows) error) error {
	for _, part := range parts {
		before, after, _ := strings.Cut(part.text, ` WHERE true`)
		split := strings.Count(before, `?`)
		args := slices.Concat(part.args[:split], joined, part.args[split:], lastArgs)
		if err := queryEach(ctx, q.tx, q.bind(columns+before+join+` WHERE true`+after+last), args, what); err != nil {
			return err
		}
	}
	return nil
}

// placeValues returns the values of the ranges that have objects that match.
func (q *selection) placeValues(ctx context.Context, v *visible, value func(space tenant.Name, p place) string) ([]string, error) {
	values := []string{}
	for _, scope := range q.s.scopes() { // what all spaces see is in each of them
		more, err := q.placeValuesIn(ctx, scope.Space, v.part(func(p *place) bool { return p.space == scope.Space }), value)
		if err != nil {
			return nil, err
		}
		values = append(values, more...)
	}
	slices.Sort(values)
	return slices.Compact(values), nil
}

func (q *selection) placeValuesIn(ctx context.Context, space tenant.Name, v *visible, value func(space tenant.Name, p place) string) ([]string, error) {
	const columns = `SELECT DISTINCT g.resource, g.namespace, g.kind`
	var values []string
	read := func(rows *sql.Rows) error {
		var p place
		err := rows.Scan(&p.resource, &p.namespace, &p.kind)
		if err != nil {
			return err
		}
		if text := value(space, p); text != "" {
			values = append(values, text)
		}
		return q.budget.take(len(p.resource) + len(p.namespace) + len(p.kind))
	}
	if q.found == nil && !q.demands() { // what ranges have has been counted, and is not looked at
		list, args := q.list(`r`, column{`id`, v.ranges})
		if err := queryEach(ctx, q.tx, q.bind(columns+` FROM `+list+q.join()+`ranges g ON g.id = r.id WHERE g.objects > 0`), args, read); err != nil {
			return nil, err
		}
		v = &visible{places: v.places, objects: v.objects, objectAt: v.objectAt}
	}
	err := q.each(ctx, q.parts(v, false), columns, q.join()+`ranges g ON g.id = o.home`, nil, ``, nil, read)
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
	for property := range placeValue {
		names = append(names, property)
	}
	err = chosen.each(ctx, chosen.parts(v, false), `SELECT DISTINCT p.name`, s.join()+`properties p ON p.object = o.id`, nil, ``, nil, func(rows *sql.Rows) error {
		var property string
		err := rows.Scan(&property)
		if err != nil {
			return err
		}
		if isAskedFor(property) {
			names = append(names, property)
		}
		return chosen.budget.take(len(property))
	})
	slices.Sort(names)
	return slices.Compact(names), err
}

// isAskedFor reports whether a property has a name that somebody may ask for: others have what is compared, and relations.
func isAskedFor(property string) bool {
	return !strings.HasSuffix(property, orderedSuffix) && !strings.ContainsFunc(property, unicode.IsUpper)
}

// sorted returns rows in an order other than that of places, or from an offset on.
func (q *selection) sorted(ctx context.Context, v *visible, limit int) ([]Row, error) {
	key, keyArgs := q.key()
	parts := q.parts(v, true)
	if len(parts) == 0 {
		return nil, nil
	}
	texts, args := make([]string, 0, len(parts)), []any(nil)
	for _, each := range parts {
		texts = append(texts, `SELECT `+key+` AS k, r.pos AS pos, o.id AS id, o.name AS name, o.created AS created, o.home AS home`+each.text)
		args = append(append(args, keyArgs...), each.args...)
	}
	behind, behindArgs := q.behind(v)
	direction := ``
	if q.s.Order.Descending {
		direction = ` DESC`
	}
	text := `SELECT f.k, f.pos, g.kind, f.name, f.created, b.details FROM (SELECT * FROM (` + strings.Join(texts, ` UNION ALL `) + `) u WHERE true` + behind +
		` ORDER BY k` + direction + `, pos, name LIMIT ? OFFSET ?) f` +
		q.join() + `bodies b ON b.id = f.id` + q.join() + `ranges g ON g.id = f.home ORDER BY f.k` + direction + `, f.pos, f.name`
	return q.scan(ctx, v, text, append(append(args, behindArgs...), limit, q.s.Offset))
}

// key returns what objects are ordered by, as text that is compared by its bytes. Numbers and times have a form of their own
// for it, and what an object has not is less than everything.
func (q *selection) key() (string, []any) {
	switch property := q.s.Order.Property; property {
	case "", propertySpace: // which positions are ordered by
		return `''`, nil
	case name:
		return `o.name`, nil
	case query.Created: // is never negative, and has ten digits until 2286
		return q.either(`printf('%012d', o.created)`, `lpad(o.created::text, 12, '0') COLLATE "C"`), nil
	case "kind", "resource", "namespace":
		return `(SELECT g.` + property + ` FROM ranges g WHERE g.id = o.home)`, nil
	case "apigroup": // is what follows the first dot
		const group = `(SELECT g.resource FROM ranges g WHERE g.id = o.home)`
		return q.either(`substr(`+group+` || '.', instr(`+group+` || '.', '.') + 1)`, `substr(`+group+` || '.', strpos(`+group+` || '.', '.') + 1)`), nil
	default:
		const least = `(SELECT min(p.value) FROM properties p WHERE p.object = o.id AND p.name = ?)`
		return `coalesce(` + least + `, ` + least + `, '')`, []any{property + orderedSuffix, property}
	}
}

// behind returns the condition that rows are behind the one that the page begins after.
func (q *selection) behind(v *visible) (string, []any) {
	after := q.s.After
	if after == nil {
		return ``, nil
	}
	at, from := q.begin(v)
	place, args := `pos >= ?`, []any{at}
	if from != nil {
		place, args = `(pos > ? OR pos = ? AND name > ?)`, []any{at, at, *from}
	}
	further := `>`
	if q.s.Order.Descending {
		further = `<`
	}
	return ` AND (k ` + further + ` ? OR k = ? AND ` + place + `)`, append([]any{after.Key, after.Key}, args...)
}

// Place returns what tells the place of a row in the order in which it was selected.
func (r *Row) Place() After {
	return After{Key: r.Key, Space: r.Space, Resource: r.Resource.String(), Namespace: r.Namespace, Name: r.Name}
}

// Compare orders places as rows are ordered without another order.
func (a After) Compare(b After) int {
	return cmp.Or(strings.Compare(string(a.Space), string(b.Space)), strings.Compare(a.Resource, b.Resource), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}
