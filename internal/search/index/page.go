package index

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/internal/search/query"
)

// page returns rows behind a place, in order. It looks at a part of what is visible, and at ever more of it while rows
// are missing.
func (q *selection) page(ctx context.Context, v *visible, limit int) ([]Row, error) {
	var rows []Row
	from, name := q.begin(v)
	for budget := int64(4 * limit); from < int64(len(v.keys)) && len(rows) < limit && !q.full; budget *= 8 {
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
	after := rangeKey{space: cmp.Or(q.s.After.Space, q.s.Scopes[0].Space), resource: q.s.After.Resource, namespace: q.s.After.Namespace}
	at, here := slices.BinarySearchFunc(v.keys, after, q.s.compare)
	if !here {
		return int64(at), nil
	}
	name := storedName(q.s.After.Name)
	return int64(at), &name
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

// sorted returns rows in an order other than that of places, or from an offset on.
func (q *selection) sorted(ctx context.Context, v *visible, limit int) ([]Row, error) {
	key, keyArgs := q.key()
	parts := q.parts(v, true, false)
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

// key returns what objects are ordered by, as text that is compared by its bytes. Numbers and times have a form of
// their own for it, and what an object has not is less than everything.
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
	of := &v.keys[at]
	row.Space, row.Resource, row.Namespace = of.space, schema.ParseGroupResource(of.resource), of.namespace
	size := rowBytes + len(details) + len(row.Key) + len(row.Kind) + len(row.Name) + len(row.Space) + len(of.resource) + len(of.namespace)
	return row, size, row.restore(details)
}
