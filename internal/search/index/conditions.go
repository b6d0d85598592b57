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

// condition is what a query demands of an object beside what is asked of its place.
type condition struct {
	dialect
	text strings.Builder
	args []any
	// at is where the object is looked at.
	at lookedAt
	// names is whether it demands something of the name, which is in the table of objects alone.
	names bool
}

// lookedAt is a table of a statement in which objects are looked at. Each has the range of the object, its id and when
// it was created.
type lookedAt string

const (
	inObjects    lookedAt = `o`
	inTexts      lookedAt = `t`
	inProperties lookedAt = `d`
)

// id is the column that has the id.
func (at lookedAt) id() string {
	if at == inObjects {
		return `o.id`
	}
	return string(at) + `.object`
}

// isPossible reports whether something can match: no object has a property of some names.
func isPossible(q query.Query) bool {
	return !slices.ContainsFunc(q.Filters, func(f query.Filter) bool { return strings.HasSuffix(f.Property, orderedSuffix) })
}

// conditions returns what a possible query demands of an object that is looked at in a table, each part led by AND. The
// filter found, if there is one, is left out: objects are found by it.
func (d dialect) conditions(q query.Query, at lookedAt, found *query.Filter) *condition {
	c := &condition{dialect: d, at: at}
	for i := range q.Filters {
		f := &q.Filters[i]
		switch {
		case f == found && isBeginning(&f.Any[0]): // what has several such values is found once, by the first one
			c.add(` AND NOT `+c.exists(`properties p WHERE p.object = d.object AND p.name = ? AND p.value >= ? AND p.value < d.value`), f.Property, f.Any[0].Parts[0])
		case rangeValue[f.Property] != nil || f == found:
		case f.Property == name:
			c.names = true
			c.filter(*f, func(v query.Value) { c.name(v) })
		case f.Property == query.Created:
			created := string(at) + `.created`
			c.filter(*f, func(v query.Value) { c.add(created+` <> 0 AND `+created+orders[v.Is], v.Time.Unix()) })
		default:
			c.filter(*f, func(v query.Value) { c.property(f.Property, v) })
			if !slices.Contains(others, f.Property) { // what has nothing of it has not something else, either
				c.add(` AND `+c.exists(`properties p WHERE p.object = `+c.at.id()+` AND p.name = ?`), f.Property)
			}
		}
	}
	c.keywords(q.Keywords)
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
		c.add(c.exists(`properties p WHERE p.object = `+c.at.id()+` AND p.name = ? AND `+c.matches(wholeValue)), name, c.pattern(v.Parts))
	default:
		// The rows of one value in a range are on fewer pages than those of all values of its objects.
		c.add(c.exists(`properties p`+c.by(`properties_value`)+` WHERE p.home = `+string(c.at)+`.home AND p.name = ? AND p.value = ? AND p.object = `+c.at.id()), name, short(v.Text))
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
	c.add(c.exists(`properties p WHERE p.object = `+c.at.id()+` AND p.name = ? AND p.value BETWEEN ? AND ? AND p.value`+orders[is]),
		name+orderedSuffix, first, last, than)
}

// keywords demands that a text has all of them. Only texts are searched of which the signature does not say that they
// have not.
func (c *condition) keywords(all []string) {
	if len(all) == 0 {
		return
	}
	var sum signature
	for _, keyword := range all {
		for i, bits := range newSignature(keyword) {
			sum[i] |= bits
		}
	}
	byIndex := c.postgres && c.at == inTexts && sum != (signature{}) // the index alone says of which texts more is looked at
	text := `t.text`
	if byIndex {
		text = `b.text`
	}
	var signed, has condition
	for i, bits := range sum {
		if bits != 0 {
			signed.add(` AND t.g`+strconv.Itoa(i)+` & ? = ?`, bits, bits)
		}
	}
	for _, keyword := range all {
		has.add(` AND `+c.contains(text), keyword)
	}
	switch {
	case byIndex:
		c.add(signed.text.String()+` AND `+c.exists(`texts b WHERE b.home = t.home AND b.object = t.object`+has.text.String()), slices.Concat(signed.args, has.args)...)
	case c.at == inTexts:
		c.add(signed.text.String()+has.text.String(), slices.Concat(signed.args, has.args)...)
	default:
		c.add(` AND `+c.exists(`texts t WHERE t.home = `+string(c.at)+`.home AND t.object = `+c.at.id()+signed.text.String()+has.text.String()), slices.Concat(signed.args, has.args)...)
	}
}

// orders are the comparisons of numbers and times.
var orders = map[query.Comparison]string{
	query.Equal: ` = ?`, query.After: ` > ?`, query.NotBefore: ` >= ?`, query.Before: ` < ?`, query.NotAfter: ` <= ?`,
}
