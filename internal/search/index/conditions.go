package index

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tenantry/tenantry/internal/search/query"
)

// others are the properties that stand in a table of their own.
var others = []string{propertyLabel, propertyAnnotation, propertyStatus, propertyUID}

// name is the property that is a column of objects.
const name = "name"

// Properties are the names of what objects can be filtered by.
func Properties() []string {
	names := append([]string{query.Created, name}, others...)
	for each := range placeValue {
		names = append(names, each)
	}
	slices.Sort(names)
	return names
}

// condition is what a query demands of an object o beside what is asked of its place.
type condition struct {
	dialect
	text strings.Builder
	args []any
}

// isPossible reports whether something can match: no object has a property of some names.
func isPossible(q query.Query) bool {
	return !slices.ContainsFunc(q.Filters, func(f query.Filter) bool { return strings.HasSuffix(f.Property, orderedSuffix) })
}

// conditions returns what a possible query demands, each part led by AND. The filter found, if there is one, is left out: objects are
// found by it.
func (d dialect) conditions(q query.Query, found *query.Filter) *condition {
	c := &condition{dialect: d}
	for i := range q.Filters {
		f := &q.Filters[i]
		switch {
		case placeValue[f.Property] != nil || f == found:
		case f.Property == name:
			c.filter(*f, func(v query.Value) { c.name(v) })
		case f.Property == query.Created:
			c.filter(*f, func(v query.Value) { c.add(`o.created <> 0 AND o.created`+orders[v.Is], v.Time.Unix()) })
		default:
			c.filter(*f, func(v query.Value) { c.property(f.Property, v) })
			if !slices.Contains(others, f.Property) { // what has nothing of it has not something else, either
				c.add(` AND EXISTS (SELECT 1 FROM properties p WHERE p.object = o.id AND p.name = ?)`, f.Property)
			}
		}
	}
	for _, keyword := range q.Keywords {
		c.keyword(keyword)
	}
	return c
}

func (c *condition) add(text string, args ...any) {
	c.text.WriteString(text)
	c.args = append(c.args, args...)
}

// filter adds that one of the alternatives of a filter matches, and none of what is excluded.
func (c *condition) filter(f query.Filter, compare func(query.Value)) {
	for i, v := range f.Any {
		c.add([]string{` AND ((`, `) OR (`}[min(i, 1)])
		compare(v)
	}
	if len(f.Any) > 0 {
		c.add(`))`)
	}
	for _, v := range f.None {
		c.add(` AND NOT (`)
		compare(v)
		c.add(`)`)
	}
}

func (c *condition) name(v query.Value) {
	switch {
	case v.Ordered != "":
		c.add(`false`) // it is neither a number nor a time
	case v.Parts != nil:
		c.add(c.matches(`o.name`), c.pattern(v.Parts))
	default:
		c.add(`o.name = ?`, storedName(v.Text))
	}
}

func (c *condition) property(name string, v query.Value) {
	switch {
	case v.Ordered != "":
		c.ordered(name, v.Is, v.Ordered)
	case v.Parts != nil:
		c.add(`EXISTS (SELECT 1 FROM properties p WHERE p.object = o.id AND p.name = ? AND `+c.matches(wholeValue)+`)`, name, c.pattern(v.Parts))
	default:
		c.add(`EXISTS (SELECT 1 FROM properties p WHERE p.object = o.id AND p.name = ? AND p.value = ?)`, name, short(v.Text))
	}
	if v.Since != "" {
		c.add(` OR `)
		c.ordered(name, query.NotBefore, v.Since)
	}
}

// wholeValue is the value of a property p.
const wholeValue = `CASE WHEN p.whole = '' THEN p.value ELSE p.whole END`

// ordered compares the form in which numbers and times are ordered, with those of the same type.
func (c *condition) ordered(name string, is query.Comparison, than string) {
	first, last := query.Between(than)
	c.add(`EXISTS (SELECT 1 FROM properties p WHERE p.object = o.id AND p.name = ? AND p.value BETWEEN ? AND ? AND p.value`+orders[is]+`)`,
		name+orderedSuffix, first, last, than)
}

// keyword looks at the texts of which the signature does not say that they have not got it.
func (c *condition) keyword(keyword string) {
	for i, bits := range newSignature(keyword) {
		if bits != 0 {
			column := `o.g` + strconv.Itoa(i)
			c.add(` AND `+column+` & ? = ?`, bits, bits)
		}
	}
	c.add(` AND EXISTS (SELECT 1 FROM bodies b WHERE b.id = o.id AND `+c.contains(`b.text`)+`)`, keyword)
}

// orders are the comparisons of numbers and times.
var orders = map[query.Comparison]string{
	query.Equal: ` = ?`, query.After: ` > ?`, query.NotBefore: ` >= ?`, query.Before: ` < ?`, query.NotAfter: ` <= ?`,
}
