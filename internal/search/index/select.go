package index

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
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
	// Count is how many rows there are in all, on whatever page.
	Count int64
	Rows  []Row
	// More is whether there are rows behind the last one.
	More bool
}

// Select returns the rows of a selection, of one state of the index.
func (x *Index) Select(ctx context.Context, s Selection) (Found, error) {
	var found Found
	b := newBuilder(s)
	if len(b.branches) == 0 {
		return found, nil
	}
	tx, err := x.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return found, fmt.Errorf("reading the search index: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // nothing is written
	text, args := b.count()
	if err := tx.QueryRowContext(ctx, text, args...).Scan(&found.Count); err != nil {
		return found, fmt.Errorf("counting in the search index: %w", err)
	}
	text, args = b.page(s.Limit+1, s.After)
	rows, err := tx.QueryContext(ctx, text, args...)
	if err != nil {
		return found, fmt.Errorf("reading the search index: %w", err)
	}
	defer rows.Close()
	size := 0
	for rows.Next() {
		if len(found.Rows) == s.Limit || size > pageBytes {
			found.More = true
			break
		}
		row, length, err := scan(rows, s.Space)
		if err != nil {
			return found, fmt.Errorf("reading the search index: %w", err)
		}
		found.Rows, size = append(found.Rows, row), size+length
	}
	return found, rows.Err()
}

// scan returns a row, and the length of what it shows.
func scan(rows *sql.Rows, space tenant.Name) (Row, int, error) {
	row := Row{Space: space}
	var resource, details string
	if err := rows.Scan(&resource, &row.Namespace, &row.Name, &row.Kind, &row.Created, &details); err != nil {
		return row, 0, err
	}
	row.Resource = schema.ParseGroupResource(resource)
	return row, len(details), json.Unmarshal([]byte(details), &row.Details)
}

// builder makes the statements of a selection. They have values as parameters alone.
type builder struct {
	branches []branch
	// twice is whether an object may be in two branches.
	twice bool
}

// branch is one way in which objects may be seen.
type branch struct {
	text string
	args []any
}

const columns = `o.resource, o.namespace, o.name, o.kind, o.created, o.details`

func newBuilder(s Selection) *builder {
	b := &builder{}
	condition, args, possible := conditions(s.Space, s.Query)
	if !possible {
		return b
	}
	sources := []source{{space: s.Space}}
	if s.Shared {
		sources = append(sources, source{space: Shared, shadowedBy: s.Space})
	}
	for _, src := range sources {
		for _, from := range ranges(src, s.Visible) {
			from.text += condition
			from.args = append(from.args, args...)
			if src.shadowedBy != "" {
				from.text += ` AND NOT EXISTS (SELECT 1 FROM objects own WHERE own.space = ? AND own.resource = o.resource AND own.namespace = o.namespace AND own.name = o.name)`
				from.args = append(from.args, string(src.shadowedBy))
			}
			if len(s.Visible.Denied) > 0 {
				from.text += ` AND o.namespace NOT IN (SELECT value FROM json_each(?))`
				from.args = append(from.args, list(s.Visible.Denied))
			}
			b.branches = append(b.branches, from)
		}
	}
	b.twice = len(s.Visible.Named)+len(s.Visible.NamedIn) > 0
	return b
}

// source is where rows come from: the space's own ones, or shared ones that no own one shadows.
type source struct{ space, shadowedBy tenant.Name }

// maxGroups is how many groups of namespaces have a branch of their own: a statement may have some
// hundred. The pairs of resource and namespace of all others are listed one by one.
const maxGroups = rights.ListedGroups

// pageBytes is how much a page has at most, in bytes of what its rows show, and one row more.
const pageBytes = 8 << 20

// ranges returns the branches of a source: each visits the ranges of objects that may be seen, and no
// other objects. Without any right there is none.
func ranges(src source, visible *rights.Set) []branch {
	var branches []branch
	if len(visible.Whole) > 0 {
		branches = append(branches, branch{
			`FROM json_each(?) r CROSS JOIN objects o INDEXED BY objects_place WHERE o.space = ? AND o.resource = r.value`,
			[]any{resources(visible.Whole), string(src.space)},
		})
	}
	var pairs [][2]string
	for i, g := range visible.Groups {
		if i < maxGroups {
			branches = append(branches, branch{
				`FROM json_each(?) r CROSS JOIN json_each(?) n CROSS JOIN objects o INDEXED BY objects_place WHERE o.space = ? AND o.resource = r.value AND o.namespace = n.value`,
				[]any{resources(g.Resources), list(g.Namespaces), string(src.space)},
			})
			continue
		}
		for resource := range g.Resources {
			for namespace := range g.Namespaces {
				pairs = append(pairs, [2]string{resource.String(), namespace})
			}
		}
	}
	if len(pairs) > 0 {
		branches = append(branches, branch{
			`FROM json_each(?) p CROSS JOIN objects o INDEXED BY objects_place WHERE o.space = ? AND o.resource = p.value ->> 0 AND o.namespace = p.value ->> 1`,
			[]any{encode(pairs), string(src.space)},
		})
	}
	return append(branches, names(src, visible)...)
}

// names returns the branches of single objects.
func names(src source, visible *rights.Set) []branch {
	var branches []branch
	var anywhere [][2]string
	for resource, named := range visible.Named {
		for name := range named {
			anywhere = append(anywhere, [2]string{resource.String(), name})
		}
	}
	if len(anywhere) > 0 {
		branches = append(branches, branch{
			`FROM json_each(?) p CROSS JOIN objects o INDEXED BY objects_name WHERE o.space = ? AND o.resource = p.value ->> 0 AND o.name = p.value ->> 1`,
			[]any{encode(anywhere), string(src.space)},
		})
	}
	var inOne [][3]string
	for in, named := range visible.NamedIn {
		for name := range named {
			inOne = append(inOne, [3]string{in.Resource.String(), in.Namespace, name})
		}
	}
	if len(inOne) > 0 {
		branches = append(branches, branch{
			`FROM json_each(?) p CROSS JOIN objects o INDEXED BY objects_place WHERE o.space = ? AND o.resource = p.value ->> 0 AND o.namespace = p.value ->> 1 AND o.name = p.value ->> 2`,
			[]any{encode(inOne), string(src.space)},
		})
	}
	return branches
}

// union returns the statement of all branches, each with more at its end.
func (b *builder) union(columns, more string, last []any) (string, []any) {
	texts, args := make([]string, 0, len(b.branches)), []any(nil)
	for _, each := range b.branches {
		texts = append(texts, `SELECT `+columns+` `+each.text+more)
		args = append(append(args, each.args...), last...)
	}
	if b.twice {
		return strings.Join(texts, ` UNION `), args
	}
	return strings.Join(texts, ` UNION ALL `), args
}

func (b *builder) count() (string, []any) {
	text, args := b.union(`o.id`, ``, nil)
	return `SELECT count(*) FROM (` + text + `)`, args
}

func (b *builder) page(limit int, after *After) (string, []any) {
	more, last := ``, []any(nil)
	if after != nil {
		more, last = ` AND (o.resource, o.namespace, o.name) > (?, ?, ?)`, []any{after.Resource, after.Namespace, after.Name}
	}
	text, args := b.union(columns, more, last)
	return `SELECT * FROM (` + text + `) ORDER BY 1, 2, 3 LIMIT ?`, append(args, limit)
}

func resources(set sets.Set[schema.GroupResource]) string {
	names := make([]string, 0, len(set))
	for resource := range set {
		names = append(names, resource.String())
	}
	slices.Sort(names)
	return encode(names)
}

func list(set sets.Set[string]) string { return encode(slices.Sorted(maps.Keys(set))) }

// encode returns a parameter of json_each.
func encode(value any) string {
	encoded, _ := json.Marshal(value) // strings are always encoded
	return string(encoded)
}
