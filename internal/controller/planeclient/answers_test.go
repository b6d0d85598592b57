package planeclient

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

const slowQuantity = `"1e-3000000"`

// using returns a Tenant that uses so much of so many resources.
func using(n int, quantity string) string {
	used := make([]string, n)
	for i := range used {
		used[i] = fmt.Sprintf(`"count/%d":%s`, i, quantity)
	}
	return `{"kind":"Tenant","apiVersion":"tenantry.io/v1alpha1","metadata":{"name":"acme"},"status":{"quota":{"used":{` + strings.Join(used, ",") + `}}}}`
}

// TestAnswersAreQuickToDecode checks that nobody gets an answer that takes hours to decode: neither a watch, nor a
// list, nor what a worker has asked for.
func TestAnswersAreQuickToDecode(t *testing.T) {
	var answer string
	c, address := clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	})
	one := &http.Client{Transport: &sharing{next: c.Transport, shares: NewShares(concurrency), of: types.NamespacedName{Namespace: "own", Name: "a"}}}
	event := func(object string) string { return `{"type":"ADDED","object":` + object + "}\n" }
	list := func(object string) string { return `{"kind":"TenantList","items":[` + object + `]}` }
	good := using(ObjectQuantities, `"1"`)
	for name, tc := range map[string]struct {
		client *http.Client
		query  string
		answer string
		// read is how much of it comes, and err what is said of the rest.
		read int
		err  string
	}{
		"a Tenant":          {one, "", good, len(good), ""},
		"a slow Tenant":     {one, "", using(1, slowQuantity), 0, "too long to decode"},
		"a large Tenant":    {one, "", using(ObjectQuantities+1, `"1"`), 0, "more than 1000 quantities"},
		"a list":            {c, "", list(good + "," + good), len(list(good + "," + good)), ""},
		"a slow list":       {c, "", list(using(1, slowQuantity)), 0, "too long to decode"},
		"a large list":      {c, "", list(using(answerQuantities+1, "1")), 0, "more than 500000 quantities"},
		"a watch":           {c, "?watch=true", event(good) + event(good), 2 * len(event(good)), ""},
		"a slow event":      {c, "?watch=true", event(good) + event(using(1, slowQuantity)), len(event(good)), "too long to decode"},
		"a large event":     {c, "?watch=true", event(good) + event(using(ObjectQuantities+1, "null")), len(event(good)), "more than 1000 quantities"},
		"half of an event":  {c, "?watch=true", event(good) + `{"type":`, len(event(good)), "unexpected EOF"},
		"no event":          {c, "?watch=true", event(good) + "k8s\x00", len(event(good)), "invalid character"},
		"an event in parts": {c, "?watch=true", strings.ReplaceAll(event(good), ",", ",\n\n"), len(strings.ReplaceAll(event(good), ",", ",\n\n")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			answer = tc.answer
			response, err := tc.client.Get(address + "/" + tc.query)
			var content []byte
			if err == nil {
				content, err = io.ReadAll(response.Body)
				response.Body.Close()
			}
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("got error %v, want %q", err, tc.err)
			}
			if want := strings.ReplaceAll(tc.answer[:tc.read], "}\n", "}"); strings.TrimSpace(string(content)) != strings.TrimSpace(want) {
				t.Errorf("got %d bytes, want %d", len(content), len(want))
			}
		})
	}
}
