package bounds

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
)

// list returns a list in JSON of some elements.
func list(length int, element string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(element+",", length), ",") + "]"
}

// object returns an object in JSON of some members.
func object(length int) string {
	return "{" + strings.Trim(list(length, `"k":0`), "[]") + "}"
}

func TestJSON(t *testing.T) {
	for name, tc := range map[string]struct {
		data, message string // no message: it is not refused
	}{
		"a list":                          {list(10_000, "0"), ""},
		"a long list":                     {list(10_001, "0"), "more than 10000 elements in one list"},
		"a list with spaces":              {strings.ReplaceAll(list(10_000, "0"), ",", " ,\t\r\n"), ""},
		"a long list with spaces":         {strings.ReplaceAll(list(10_001, "0"), ",", " ,\t\r\n"), "elements in one list"},
		"lists together":                  {list(9_999, list(2, list(2, "{}"))), ""},
		"a long list at the end":          {`{"a":` + list(9_999, list(2, `""`)) + `,"b":[{"c":` + list(10_001, `""`) + `}]}`, "elements in one list"},
		"a list of objects":               {list(10_000, `{"a":[1,2],"b":{}}`), ""},
		"a long list of objects":          {list(10_001, `{"a":[1,2],"b":{}}`), "elements in one list"},
		"an object":                       {object(20_000), ""},
		"a large object":                  {object(20_001), "more than 20000 entries in one map"},
		"a large object in a list":        {"[[],{}," + object(20_001) + "]", "entries in one map"},
		"owners":                          {`{"metadata":{"ownerReferences":` + list(64, "{}") + `}}`, ""},
		"many owners":                     {`{"metadata":{"ownerReferences":` + list(65, "{}") + `}}`, "more than 64 ownerReferences"},
		"many owners, spaces":             {`{"metadata":{"ownerReferences" : ` + "\n" + list(65, "{}") + `}}`, "ownerReferences"},
		"many owners, escaped":            {`{"metadata":{"owner\u0052eferences":` + list(65, "{}") + `}}`, "ownerReferences"},
		"many owners, all escaped":        {`{"` + escaped("ownerReferences") + `":` + list(65, "{}") + `}`, "ownerReferences"},
		"many owners, the second time":    {`{"ownerReferences":[],"ownerReferences":` + list(65, "{}") + `}`, "ownerReferences"},
		"many lists of owners":            {list(10, `{"ownerReferences":`+list(64, "{}")+`}`), ""},
		"the name of owners as a value":   {`["ownerReferences",` + list(65, "0") + `]`, ""},
		"the name of owners in an object": {`{"ownerReferences":{"a":` + list(65, "0") + `}}`, ""},
		"the name of owners before":       {`{"ownerReferences":0,"a":` + list(65, "0") + `}`, ""},
		"owners that are named so":        {`{"ownerReferences2":` + list(65, "0") + `}`, ""},
		"commas in strings":               {list(9_000, `",,[{"`), ""},
		"ends in strings":                 {"[" + strings.Repeat(`"]]}}",`, 10_000) + "0]", "elements in one list"},
		"quotes in strings":               {list(10_000, `"\",\\\","`), ""},
		"quotes in strings of many":       {list(10_001, `"\",\\\","`), "elements in one list"},
		"backslashes at the end":          {list(10_001, `"\\"`), "elements in one list"},
		"a comma behind a backslash":      {list(10_000, `"\\\\"`), ""},
		"deep":                            {strings.Repeat(`{"a":[`, 125) + strings.Repeat("]}", 125), ""},
		"long in the deep":                {strings.Repeat(`[`, 249) + list(10_001, "0") + strings.Repeat("]", 249), "elements in one list"},
		"too deep":                        {strings.Repeat(`{"a":[`, 125) + "{", "more than 250 levels of lists and maps"},
		"a long name":                     {`{"` + strings.Repeat("k", 8<<10) + `":{"":0}}`, ""},
		"a longer name":                   {`{"` + strings.Repeat("k", 8<<10+1) + `":0}`, "more than 8192 bytes in the names that lead to one of its fields"},
		"a long path":                     {`{"` + strings.Repeat("k", 8<<10-6) + `":[{"":0}]}`, ""},
		"a longer path":                   {`{"` + strings.Repeat("k", 8<<10-6) + `":[{"a":0}]}`, "bytes in the names that lead to one"},
		"a longer path of a list":         {`{"` + strings.Repeat("k", 8<<10-5) + `":[0]}`, "bytes in the names that lead to one"},
		"long paths":                      {`{"` + strings.Repeat("k", 1<<11) + `":{` + strings.Repeat(`"":0,`, 1<<13-2) + `"":0}}`, ""},
		"long paths, too many":            {`{"` + strings.Repeat("k", 1<<11) + `":{` + strings.Repeat(`"":0,`, 1<<13) + `"":0}}`, "more than 16777216 bytes in the names that lead to its fields"},
		"long paths of lists":             {`{"` + strings.Repeat("k", 1<<12-6) + `":` + list(1<<12, "0") + `}`, "names that lead to its fields"},
		"ends of nothing":                 {"]" + list(10_001, "0"), ""},
		"a string without an end":         {`["` + strings.Repeat(`,\"`, 10_001), ""},
		"a key without an end":            {`{"`, ""},
		"a mistake behind":                {list(10_001, "0") + "]}", "elements in one list"},
		"nothing":                         {"", ""},
		"commas without a list":           {strings.Repeat(",", 30_000), ""},
	} {
		t.Run(name, func(t *testing.T) { checkMessage(t, JSON([]byte(tc.data)), tc.message) })
	}
}

func checkMessage(t *testing.T, err error, message string) {
	t.Helper()
	if (err != nil) != (message != "") || err != nil && !strings.Contains(err.Error(), message) {
		t.Errorf("got error %v, want %q", err, message)
	}
}

// escaped returns a string in which each letter is escaped.
func escaped(s string) string {
	var b strings.Builder
	for _, c := range s {
		fmt.Fprintf(&b, `\u%04x`, c)
	}
	return b.String()
}

func TestStrategicMergePatch(t *testing.T) {
	for name, tc := range map[string]struct{ data, message string }{
		"a list":           {list(5_000, "0"), ""},
		"a long list":      {list(5_001, "0"), "more than 5000 elements in the lists of a strategic merge patch"},
		"lists":            {"{" + `"a":` + list(2_500, "[]") + `,"b":[` + list(2_499, "{}") + "]}", ""},
		"lists together":   {"{" + `"a":` + list(2_500, "[]") + `,"b":[` + list(2_500, "{}") + "]}", "strategic merge patch"},
		"many owners":      {`{"metadata":{"ownerReferences":` + list(65, "{}") + `}}`, "ownerReferences"},
		"an object":        {object(20_000), ""},
		"a large object":   {object(20_001), "entries in one map"},
		"order of a field": {`{"$setElementOrder/ports":` + list(5_001, "0") + "}", "strategic merge patch"},
	} {
		t.Run(name, func(t *testing.T) { checkMessage(t, StrategicMergePatch([]byte(tc.data)), tc.message) })
	}
}

func TestJSONPatch(t *testing.T) {
	long := "/" + strings.Repeat("k", 4_000)
	for name, tc := range map[string]struct{ data, message string }{
		"a patch":                    {`[{"op":"add","path":"/a","value":` + list(10_000, "[0]") + `}]`, ""},
		"a long list":                {`[{"op":"add","path":"/a","value":` + list(10_001, "[0]") + `}]`, "elements in one list"},
		"a long text":                {`[{"op":"add","path":"` + long + `","value":"` + strings.Repeat("[", 1<<20) + `"}]`, ""},
		"a long path":                {`[{"op":"add","path":"` + strings.Repeat(long, 2) + `","value":0}]`, ""},
		"a long path of a field":     {`[{"op":"add","path":"` + strings.Repeat(long, 2) + `","value":{"` + strings.Repeat("a", 200) + `":0}}]`, "names that lead to one of its fields"},
		"a longer path":              {`[{"op":"remove","path":"` + strings.Repeat(long, 3) + `"}]`, "names that lead to one of its fields"},
		"long paths of a list":       {`[{"op":"add","path":"` + long + `","value":` + list(9_000, "0") + `}]`, "names that lead to its fields"},
		"long paths of lists":        {`[{"op":"add","path":"` + long + `","value":` + list(5_000, "0") + `},{"path":"` + long + `","value":` + list(5_000, "0") + `}]`, "names that lead to its fields"},
		"a path of another case":     {`[{"op":"add","path":"` + long + `","Path":"/a","value":` + list(9_000, "0") + `}]`, "names that lead to its fields"},
		"a copy of another case":     {`[{"op":"copy","Op":"add","from":"/a","path":"` + long + `"}]`, "copies or moves"},
		"usual copies":               {`[{"op":"copy","from":"/a","path":"/spec/template/metadata"},{"op":"move","from":"/a","path":"/spec/selector"}]`, ""},
		"a copy to a long path":      {`[{"op":"copy","from":"/a","path":"` + long + `"}]`, "copies or moves"},
		"many copies":                {list(20, `{"op":"copy","from":"/metadata/labels/a","path":"/metadata/labels/`+strings.Repeat("c", 30)+`"}`), ""},
		"what is moved again":        {list(20, `{"op":"move","from":"/a","path":"/b/`+strings.Repeat("c", 60)+`"}`), "copies or moves"},
		"no patch":                   {`{"a":"b"}`, ""},
		"operations that are no map": {`[0]`, ""},
	} {
		t.Run(name, func(t *testing.T) { checkMessage(t, JSONPatch([]byte(tc.data)), tc.message) })
	}
}

// TestNothingIsAllocated checks that bodies are counted where they are.
func TestNothingIsAllocated(t *testing.T) {
	body := []byte(list(1_000, `{"ownerReferences":[{"a":"b"}],"c":[[[[[[]]]]]]}`))
	if allocations := testing.AllocsPerRun(10, func() { _ = JSON(body) }); allocations > 0 {
		t.Errorf("%v allocations", allocations)
	}
}

// counts are what is counted in JSON: the most of a list, an object, and a list of owners,
// and the elements of all lists.
type counts struct{ list, object, owners, together int }

// countOf counts with the decoder of the standard library.
func countOf(decoder *json.Decoder, key string, most *counts) error {
	token, err := decoder.Token()
	if err != nil {
		return err
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return nil
	}
	length := 0
	for ; decoder.More(); length++ {
		name := ""
		if delim == '{' {
			token, err := decoder.Token()
			if err != nil {
				return err
			}
			name = token.(string)
		}
		if err := countOf(decoder, name, most); err != nil {
			return err
		}
	}
	switch {
	case delim == '{':
		most.object = max(most.object, length)
	case key == ownerReferences:
		most.owners, most.together = max(most.owners, length), most.together+length
	default:
		most.list, most.together = max(most.list, length), most.together+length
	}
	_, err = decoder.Token()
	return err
}

// FuzzJSON checks that what is counted in valid JSON is what is there: bounds of as much
// let it pass, and each that is one less does not.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		`[]`, `{}`, `[1]`, `[1,2]`, `{"a":1,"b":[1,{}],"c":{"d":"e,]}\""}}`, ` [ [ ] , [ 1 , "\\" ] ] `, `"a"`, `{"":{"":[[]]}}`,
		`{"ownerReferences":[1,2]}`, `{"owner\u0052eferences":[{"a":[1]},2,3]}`, `["ownerReferences",[1]]`, `{"ownerReferences":{"a":[1]},"b":[2,3]}`,
		`{"\ud800ownerReferences":[1]}`, `{"ownerReferences\u0000":[1]}`, "{\"a\\\\\":[\"\\\\\",\"\\\"\"]}", `[-1.5e3,true,false,null,"é",1e999]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) {
			_ = JSON(data)
			return
		}
		var most counts
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.UseNumber()
		if err := countOf(decoder, "", &most); err != nil {
			t.Fatal(err)
		}
		exactly := func(c counts) rules {
			return rules{lists: &rule{most: c.list}, maps: &rule{most: c.object}, owners: &rule{most: c.owners}, together: &rule{most: c.together},
				path: unbounded, paths: unbounded, levels: unbounded}
		}
		if err := exactly(most).check(data); err != nil {
			t.Errorf("%s: %v, but there are %+v", data, err, most)
		}
		for _, fewer := range []func(*counts) *int{
			func(c *counts) *int { return &c.list }, func(c *counts) *int { return &c.object },
			func(c *counts) *int { return &c.owners }, func(c *counts) *int { return &c.together },
		} {
			less := counts{math.MaxInt, math.MaxInt, math.MaxInt, math.MaxInt}
			if *fewer(&less) = *fewer(&most) - 1; *fewer(&less) < 0 {
				continue
			}
			if exactly(less).check(data) == nil {
				t.Errorf("%s: %+v pass, but there are %+v", data, less, most)
			}
		}
	})
}

// BenchmarkJSON counts in 100 kB of what clients send: an object with managed fields, as it
// is and indented, and lists of short elements.
func BenchmarkJSON(b *testing.B) {
	element := `{"name":"container-of-a-pod","image":"registry.example.com/team/image:v1.2.3","args":["--verbose","--port=8080"],"ports":[{"containerPort":8080,"protocol":"TCP"}],` +
		`"env":[{"name":"KEY","value":"a value of some length"}]}`
	var indented bytes.Buffer
	if err := json.Indent(&indented, []byte(list(300, element)), "", "  "); err != nil {
		b.Fatal(err)
	}
	for name, body := range map[string]string{
		"object":   list(425, element),
		"indented": indented.String()[:100_000],
		"managed":  "[" + strings.Repeat(`{"f:metadata":{"f:labels":{".":{},"f:app":{}}}},`, 2080) + "0]",
		"numbers":  list(9_999, "123456789"),
		"data":     `{"data":"` + strings.Repeat("0123456789abcdef", 6250) + `"}`,
	} {
		b.Run(name, func(b *testing.B) {
			data := []byte(body)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if err := JSON(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
