package index

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/internal/search/query"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Selection is what is asked of the objects of one space, or of several.
type Selection struct {
	// Scopes are the spaces, that of who asks first. None is there twice.
	Scopes []Scope
	Query  query.Query
	// Order is what rows are ordered by before their place.
	Order query.Order
	// Limit is how many rows are returned at most, and After the place behind which they begin. Offset is how many are
	// left out then.
	Limit, Offset int
	After         *After
	// Bytes is how much a page has at most, in bytes of what its rows show, and one row more. MaxPage if it is zero.
	Bytes int
	// NoCount and NoRows say that nobody wants them.
	NoCount, NoRows bool
}

// scopes are all spaces of a selection, in the order of rows.
func (s *Selection) scopes() []Scope {
	all := slices.Clone(s.Scopes)
	slices.SortFunc(all, func(a, b Scope) int { return s.compare(rangeKey{space: a.Space}, rangeKey{space: b.Space}) })
	return all
}

// compare orders places as rows are.
func (s *Selection) compare(a, b rangeKey) int {
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
	// Aside is how many objects that are visible, and may match or not, have nothing but their name in the index.
	Aside int
	// More is whether there are rows behind the last one, and Full whether they would have been on a page that may have
	// more bytes.
	More, Full bool
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
	// found is the filter by which objects in ranges are found, nil if all are looked at, and finds how many it finds,
	// -1 if nobody has asked.
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
