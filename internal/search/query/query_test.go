package query

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var now = time.Date(2024, 3, 31, 12, 0, 0, 0, time.UTC)

func TestParse(t *testing.T) {
	equal := func(text string) Value { return Value{Is: Equal, Text: text} }
	for text, want := range map[string]Query{
		"":                  {},
		"  ":                {},
		"Web  APP":          {Keywords: []string{"web", "app"}},
		"namespace:default": {Filters: []Filter{{Property: "namespace", Any: []Value{equal("default")}}}},
		"Name:a,b":          {Filters: []Filter{{Property: "name", Any: []Value{equal("a"), equal("b")}}}},
		"name:!a,!=b,=c":    {Filters: []Filter{{Property: "name", None: []Value{equal("a"), equal("b")}, Any: []Value{equal("c")}}}},
		"kind:pod":          {Filters: []Filter{{Property: "kind", Any: []Value{{Is: Equal, Text: "pod", Folded: true}}}}},
		"kind:Pod":          {Filters: []Filter{{Property: "kind", Any: []Value{equal("Pod")}}}},
		"label:app=web":     {Filters: []Filter{{Property: "label", Any: []Value{equal("app=web")}}}},
		"name:a*b%_":        {Filters: []Filter{{Property: "name", Any: []Value{{Is: Equal, Text: "a*b%_", Parts: []string{"a", "b%_"}}}}}},
		`name:"a b,c\"d"`:   {Filters: []Filter{{Property: "name", Any: []Value{equal(`a b,c"d`)}}}},
		`"kind:pod" x`:      {Keywords: []string{"kind:pod", "x"}},
		"created:day":       {Filters: []Filter{{Property: "created", Any: []Value{{Is: NotBefore, Time: now.AddDate(0, 0, -1)}}}}},
		"created:<hour":     {Filters: []Filter{{Property: "created", Any: []Value{{Is: Before, Time: now.Add(-time.Hour)}}}}},
		"created:>=2024-01-02 created:<2024-02-01T00:00:00Z": {Filters: []Filter{
			{Property: "created", Any: []Value{{Is: NotBefore, Time: time.Date(2024, 1, 2, 0, 0, 0, 0, time.UTC)}}},
			{Property: "created", Any: []Value{{Is: Before, Time: time.Date(2024, 2, 1, 0, 0, 0, 0, time.UTC)}}},
		}},
		"restarts:>5":     {Filters: []Filter{{Property: "restarts", Any: []Value{{Is: After, Ordered: orderedNumber(5)}}}}},
		"capacity:<=10Gi": {Filters: []Filter{{Property: "capacity", Any: []Value{{Is: NotAfter, Ordered: orderedNumber(10 << 30)}}}}},
		"started:<day":    {Filters: []Filter{{Property: "started", Any: []Value{{Is: Before, Ordered: orderedTime(now.AddDate(0, 0, -1))}}}}},
		"started:day":     {Filters: []Filter{{Property: "started", Any: []Value{{Is: Equal, Text: "day", Since: orderedTime(now.AddDate(0, 0, -1))}}}}},
		"restarts:5":      {Filters: []Filter{{Property: "restarts", Any: []Value{equal("5")}}}},
		"labels:a=b":      {Filters: []Filter{{Property: "label", Any: []Value{equal("a=b")}}}},
		"name:a:b":        {Filters: []Filter{{Property: "name", Any: []Value{equal("a:b")}}}},
	} {
		got, err := Parse(text, now)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

// TestOrdered compares the text of numbers and of times as databases do.
func TestOrdered(t *testing.T) {
	values := []Property{
		{Value: "-1e300"}, {Value: "-10"}, {Value: "-2.5"}, {Value: "-1e-300"}, {Value: "0"}, {Value: "100m"}, {Value: "1"}, {Value: "2"}, {Value: "10"},
		{Value: "1k"}, {Value: "1Ki"}, {Value: "1M"}, {Value: "1Mi"}, {Value: "1.5Gi"}, {Value: "1e300"},
	}
	times := []Property{{Value: "0001-01-01T00:00:00Z"}, {Value: "1969-12-31T23:59:59Z"}, {Value: "2024-01-01T00:00:00Z"}, {Value: "2024-01-01T00:00:01Z"}, {Value: "9999-12-31T23:59:59Z"}}
	for typ, all := range map[Type][]Property{Number: values, Time: times} {
		last := ""
		for _, p := range all {
			p.Type = typ
			ordered, ok := p.Ordered()
			if !ok {
				t.Fatalf("%s %s is none", typ, p.Value)
			}
			first, end := Between(ordered)
			if ordered <= last || ordered < first || ordered > end {
				t.Errorf("%s %s: %q, %v, behind %q", typ, p.Value, ordered, ok, last)
			}
			last = ordered
		}
	}
	zero, _ := (&Property{Value: "0", Type: Number}).Ordered()
	if less, _ := (&Property{Value: "-0", Type: Number}).Ordered(); less != zero {
		t.Errorf("%q is another zero than %q", less, zero)
	}
	for _, text := range []string{"", "a", "NaN", "Inf", "-inf", "0x10", "1_000", "1e999", "1e308Pi", "5 6", "Ki", strings.Repeat("1", maxDigits+1)} {
		if ordered, ok := (&Property{Value: text, Type: Number}).Ordered(); ok {
			t.Errorf("%q is a number: %q", text, ordered)
		}
	}
	for _, p := range []Property{{Value: "5"}, {Value: "5", Type: Time}, {Value: "2024-01-01T00:00:00Z", Type: Number}} {
		if ordered, ok := p.Ordered(); ok {
			t.Errorf("%+v is ordered as %q", p, ordered)
		}
	}
}

func TestParseOrder(t *testing.T) {
	for text, want := range map[string]Order{
		"": {}, "  ": {}, "Name": {Property: "name"}, "created desc": {Property: "created", Descending: true}, "labels ASC": {Property: "label"},
	} {
		if got, err := ParseOrder(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"name down", "name asc asc", strings.Repeat("a", maxBytes+1)} {
		if _, err := ParseOrder(text); err == nil {
			t.Errorf("%q is an order", text)
		}
	}
}

func TestNew(t *testing.T) {
	got, err := New([]string{"A b", " "}, []Words{{"Kind", []string{"a,b", "!c d"}}, {"name", nil}}, now)
	want := Query{Keywords: []string{"a b"}, Filters: []Filter{{
		Property: "kind", Any: []Value{{Is: Equal, Text: "a,b", Folded: true}}, None: []Value{{Is: Equal, Text: "c d", Folded: true}},
	}}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for name, words := range map[string][]Words{
		"bytes": {{"name", []string{strings.Repeat("a", maxBytes+1)}}}, "values": {{"name", make([]string, maxValues+1)}}, "filters": slices.Repeat([]Words{{"name", []string{"a"}}}, maxFilters+1),
		"names no property": {{"", []string{"a"}}}, "no property": {{" ", []string{"a"}}},
	} {
		if _, err := New(nil, words, now); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"name:":                              "it has no value",
		"name:a,,b":                          "it has no value",
		":a":                                 "stands alone",
		"a,b":                                "stands alone",
		`"a`:                                 "no other one that ends it",
		"name:>a":                            "neither a number nor a time",
		"created:yesterday":                  "is no time",
		"name:*a*b*c*d*":                     "5 wildcards",
		strings.Repeat("a", maxBytes+1):      "4097 bytes",
		strings.Repeat("a ", maxKeywords+1):  "11 keywords",
		strings.Repeat("a:b ", maxFilters+1): "21 filters",
		"name:" + strings.Repeat("a,", maxValues) + "a": "51 values",
	} {
		if _, err := Parse(text, now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %v, want %q", text, err, want)
		}
	}
}

func TestText(t *testing.T) {
	for text, want := range map[string][2]string{ // as it is, and folded
		"Web-1":        {"Web-1", "web-1"},
		"a\x00b\nc":    {"a b c", "a b c"},
		"a\xffb":       {"a\ufffdb", "a\ufffdb"},
		"e\u0301":      {"\u00e9", "\u00e9"}, // one letter, written in two ways
		"\u00c9":       {"\u00c9", "\u00e9"},
		"STRASSE":      {"STRASSE", "strasse"},
		"Stra\u00dfe":  {"Stra\u00dfe", "strasse"},
		"\u0130":       {"\u0130", "i\u0307"},
		"\u03a3\u03c2": {"\u03a3\u03c2", "\u03c3\u03c3"},
	} {
		if diff := cmp.Diff(want, [2]string{Text(text), Fold(text)}); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

// FuzzParse looks for queries that end the process, or lead to text that databases may read in other ways.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"kind:pod x", `name:"a\"b",!c*`, "created:>day", "a:>5", "a:<=2024-01-01,day", "\xff:\x00", `"`, "a:!*"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := Parse(text, now)
		if err != nil {
			return
		}
		check := func(s string) {
			if !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
				t.Errorf("%q has %q", text, s)
			}
		}
		for _, keyword := range q.Keywords {
			check(keyword)
			if keyword == "" || Fold(keyword) != keyword {
				t.Errorf("%q has the keyword %q", text, keyword)
			}
		}
		for _, filter := range q.Filters {
			for _, v := range append(filter.Any, filter.None...) {
				check(v.Text)
				check(v.Ordered)
				check(v.Since)
			}
		}
	})
}
