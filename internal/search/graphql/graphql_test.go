package graphql

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fake answers from what it is asked.
type fake struct{ items int }

func (f *fake) Search(_ context.Context, input Input, wants Wants) (*Result, error) {
	if input.OrderBy == "wrong" {
		return nil, Refuse(errors.New("no such order"))
	}
	r := &Result{}
	if wants.Count {
		r.Count = 7
	}
	if wants.Items {
		for i := range max(f.items, 1) {
			r.Items = append(r.Items, json.RawMessage(fmt.Sprintf(`{"input":"%v","name":"%d"}`, input, i)))
		}
	}
	if wants.Related {
		r.Related = []Related{{Kind: "Pod", Count: 2, Items: []json.RawMessage{[]byte(`{"name":"p"}`)}}}
	}
	return r, nil
}

func (f *fake) Complete(_ context.Context, property string, input Input, limit int) ([]string, error) {
	return []string{property, fmt.Sprint(input.Keywords), fmt.Sprint(limit)}, nil
}

func (f *fake) Properties(context.Context, Input) ([]string, error) {
	return []string{"kind", "name"}, nil
}

func (f *fake) Messages() []Message { return []Message{{"1", "warning", "careful"}} }

// ask returns the answer to a request in JSON, or what is wrong with it.
func ask(t *testing.T, root Root, query string, variables map[string]any) string {
	t.Helper()
	body, err := json.Marshal(Request{Query: query, Variables: variables})
	if err != nil {
		t.Fatal(err)
	}
	o, errs := Parse(body)
	if errs != nil {
		return "refused: " + errs.Error()
	}
	data, err := o.Answer(t.Context(), root, limit)
	if err != nil {
		if RefusedBy(err) == nil {
			t.Errorf("%s: %v is no refusal", query, err)
		}
		return "refused: " + err.Error()
	}
	if !json.Valid(data) {
		t.Errorf("%s: %s", query, data)
	}
	return string(data)
}

// limit is how many bytes an answer has in tests.
const limit = 1 << 20

func TestAnswers(t *testing.T) {
	input := map[string]any{"keywords": []any{"k"}, "filters": []any{map[string]any{"property": "kind", "values": []any{"Pod", nil}}}, "limit": -1, "offset": 3, "orderBy": "name desc", "relatedKinds": []any{"Node"}}
	const shown = `{[k] [Node] [{kind [Pod]}] -1 3 name desc}`
	for query, tc := range map[string]struct {
		variables map[string]any
		want      string
	}{
		"{ search(input: [{}]) { count } }": {nil, `{"search":[{"count":7}]}`},
		"query q($input: [SearchInput]) { search(input: $input) { items } }": {map[string]any{"input": []any{input}},
			`{"search":[{"items":[{"input":"` + shown + `","name":"0"}]}]}`},
		"query q($one: SearchInput) { search(input: [$one]) { items } }": {map[string]any{"one": input}, `{"search":[{"items":[{"input":"` + shown + `","name":"0"}]}]}`},
		`{ search(input: {keywords: "k", filters: {property: "kind", values: "Pod"}, limit: -1, offset: 3, orderBy: "name desc", relatedKinds: "Node"}) { items } }`: {nil,
			`{"search":[{"items":[{"input":"` + shown + `","name":"0"}]}]}`},
		"query q($keywords: [String]) { search(input: [{keywords: $keywords}]) { items } }": {map[string]any{"keywords": "k"},
			`{"search":[{"items":[{"input":"{[k] [] [] 0 0 }","name":"0"}]}]}`},
		"{ search { count } }": {nil, `{"search":[]}`},
		"{ a: search(input: [{}, {}]) { n: count __typename } }":                                                                     {nil, `{"a":[{"n":7,"__typename":"SearchResult"},{"n":7,"__typename":"SearchResult"}]}`},
		"{ search(input: [{}]) { related { kind count items __typename } } }":                                                        {nil, `{"search":[{"related":[{"kind":"Pod","count":2,"items":[{"name":"p"}],"__typename":"SearchRelatedResult"}]}]}`},
		"{ search(input: [{}]) { ...r } } fragment r on SearchResult { count ...s } fragment s on SearchResult { related { kind } }": {nil, `{"search":[{"count":7,"related":[{"kind":"Pod"}]}]}`},
		"{ search(input: [{}]) { related { kind } ... on SearchResult { related { count } } } }":                                     {nil, `{"search":[{"related":[{"kind":"Pod","count":2}]}]}`},
		"query q($no: Boolean!) { search(input: [{}]) { count @include(if: $no) related @skip(if: true) { kind } } }":                {map[string]any{"no": false}, `{"search":[{}]}`},
		`{ searchComplete(property: "kind", query: {keywords: ["a"]}, limit: 5) }`:                                                   {nil, `{"searchComplete":["kind","[a]","5"]}`},
		"{ searchSchema __typename }":                       {nil, `{"searchSchema":{"allProperties":["kind","name"]},"__typename":"Query"}`},
		"{ messages { id kind description __typename } }":   {nil, `{"messages":[{"id":"1","kind":"warning","description":"careful","__typename":"Message"}]}`},
		"{ m: messages { id } search { count } }":           {nil, `{"search":[],"m":[{"id":"1"}]}`},
		`{ search(input: [{orderBy: "wrong"}]) { count } }`: {nil, `refused: no such order`},
	} {
		if diff := cmp.Diff(tc.want, ask(t, &fake{}, query, tc.variables)); diff != "" {
			t.Errorf("%s: %s", query, diff)
		}
	}
}

func TestRefusals(t *testing.T) {
	bomb := "{ ...f0 }"
	for i := range 40 {
		bomb += fmt.Sprintf(" fragment f%d on Query { ...f%d ...f%d }", i, i+1, i+1)
	}
	bomb += " fragment f40 on Query { searchSchema }"
	for query, want := range map[string]string{
		"":            "no operation",
		"{":           "Expected Name",
		"{ nothing }": "Cannot query field",
		"{ search(input: [{what: 1}]) { count } }":                           "what",
		"{ search(input: 5) { count } }":                                     "SearchInput",
		"query q($i: [SearchInput]!) { search(input: $i) { count } }":        "must be defined",
		"{ searchComplete }":                                                 "property",
		"mutation { search }":                                                "mutation",
		"{ __schema { queryType { name } } }":                                "is not served",
		"query a { messages { id } } query b { messages { id } }":            "no operation",
		"{ ...f } fragment f on Query { ...g } fragment g on Query { ...f }": "circle",
		bomb: "more than 300 fields and fragments",
		"{ messages { id } } " + strings.TrimPrefix(bomb, "{ ...f0 }"):                         "more than 300 fields",
		"{" + strings.Repeat(" searchSchema", maxFields+1) + "}":                               "more than 300 fields",
		"{" + aliases(maxAliases+1) + "}":                                                      "more than 30 aliases",
		strings.Repeat("{ search(input: [{}]) ", maxDepth+2) + strings.Repeat("}", maxDepth+2): "more than 8 deep",
		// What costs validation much, of little text.
		"{ " + strings.Repeat("... { ", maxDepth) + "searchSchema" + strings.Repeat(" }", maxDepth) + " }":   "more than 8 deep",
		"{" + strings.Repeat(" ... { searchSchema }", maxFields/2+1) + " }":                                  "more than 300 fields and fragments",
		"{ searchSchema }" + fragments(maxFields/2, "searchSchema"):                                          "more than 300 fields and fragments",
		"{ ...f0 }" + fragments(9, strings.Repeat("messages ", maxRepeated)+"{ id }"):                        "more than 300 fields and fragments",
		"{ searchSchema" + strings.Repeat(" searchSchema", maxRepeated+1) + " }":                             "more than 30 fields of the same names",
		"{" + differing(maxRepeated+2) + " }":                                                                "more than 30 fields of the same names",
		"{ messages { id } ... {" + differing(20) + " } ...f } fragment f on Query {" + differing(20) + " }": "more than 30 fields of the same names",
		"{ ...f } fragment f on Query { searchSchema } fragment f on Query {" + strings.Repeat("... {", 600) + strings.Repeat(" search { count }", 30) + strings.Repeat("}", 600) + "}": "two fragments named",
		"{ messages {" + strings.Repeat(" id", maxRepeated+2) + " } }":              "more than 30 fields of the same names",
		"{ search(input: [" + strings.Repeat("{},", maxInputs+1) + "]) { count } }": "more than 30 searches",
		// What fields have is walked for each operation that reaches it.
		operations(140) + "fragment F on Query { searchComplete(" + strings.Repeat("a: 1 ", 950) + ") }":                                "more than 4000 arguments, values",
		operations(90) + "fragment F on Query { search(input: {filters: [" + strings.Repeat("{} ", 1400) + "]}) { count } }":            "more than 4000 arguments, values",
		operations(90) + "fragment F on Query { search(input: {filters: [" + strings.Repeat("1 ", 3000) + "]}) { count } }":             "more than 4000 arguments, values",
		operations(90) + "fragment F on Query { search(input: {keywords: [" + strings.Repeat("$a ", 1500) + "]}) { count } }":           "more than 4000 arguments, values",
		operations(90) + "fragment F on Query { search(input: " + strings.Repeat("[", 400) + strings.Repeat("]", 400) + ") { count } }": "more than 4000 arguments, values",
		operations(90) + "fragment F on Query { search" + strings.Repeat(" @a", 1500) + " { count } }":                                  "more than 4000 arguments, values",
		operations(20) + "fragment F on Query { ... " + strings.Repeat(" @a", 1500) + " { search { count } } }":                         "more than 4000 arguments, values",
		operations(90) + "fragment F on Query { ...G" + strings.Repeat(" @a", 1500) + " } fragment G on Query { search { count } }":     "more than 300 fields",
		operations(20) + "fragment F on Query { ...G" + strings.Repeat(" @a", 1500) + " } fragment G on Query { searchSchema }":         "more than 4000 arguments, values",
		"{ search(input: [{keywords: [" + strings.Repeat("1 ", 2000) + "]}]) { count } }":                                               "",
		strings.Repeat("{ messages ", 1500):                        "exceeded",
		"{ messages { id } }" + strings.Repeat(" ", maxText):       "bytes",
		"{ messages { id } } #" + strings.Repeat("\n,", maxTokens): "",
	} {
		got := ask(t, &fake{}, query, nil)
		if want != "" && (!strings.HasPrefix(got, "refused: ") || !strings.Contains(got, want)) {
			t.Errorf("%.60s: %.200s, want %s", query, got, want)
		}
	}
	if _, errs := Parse([]byte("{")); errs == nil {
		t.Error("half a request is one")
	}
	// What is small and has a large answer.
	if got := ask(t, &fake{items: maxItems/2 + 1}, "{ search(input: [{}]) { items again: items } }", nil); !strings.Contains(got, "in all") && !strings.Contains(got, "bytes") {
		t.Errorf("%.100s", got)
	}
}

// operations are those that use the fragment F.
func operations(n int) string {
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, "query q%d { ...F } ", i)
	}
	return all.String()
}

// fragments are definitions of fragments, which nothing uses, with some fields each.
func fragments(n int, fields string) string {
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, " fragment f%d on Query { %s }", i, fields)
	}
	return all.String()
}

// differing are fields of one name that ask for something else each.
func differing(n int) string {
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, " searchComplete(property: \"%d\")", i)
	}
	return all.String()
}

// large has answers whose parts are large each.
type large struct{}

const part = limit / 5

func (*large) Search(context.Context, Input, Wants) (*Result, error) {
	items := []json.RawMessage{[]byte(`{"name":"` + strings.Repeat("x", part) + `"}`)}
	return &Result{Items: items, Related: []Related{{Kind: strings.Repeat("k", part), Items: items}, {Kind: "Pod"}}}, nil
}

func (*large) Complete(context.Context, string, Input, int) ([]string, error) {
	return []string{strings.Repeat("x", part)}, nil
}

func (*large) Properties(context.Context, Input) ([]string, error) {
	return []string{strings.Repeat("x", part)}, nil
}

func (*large) Messages() []Message { return []Message{{Description: strings.Repeat("x", part)}} }

// TestLargeAnswers has requests that ask for what is large four times, and once more: each way to repeat something is
// counted by what the answer has.
func TestLargeAnswers(t *testing.T) {
	for _, query := range [][3]string{
		{"{ search(input: [{}]) {", "items", "} }"},
		{"{ search(input: [{}]) { related {", "items", "} } }"},
		{"{ search(input: [{}]) { related {", "kind", "} } }"},
		{"{", "search(input: [{}]) { items }", "}"},
		{"{", `searchComplete(property: "a")`, "}"},
		{"{", "searchSchema", "}"},
		{"{ messages {", "description", "} }"},
	} {
		for times, fits := range map[int]bool{4: true, 5: false} {
			var all strings.Builder
			for i := range times {
				fmt.Fprintf(&all, " a%d: %s", i, query[1])
			}
			got := ask(t, &large{}, query[0]+all.String()+query[2], nil)
			if refused := strings.HasPrefix(got, "refused: the answer has more than 1048576 bytes"); refused == fits {
				t.Errorf("%v, %d times: %d bytes, %.100s", query, times, len(got), got)
			}
		}
	}
	// One list of searches, and names of fields, repeat as well.
	if got := ask(t, &large{}, "{ search(input: [{}, {}, {}, {}, {}]) { items } }", nil); !strings.Contains(got, "bytes") {
		t.Errorf("many searches: %.100s", got)
	}
	if got := ask(t, &large{}, "{ search(input: ["+strings.Repeat("{},", 30)+"]) { related { "+strings.Repeat("a", 30_000)+": count } } }", nil); !strings.Contains(got, "bytes") {
		t.Errorf("a long name: %.100s", got)
	}
}

func aliases(n int) string {
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, " a%d: searchSchema", i)
	}
	return all.String()
}

func TestWatch(t *testing.T) {
	o, errs := Parse([]byte(`{"query": "subscription s($i: SearchInput) { changes: watch(input: $i) { operation new: newData __typename } }", "variables": {"i": {"keywords": ["a"]}}}`))
	if errs != nil || !o.IsSubscription() {
		t.Fatal(errs)
	}
	input, shown, err := o.Watch(limit)
	if err != nil || len(input.Keywords) != 1 {
		t.Fatal(input, err)
	}
	want := `{"changes":{"operation":"INSERT","new":{"name":"x"},"__typename":"Event"}}`
	got, err := shown(Event{"uid": "1", "operation": "INSERT", "newData": json.RawMessage(`{"name":"x"}`), "oldData": nil})
	if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if got, err := shown(Event{"operation": "INSERT", "newData": json.RawMessage(strings.Repeat(" ", limit))}); RefusedBy(err) == nil {
		t.Errorf("an event has %d bytes, %v", len(got), err)
	}
	for _, query := range []string{"subscription { watch { uid } again: watch { uid } }", "subscription { __typename }", "subscription { watch @skip(if: true) { uid } }"} {
		body, err := json.Marshal(Request{Query: query})
		if err != nil {
			t.Fatal(err)
		}
		if o, errs := Parse(body); errs == nil {
			if _, _, err := o.Watch(limit); RefusedBy(err) == nil {
				t.Errorf("%s: %v", query, err)
			}
		}
	}
}

// FuzzParse looks for requests that end the process, or are more than they may be.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"{ search(input: [{keywords: [\"a\"]}]) { count items related { kind } } }", "query q($a: [SearchInput]) { search(input: $a) { count } }",
		"{ ...f } fragment f on Query { messages { id @skip(if: true) } }", "subscription { watch { uid } }", "{ a: messages { id } a: messages { kind } }",
	} {
		f.Add(seed, `{"a": [{"limit": 1}]}`)
	}
	f.Fuzz(func(t *testing.T, text, variables string) {
		r := Request{Query: text}
		_ = json.Unmarshal([]byte(variables), &r.Variables)
		body, err := json.Marshal(r)
		if err != nil {
			return
		}
		o, errs := Parse(body)
		if errs != nil {
			return
		}
		if o.IsSubscription() {
			_, _, _ = o.Watch(limit)
			return
		}
		if data, err := o.Answer(t.Context(), &fake{}, limit); err == nil && (!json.Valid(data) || len(data) > limit) {
			t.Errorf("%s: %d bytes, %.100s", text, len(data), data)
		}
	})
}

// TestCheck reads answers that another process has made: what is in them and not in the query is refused, wherever it
// is.
func TestCheck(t *testing.T) {
	const query = `{ a: search(input: [{}, {}]) { n: count items related { kind items } } search { items } searchComplete(property: "x") searchSchema messages { id } __typename }`
	body, err := json.Marshal(Request{Query: query})
	if err != nil {
		t.Fatal(err)
	}
	operation, errs := Parse(body)
	if errs != nil {
		t.Fatal(errs)
	}
	const good = `{"a":[{"n":1,"items":[{"name":"x"}],"related":[{"kind":"Pod","items":[{"name":"y"}]}]}],"search":[{"items":[]}],"searchComplete":["v"],"searchSchema":{"allProperties":["p"]},"messages":[{"id":"m"}],"__typename":"Query"}`
	for name, tc := range map[string]struct {
		old, new string
		want     string
	}{
		"an answer":                   {want: "x y"},
		"a list that is empty":        {old: `[{"name":"x"}]`, new: `[]`, want: "y"},
		"an object in another list":   {old: `"items":[]`, new: `"items":[{"name":"z"}]`, want: "x y z"},
		"a field that was not asked":  {old: `"__typename":"Query"`, new: `"__typename":"Query","items":[{"name":"z"}]`},
		"one of a result":             {old: `"n":1,`, new: `"n":1,"more":[{"name":"z"}],`},
		"one by its own name":         {old: `"n":1`, new: `"count":1`},
		"a field that is there twice": {old: `"searchComplete":["v"]`, new: `"search":[{"items":[{"name":"z"}]}]`},
		"a field that is missing":     {old: `,"__typename":"Query"`},
		"an object for a number":      {old: `"n":1`, new: `"n":{"name":"z"}`},
		"an object for text":          {old: `["v"]`, new: `[{"name":"z"}]`},
		"an object for a message":     {old: `{"id":"m"}`, new: `{"id":{"name":"z"}}`},
		"an object for names":         {old: `["p"]`, new: `[{"name":"z"}]`},
		"a list of a list":            {old: `[{"name":"x"}]`, new: `[[{"name":"x"}]]`},
		"nothing":                     {old: `[{"name":"x"}]`, new: `[null]`},
		"something behind it":         {old: `"__typename":"Query"}`, new: `"__typename":"Query"}{"items":[{"name":"z"}]}`},
		"half of it":                  {old: `"messages":[{"id":"m"}],"__typename":"Query"}`},
		"no object":                   {old: good, new: `[]`},
	} {
		var seen []string
		data, err := operation.Check(t.Context(), []byte(strings.Replace(good, tc.old, tc.new, 1)), 1<<20, func(object map[string]any) error {
			seen = append(seen, object["name"].(string)) // fails the test
			return nil
		})
		if got := strings.Join(seen, " "); (err == nil) != (tc.want != "") || err == nil && got != tc.want {
			t.Errorf("%s: saw %q, %v", name, got, err)
		}
		if name == "an answer" && string(data) != good {
			t.Errorf("it is read as %s", data)
		}
	}
	// What is there twice in an object is there once then.
	data, err := operation.Check(t.Context(), []byte(strings.Replace(good, `{"name":"x"}`, `{"name":"z","name":"x"}`, 1)), 1<<20, func(map[string]any) error { return nil })
	if err != nil || string(data) != good {
		t.Errorf("%s, %v", data, err)
	}
	if _, err := operation.Check(t.Context(), []byte(good), 100, func(map[string]any) error { return nil }); RefusedBy(err) == nil {
		t.Errorf("an answer that is too long: %v", err)
	}
	refused := errors.New("refused")
	if _, err := operation.Check(t.Context(), []byte(good), 1<<20, func(map[string]any) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("an object that is refused: %v", err)
	}
}
