package egress

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestUnknownReviews checks that no answer is taken if it is not known to what.
func TestUnknownReviews(t *testing.T) {
	req := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}"))
	for name, body := range map[string]func() (io.ReadCloser, error){
		"none":           nil,
		"an error":       func() (io.ReadCloser, error) { return nil, errTooLarge },
		"an error in it": func() (io.ReadCloser, error) { return io.NopCloser(iotest.ErrReader(errTooLarge)), nil },
	} {
		req.GetBody = body
		if _, err := (answers{}).read(req, io.NopCloser(strings.NewReader("{}"))); err == nil {
			t.Errorf("%s: no error", name)
		}
		if err := checkPatch(req, []byte(`[{"op":"copy","from":"/a","path":"/b"}]`)); err == nil {
			t.Errorf("%s: a patch of it is taken", name)
		}
	}
}

// TestConversions checks that a webhook does not make large objects of small ones when they are
// read.
func TestConversions(t *testing.T) {
	review := func(objects ...string) string {
		return `{"kind":"ConversionReview","request":{"desiredAPIVersion":"example.com/v2","objects":[` + strings.Join(objects, ",") + `]}}`
	}
	answer := func(objects ...string) string {
		return `{"kind":"ConversionReview","response":{"uid":"u","result":{"status":"Success"},"convertedObjects":[` + strings.Join(objects, ",") + `]}}`
	}
	object := func(data string) string {
		return `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},"data":` + data + `}`
	}
	list := func(n int, element string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "]"
	}
	small, large := object(`{}`), object(list(9_000, "1"))
	many := make([]string, 11_000)
	for i := range many {
		many[i] = small
	}
	for name, tc := range map[string]struct{ asked, answer, message string }{
		"as it was":        {review(small), answer(small), ""},
		"some more":        {review(small), answer(object(list(400, "1"))), ""},
		"much memory":      {review(small), answer(object(list(1_000, "{}"))), "bytes of memory"},
		"empty maps":       {review(object(list(9_000, "{}"))), answer(object(list(9_000, `{"":0}`))), "bytes of memory"},
		"maps of numbers":  {review(large), answer(object(list(9_000, `{"":0}`))), "bytes of memory"},
		"many bytes":       {review(small), answer(object(`"` + strings.Repeat("x", 20_000) + `"`)), "more than"},
		"fields of a text": {review(object(list(1_000, `"example.com:8080/path"`))), answer(object(list(1_000, `{"host":"example.com","port":8080,"protocol":"TCP","path":"/path","weight":1}`))), ""},
		"twice as large":   {review(large), answer(object(`[` + large + `,` + large + `]`)), ""},
		"a list":           {review(small, large), answer(small, large), ""},
		"a long list":      {review(many...), answer(many...), ""},
		"a list in one":    {review(large, large), answer(object(list(10_001, "1"))), "elements in one list"},
		"deep":             {review(large), answer(object(strings.Repeat("[", 300) + strings.Repeat("]", 300))), "levels of lists and maps"},
		"long paths":       {review(object(list(200, large))), answer(object(fmt.Sprintf(`{"%s":%s}`, strings.Repeat("k", 8_000), list(9_000, "1")))), "names that lead to"},
		"two responses": {review(large), strings.Replace(answer(object(strings.Repeat("[", 300)+strings.Repeat("]", 300))),
			`"response":`, `"response":{"convertedObjects":[]},"response":`, 1), "levels of lists and maps"},
		"no response":       {review(large), `{"kind":"ConversionReview"}`, ""},
		"no JSON":           {review(large), "no conversion", "no JSON object"},
		"no conversion":     {`{"kind":"AdmissionReview"}`, answer(object(list(10_001, "{}"))), ""},
		"what asks nothing": {"", answer(object(list(10_001, "{}"))), ""},
	} {
		t.Run(name, func(t *testing.T) {
			hook := httptest.NewServer(answering("application/json", tc.answer))
			defer hook.Close()
			response, err := clientOf(t).Post(hook.URL, "application/json", strings.NewReader(tc.asked))
			if err == nil {
				_ = response.Body.Close()
			}
			if (err != nil) != (tc.message != "") || err != nil && !strings.Contains(err.Error(), tc.message) {
				t.Errorf("got %v, want %q", err, tc.message)
			}
		})
	}
}

// TestGrownConversions checks that what webhooks make of many objects, or of those of a space that takes more than it
// may, does not take much more than they did.
func TestGrownConversions(t *testing.T) {
	defer grownBytes.Forget("acme")
	grownBytes.Forget("acme")
	exceeded := false
	a := answers{of: "acme", exceeded: func(tenant.Name) bool { return exceeded }}
	expect := func(what string, bytes int, refused bool) {
		t.Helper()
		if err := a.grows(bytes); (err != nil) != refused {
			t.Errorf("%s: %v", what, err)
		}
	}
	expect("some objects", grownAtOnce/2, false)
	expect("as many again", grownAtOnce/2, false)
	expect("more", grownAtOnce/2, true)
	expect("what takes twice as much", 0, false)
	grownBytes.Forget("acme")
	exceeded = true
	expect("a small one in a space that is full", 1, true)
	expect("what takes as much", -1000, false)

	hook := httptest.NewServer(answering("application/json", `{"kind":"ConversionReview","response":{"convertedObjects":[{"a":[{"b":1},{"b":1},{"b":1},{"b":1},{"b":1},{"b":1},{"b":1},{"b":1}]}]}}`))
	defer hook.Close()
	client := &http.Client{Transport: answers{http.DefaultTransport, "acme", a.exceeded}}
	for _, exceeded = range []bool{false, true} {
		response, err := client.Post(hook.URL, "application/json", strings.NewReader(`{"kind":"ConversionReview","request":{"objects":[{"a":1}]}}`))
		if err == nil {
			_ = response.Body.Close()
		}
		if (err != nil) != exceeded || err != nil && !strings.Contains(err.Error(), "more of memory than twice") {
			t.Errorf("exceeded %v: %v", exceeded, err)
		}
	}
}
