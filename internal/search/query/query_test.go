package query

import (
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
		"name:a:b": {Filters: []Filter{{Property: "name", Any: []Value{equal("a:b")}}}},
	} {
		got, err := Parse(text, now)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", text, diff)
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
		"name:>a":                            "and not by >",
		"created:yesterday":                  "is no time",
		"name:*a*b*c*d*":                     "5 wildcards",
		strings.Repeat("a", MaxBytes+1):      "4097 bytes",
		strings.Repeat("a ", MaxKeywords+1):  "11 keywords",
		strings.Repeat("a:b ", MaxFilters+1): "21 filters",
		"name:" + strings.Repeat("a,", MaxValues) + "a": "51 values",
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
	for _, seed := range []string{"kind:pod x", `name:"a\"b",!c*`, "created:>day", "\xff:\x00", `"`, "a:!*"} {
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
			}
		}
	})
}
