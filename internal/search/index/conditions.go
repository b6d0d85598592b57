package index

import (
	"slices"
	"strings"

	"github.com/tenantry/tenantry/internal/search/query"
	"github.com/tenantry/tenantry/internal/tenant"
)

// columnsOf are the properties that are columns of objects.
var columnsOf = map[string]string{
	"kind": "o.kind", "apigroup": "o.apigroup", "resource": "o.resource", "namespace": "o.namespace", "name": "o.name",
}

// others are the properties that stand in a table of their own.
var others = []string{propertyLabel, propertyAnnotation, propertyStatus, propertyUID}

// Properties are the names of what objects can be filtered by.
func Properties() []string {
	names := append([]string{query.Created, "space"}, others...)
	for name := range columnsOf {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// conditions returns what a query demands of an object of a space, each part led by AND. It is not
// possible if nothing can match, such as a filter of a property that no object has.
func conditions(space tenant.Name, q query.Query) (text string, args []any, possible bool) {
	c := &clause{}
	for _, f := range q.Filters {
		switch column, ok := columnsOf[f.Property]; {
		case ok:
			c.filter(f, func(v query.Value) { c.column(column, v) })
		case f.Property == query.Created:
			c.times(f)
		case f.Property == "space":
			if !spaceMatches(space, f) {
				return "", nil, false
			}
		case slices.Contains(others, f.Property):
			c.filter(f, func(v query.Value) { c.property(f.Property, v) })
		default:
			return "", nil, false
		}
	}
	for _, keyword := range q.Keywords {
		if !strings.Contains(query.Fold(string(space)), keyword) { // the space is a property of all its objects
			c.add(` AND instr(o.text, ?) > 0`, keyword)
		}
	}
	return c.text.String(), c.args, true
}

// clause is a part of a statement with its parameters.
type clause struct {
	text strings.Builder
	args []any
}

func (c *clause) add(text string, args ...any) {
	c.text.WriteString(text)
	c.args = append(c.args, args...)
}

// filter adds that one of the alternatives of a filter matches, and none of what is excluded.
func (c *clause) filter(f query.Filter, compare func(query.Value)) {
	for i, v := range f.Any {
		c.add([]string{` AND (`, ` OR `}[min(i, 1)])
		compare(v)
	}
	if len(f.Any) > 0 {
		c.add(`)`)
	}
	for _, v := range f.None {
		c.add(` AND NOT (`)
		compare(v)
		c.add(`)`)
	}
}

func (c *clause) column(column string, v query.Value) {
	if v.Folded && column == "o.kind" {
		column = "o.kindfold"
	}
	if v.Parts != nil {
		c.add(column+` GLOB ?`, glob(v.Parts))
		return
	}
	c.add(column+` = ?`, v.Text)
}

func (c *clause) property(name string, v query.Value) {
	c.add(`EXISTS (SELECT 1 FROM properties p WHERE p.object = o.id AND p.name = ? AND p.value `, name)
	if v.Parts != nil {
		c.add(`GLOB ?)`, glob(v.Parts))
		return
	}
	c.add(`= ?)`, v.Text)
}

// orders are the comparisons of times.
var orders = map[query.Comparison]string{
	query.Equal: ` = ?`, query.After: ` > ?`, query.NotBefore: ` >= ?`, query.Before: ` < ?`, query.NotAfter: ` <= ?`,
}

// times adds the conditions of a filter of times. Orders are all demanded, so that two make a range,
// and of points in time one is.
func (c *clause) times(f query.Filter) {
	var points []query.Value
	for _, v := range f.Any {
		if v.Is == query.Equal {
			points = append(points, v)
		} else {
			c.add(` AND o.created`+orders[v.Is], v.Time.Unix())
		}
	}
	c.filter(query.Filter{Any: points, None: f.None}, func(v query.Value) {
		c.add(`o.created`+orders[v.Is], v.Time.Unix())
	})
}

// globbed are the characters that mean something to GLOB, as what stands for themselves.
var globbed = strings.NewReplacer(`[`, `[[]`, `?`, `[?]`, `*`, `[*]`)

func glob(parts []string) string {
	escaped := make([]string, len(parts))
	for i, part := range parts {
		escaped[i] = globbed.Replace(part)
	}
	return strings.Join(escaped, `*`)
}

func spaceMatches(space tenant.Name, f query.Filter) bool {
	matches := func(v query.Value) bool {
		return v.Text == string(space) || v.Parts != nil && wildcard(v.Parts, string(space))
	}
	return (len(f.Any) == 0 || slices.ContainsFunc(f.Any, matches)) && !slices.ContainsFunc(f.None, matches)
}

// wildcard reports whether s has the parts in their order, the first at its beginning and the last
// at its end.
func wildcard(parts []string, s string) bool {
	s, found := strings.CutPrefix(s, parts[0])
	for _, part := range parts[1 : len(parts)-1] {
		if !found {
			return false
		}
		_, s, found = strings.Cut(s, part)
	}
	return found && strings.HasSuffix(s, parts[len(parts)-1])
}
