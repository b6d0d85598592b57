package query

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
)

// What a query may be at most. Each filter and each value is compared with each object that
// the user may list.
const (
	maxBytes    = 4096
	maxFilters  = 20
	maxValues   = 50 // of one filter
	maxKeywords = 10
	maxStars    = 4 // of one value
)

// Query is what an object must match: all filters and all keywords.
type Query struct {
	Filters []Filter
	// Keywords are folded. Each occurs in some text of an object.
	Keywords []string
}

// Filter is about one property of objects.
type Filter struct {
	// Property is its name, in lower case.
	Property string
	// Any are alternatives, one of which an object must match. Without any it need not.
	Any []Value
	// None are what an object must not match.
	None []Value
}

// Value is what a property is compared with.
type Value struct {
	// Is says how: Equal, or an order of numbers and times.
	Is Comparison
	// Text is what it is compared with, as Text or, if Folded is set, as Fold makes it.
	Text string
	// Folded is whether case makes no difference.
	Folded bool
	// Parts is the text between its wildcards, if it has some.
	Parts []string
	// Time is what the time of creation is compared with.
	Time time.Time
	// Ordered is what numbers and times of other properties are compared with, as Property.Ordered makes it.
	Ordered string
	// Since, if it is not empty, is such a form of a time. What is not older matches, too.
	Since string
}

// Comparison is how a property is compared with a value.
type Comparison string

// The comparisons. Others than Equal are about numbers and times.
const (
	Equal     Comparison = "="
	After     Comparison = ">"
	NotBefore Comparison = ">="
	Before    Comparison = "<"
	NotAfter  Comparison = "<="
)

// Created is the property that is a time and that nearly all objects have.
const Created = "created"

// synonyms are other names of properties that have several values.
var synonyms = map[string]string{
	"annotations": "annotation", "conditions": "condition", "images": "image", "labels": "label", "owners": "owner",
}

// folded are the properties in whose values case makes no difference if they are written in
// lower case: nobody remembers how kinds are written.
var folded = []string{"kind"}

// Parse reads a query: words divided by spaces, in which NAME:VALUE[,VALUE...] is a filter and
// anything else a keyword. now is what "created:day" is reckoned from.
//
// A value may begin with =, !, !=, >, >=, < or <=, and have * for any text. What has spaces,
// commas or quotes in it stands in double quotes, with \ before a quote or a backslash.
func Parse(text string, now time.Time) (Query, error) {
	var q Query
	if len(text) > maxBytes {
		return q, fmt.Errorf("the query has %d bytes, and may have %d; use fewer filters or values", len(text), maxBytes)
	}
	words, err := Split(text)
	if err != nil {
		return q, err
	}
	var keywords []string
	var filters []Words
	for _, w := range words {
		if w.Property == "" {
			keywords = append(keywords, w.Values[0])
		} else {
			filters = append(filters, w)
		}
	}
	return New(keywords, filters, now)
}

// Words are a filter before it is read: a property and its values, each with what stands before it.
type Words struct {
	Property string // empty for a keyword
	Values   []string
}

// New reads keywords and filters, as Parse does. A filter without values says nothing.
func New(keywords []string, filters []Words, now time.Time) (Query, error) {
	var q Query
	for _, keyword := range keywords {
		if keyword = Fold(keyword); strings.TrimSpace(keyword) != "" {
			q.Keywords = append(q.Keywords, keyword)
		}
	}
	bytes := 0
	for _, w := range filters {
		if len(w.Values) == 0 {
			continue
		}
		property := PropertyNamed(w.Property)
		if strings.TrimSpace(property) == "" {
			return q, errNoProperty
		}
		f, err := newFilter(Words{property, w.Values}, now)
		if err != nil {
			return q, fmt.Errorf("filter %q: %w", f.Property, err)
		}
		q.Filters = append(q.Filters, f)
		for _, value := range w.Values {
			bytes += len(value)
		}
	}
	for _, keyword := range q.Keywords {
		bytes += len(keyword)
	}
	switch {
	case bytes > maxBytes:
		return q, fmt.Errorf("the query has %d bytes, and may have %d; use fewer filters or values", bytes, maxBytes)
	case len(q.Filters) > maxFilters:
		return q, fmt.Errorf("the query has %d filters, and may have %d", len(q.Filters), maxFilters)
	case len(q.Keywords) > maxKeywords:
		return q, fmt.Errorf("the query has %d keywords, and may have %d", len(q.Keywords), maxKeywords)
	}
	return q, nil
}

func newFilter(w Words, now time.Time) (Filter, error) {
	f := Filter{Property: w.Property}
	if len(w.Values) > maxValues {
		return f, fmt.Errorf("it has %d values, and may have %d", len(w.Values), maxValues)
	}
	for _, raw := range w.Values {
		comparison, negated, text := operator(raw)
		v, err := newValue(w.Property, comparison, text, now)
		if err != nil {
			return f, err
		}
		if negated {
			f.None = append(f.None, v)
		} else {
			f.Any = append(f.Any, v)
		}
	}
	return f, nil
}

// operator splits the operator from a value.
func operator(raw string) (comparison Comparison, negated bool, rest string) {
	for _, op := range []string{"!=", ">=", "<=", "=", "!", ">", "<"} {
		rest, found := strings.CutPrefix(raw, op)
		if !found {
			continue
		}
		switch op {
		case "!", "!=":
			return Equal, true, rest
		default:
			return Comparison(op), false, rest
		}
	}
	return Equal, false, raw
}

var errNoProperty = errors.New("a filter names no property; give it one, such as kind, or leave it out")

var errNoValue = errors.New(`it has no value; write NAME:VALUE, or "NAME:" in quotes for a keyword`)

func newValue(property string, comparison Comparison, text string, now time.Time) (Value, error) {
	v := Value{Is: comparison}
	switch {
	case text == "":
		return v, errNoValue
	case property == Created:
		return timeValue(v, text, now)
	case comparison != Equal:
		return orderedValue(v, text, now)
	}
	if ago, ok := spans[text]; ok {
		v.Since = orderedTime(ago(now))
	}
	v.Folded = slices.Contains(folded, property) && !strings.ContainsFunc(text, unicode.IsUpper)
	v.Text = Text(text)
	if v.Folded {
		v.Text = Fold(text)
	}
	if strings.Contains(v.Text, "*") {
		v.Parts = strings.Split(v.Text, "*")
		if len(v.Parts)-1 > maxStars {
			return v, fmt.Errorf("%q has %d wildcards, and may have %d", text, len(v.Parts)-1, maxStars)
		}
	}
	return v, nil
}

// spans are the words for times.
var spans = map[string]func(time.Time) time.Time{
	"hour":  func(t time.Time) time.Time { return t.Add(-time.Hour) },
	"day":   func(t time.Time) time.Time { return t.AddDate(0, 0, -1) },
	"week":  func(t time.Time) time.Time { return t.AddDate(0, 0, -7) },
	"month": func(t time.Time) time.Time { return t.AddDate(0, -1, 0) },
	"year":  func(t time.Time) time.Time { return t.AddDate(-1, 0, 0) },
}

// timeValue reads a time. A word for one, alone, means what is newer.
func timeValue(v Value, text string, now time.Time) (Value, error) {
	var ok bool
	if v.Time, ok = parseTime(text, now); ok {
		if spans[text] != nil && v.Is == Equal {
			v.Is = NotBefore
		}
		return v, nil
	}
	return v, fmt.Errorf("%q is no time; write 2006-01-02, 2006-01-02T15:04:05Z, or hour, day, week, month or year for what is newer", text)
}

func parseTime(text string, now time.Time) (time.Time, bool) {
	if ago, ok := spans[text]; ok {
		return ago(now), true
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// orderedValue reads what numbers or times are compared with.
func orderedValue(v Value, text string, now time.Time) (Value, error) {
	if number, ok := parseNumber(text); ok {
		v.Ordered = orderedNumber(number)
		return v, nil
	}
	if t, ok := parseTime(text, now); ok {
		v.Ordered = orderedTime(t)
		return v, nil
	}
	return v, fmt.Errorf("%q is neither a number nor a time, and cannot be compared by %s; write 5, 10Gi, 2006-01-02, 2006-01-02T15:04:05Z or day", text, v.Is)
}

// Split divides a query into words, and says what each is about.
func Split(text string) ([]Words, error) {
	var words []Words
	s := scanner{rest: text}
	for s.skipSpaces(); s.rest != ""; s.skipSpaces() {
		first, end, err := s.token(":, ")
		if err != nil {
			return nil, err
		}
		w := Words{Values: []string{first}}
		switch {
		case end == ':' && first != "":
			w = Words{Property: PropertyNamed(first)}
			for end = ','; end == ','; {
				var value string
				if value, end, err = s.token(", "); err != nil {
					return nil, err
				}
				w.Values = append(w.Values, value)
			}
		case end == ':' || end == ',':
			return nil, fmt.Errorf("%q stands alone in %q; put what has it into double quotes", end, text)
		}
		words = append(words, w)
	}
	return words, nil
}

// PropertyNamed returns the property of a name as somebody has written it.
func PropertyNamed(name string) string {
	name = strings.ToLower(Text(name))
	if property, ok := synonyms[name]; ok {
		return property
	}
	return name
}

type scanner struct{ rest string }

func (s *scanner) skipSpaces() {
	s.rest = strings.TrimLeftFunc(s.rest, unicode.IsSpace)
}

// token returns the text up to one of ends, or to a space, which it drops, and which it was. It is
// zero at the end of the query.
func (s *scanner) token(ends string) (string, rune, error) {
	var token strings.Builder
	quoted, escaped := false, false
	for i, r := range s.rest {
		switch {
		case escaped:
			token.WriteRune(r)
			escaped = false
		case quoted && r == '\\':
			escaped = true
		case r == '"':
			quoted = !quoted
		case !quoted && (strings.ContainsRune(ends, r) || unicode.IsSpace(r)):
			s.rest = s.rest[i+len(string(r)):]
			if unicode.IsSpace(r) {
				r = ' '
			}
			return token.String(), r, nil
		default:
			token.WriteRune(r)
		}
	}
	if quoted {
		return "", 0, errors.New("a double quote has no other one that ends it")
	}
	s.rest = ""
	return token.String(), 0, nil
}
