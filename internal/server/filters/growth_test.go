package filters

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/tenantry/tenantry/internal/tenant"
)

// allocated returns how many bytes do allocates: a measure of work that does not
// depend on the machine.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

var strippers = map[string]stripper{"JSON": stripJSON, "YAML": stripYAML, "JSON patch": stripJSONPatch}

// checkGrowth checks that a body in which a part is repeated four times as often takes
// about four times the work. What all bodies take may come on top.
func checkGrowth(t *testing.T, strip stripper, prefix, repeated, suffix string, times int) {
	t.Helper()
	work := func(times int) (did uint64) {
		body := []byte(prefix + strings.Repeat(repeated, times) + suffix)
		return allocated(func() { _, _ = strip(t.Context(), body, "a") })
	}
	small, large := work(times), work(4*times)
	if large > 8*small+1<<18 {
		t.Errorf("%d times %q: %d bytes are allocated, and %d for four times as many", times, repeated, small, large)
	}
}

func TestWorkGrowsWithTheBody(t *testing.T) {
	for name, tc := range map[string]struct{ format, prefix, repeated, suffix string }{
		"one field again and again":      {"JSON", `{"metadata":{`, `"tenant":"a",`, `"x":1}}`},
		"the last of them":               {"JSON", `{"metadata":{"x":1`, `,"tenant":"a"`, `}}`},
		"all of them":                    {"JSON", `{"metadata":{"tenant":""`, ` , "tenant":null`, `}}`},
		"metadata again and again":       {"JSON", `{"x":1`, `,"metadata":{"tenant":"a"}`, `}`},
		"escaped":                        {"JSON", `{"metadata":{`, `"\u0074enant":"a",`, `"x":1}}`},
		"deep":                           {"JSON", `{"metadata":{"tenant":"a"},"x":`, `{"metadata":`, `x`},
		"operations":                     {"JSON patch", `[{"op":"test","path":"/x"}`, `,{"op":"add","path":"/metadata/tenant","value":"a"}`, `]`},
		"in the value of an operation":   {"JSON patch", `[{"op":"add","path":"","value":{"metadata":{"x":1`, `,"tenant":"a"`, `}}}]`},
		"operations with a value":        {"JSON patch", `[{"op":"test","path":"/x"}`, `,{"op":"add","path":"/metadata","value":{"tenant":"a"}}`, `]`},
		"YAML":                           {"YAML", "metadata:\n  tenant: a\ndata:\n", "- tenant\n", ""},
		"YAML, JSON in it":               {"YAML", `{"metadata":{`, `"tenant":"a",`, `"x":1}}`},
		"YAML, aliases":                  {"YAML", "a: &a " + strings.Repeat("x", 1000) + "\nmetadata:\n  tenant: a\nb:\n", "- *a\n", ""},
		"YAML, a name of another tenant": {"YAML", "metadata:\n  tenant: ", "b", "\n"},
	} {
		t.Run(name, func(t *testing.T) { checkGrowth(t, strippers[tc.format], tc.prefix, tc.repeated, tc.suffix, 1000) })
	}
}

// FuzzWork looks for bodies whose work grows faster than they do.
func FuzzWork(f *testing.F) {
	f.Add(`{"metadata":{`, `"tenant":"a",`, `"x":1}}`)
	f.Add("a: &a tenant\nb:\n", "- *a\n", "")
	f.Add(`[{"op":"test","path":"/x"}`, `,{"op":"add","path":"","value":{"metadata":{"tenant":"a"}}}`, `]`)
	f.Fuzz(func(t *testing.T, prefix, repeated, suffix string) {
		if len(prefix)+len(repeated)+len(suffix) > 200 {
			t.Skip()
		}
		for _, strip := range strippers {
			checkGrowth(t, strip, prefix, repeated, suffix, 500)
		}
	})
}

func TestYAMLThatAliasesMakeLargeIsRefused(t *testing.T) {
	text := strings.Repeat("x", 100_000)
	for name, body := range map[string]string{
		"merged": "data: &a {a" + text + ": 1, b" + text + ": 2}\nitems: {<<: [" + strings.Repeat("*a,", 40) + "]}\n",
		"object": "data: &a " + text + "\nitems:\n" + strings.Repeat("- *a\n", 20_000),
		"keys":   "data: &a " + text + "\nitems:\n" + strings.Repeat("- *a : 1\n", 10_000),
	} {
		for _, method := range []string{http.MethodPost, http.MethodDelete} { // which has options
			if status, _ := sendBy(t, method, "application/yaml", body); status != http.StatusBadRequest {
				t.Errorf("%s, %s: status %d, want 400", method, name, status)
			}
		}
	}
	small := "data: &a x\nitems:\n" + strings.Repeat("- *a\n", 1000)
	if status, arrived := send(t, "application/yaml", small); status != http.StatusOK || !json.Valid([]byte(arrived)) {
		t.Errorf("aliases of something small: status %d", status)
	}
}

// countdown is a context that ends after it was asked a number of times.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

func TestWorkEndsWithTheRequest(t *testing.T) {
	for name, tc := range map[string]struct {
		strip stripper
		body  string
	}{
		"JSON":       {stripJSON, `{"metadata":{` + strings.Repeat(`"tenant":"a",`, 1000) + `"x":1}}`},
		"JSON patch": {stripJSONPatch, `[{"op":"add","path":"/metadata/tenant"}` + strings.Repeat(`,{"op":"add","path":"/metadata/tenant"}`, 1000) + `]`},
		"YAML":       {stripYAML, "metadata:\n  tenant: a\n" + strings.Repeat("#\n", 1000)},
	} {
		ctx := &countdown{Context: t.Context(), left: 1}
		if name == "YAML" { // whose parser is upstream's
			ctx.left = 0
		}
		stripped, err := tc.strip(ctx, []byte(tc.body), "a")
		if stripped != nil && bytes.Contains(stripped, []byte("tenant")) && err == nil {
			t.Errorf("%s: goes on", name)
		}
		if ctx.left >= 0 || err == nil && name != "JSON" {
			t.Errorf("%s: the request is asked whether it has ended %d times too few; error %v", name, ctx.left+1, err)
		}
	}
}

func TestReadingEndsWithTheRequest(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the client has gone")
	reads := 0
	reader := &contextReader{ctx: ctx, reader: readerFunc(func(p []byte) (int, error) {
		if reads++; reads == 3 {
			cancel(gone)
		}
		return copy(p, "x"), nil // and on and on
	})}
	if _, err := io.ReadAll(reader); !errors.Is(err, gone) || reads != 3 {
		t.Errorf("error %v after %d reads", err, reads)
	}
	handler := WithBody(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a request arrives that has ended")
	}), scheme.Codecs.WithoutConversion())
	request := newRequest(http.MethodPost, "application/json", strings.NewReader(`{"metadata":{"tenant":"a"}}`))
	response := httptest.NewRecorder()
	handler.ServeHTTP(response, request.WithContext(endedContext(request.Context())))
	if response.Code != http.StatusBadRequest {
		t.Errorf("status %d", response.Code)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func endedContext(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}

func TestMessagesDoNotRepeatTheBody(t *testing.T) {
	long := strings.Repeat("b", 1<<20)
	for _, value := range []any{long, map[string]any{long: long}, long + "\x00"} {
		if err := check(value, tenant.Name("a")); err == nil || len(err.Error()) > 1000 {
			t.Errorf("%T: no error, or a long one", value)
		}
	}
}

// TestAliasesOfYAML checks that upstream gets YAML with aliases without a key that is there
// again: it has an error for each, with all of its text, also when it has merged it itself.
func TestAliasesOfYAML(t *testing.T) {
	for name, body := range map[string]string{
		"as keys":       "x: &a key\ny: {*a : b, *a : c}\n",
		"as values":     "x: &a {b: c}\ny: [*a, *a]\n",
		"merged":        "x: &a {b: c}\nz: {<<: *a}\n",
		"merged often":  "x: &a {b: c, d: e}\nz: {<<: [*a, *a, *a]}\n",
		"merged before": "x: &a {b: c}\nz: {b: d, <<: *a, <<: *a}\n",
		"in UTF-16":     "\xfe\xff\x00" + strings.Join(strings.Split("x: &a {b: c}\nz: {<<: [*a, *a]}\n", ""), "\x00"),
	} {
		t.Run(name, func(t *testing.T) {
			passed, err := stripYAML(t.Context(), []byte(body), "acme")
			if err != nil {
				t.Fatal(err)
			}
			var want, got any
			if err := yaml.Unmarshal([]byte(body), &want); err != nil {
				t.Fatal(err)
			}
			if err := yaml.UnmarshalStrict(passed, &got); err != nil {
				t.Errorf("upstream gets %q: %v", passed, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, line := range []string{"%TAG !0! t:\n", "%TAG !0! t:\r", "%FOO\u2028", "%FOO\u0085"} {
		if _, err := stripYAML(t.Context(), []byte("\ufeff"+strings.Repeat(line, 11)+"---\na: b\n"), "acme"); err == nil || !strings.Contains(err.Error(), "begin with %") {
			t.Errorf("got %v of directives %q", err, line)
		}
	}
	wide := "\xff\xfe" + strings.Repeat(strings.Join(strings.Split("%TAG !0! t:", ""), "\x00")+"\x00\x28\x20", 11) // with U+2028
	if _, err := stripYAML(t.Context(), []byte(wide), "acme"); err == nil || !strings.Contains(err.Error(), "begin with %") {
		t.Errorf("got %v of directives in UTF-16", err)
	}
	if _, err := stripYAML(t.Context(), []byte("a: '"+strings.Repeat("é%s ö%s \u4e28% ", 100)+"'\n"), "acme"); err != nil {
		t.Error(err)
	}
	if _, err := stripYAML(t.Context(), []byte("%YAML 1.1\n---\na: |\n"+strings.Repeat("  % of a\n", 100)), "acme"); err != nil {
		t.Error(err)
	}
	repeated := []byte("a: {b: c, b: d}\nverbs: ['*']\n")
	if passed, err := stripYAML(t.Context(), repeated, "acme"); err != nil || !bytes.Equal(passed, repeated) {
		t.Errorf("got %q, %v of YAML without aliases", passed, err)
	}
	for _, body := range []string{"x: &a {b: *a}\n", "x: &a [&b [*a]]\n"} {
		if _, err := stripYAML(t.Context(), []byte(body), "acme"); err == nil || !strings.Contains(err.Error(), "an alias in what it stands for") {
			t.Errorf("got %v of %q", err, body)
		}
	}
	for message, body := range map[string]string{
		"elements in one list": "x: &a [" + strings.Repeat("b,", 10_001) + "]\ny: *a\n",
	} {
		status, got := sendIn(t, "a", http.MethodPost, "application/yaml", -1, []byte(body))
		if status != http.StatusRequestEntityTooLarge || !strings.Contains(got, message) {
			t.Errorf("got %d %q, want %q", status, got, message)
		}
	}
}
