package spaces

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzRewrite checks that rewriting any document never panics, keeps it valid,
// and that unflattening what was flattened gives the document back.
func FuzzRewrite(f *testing.F) {
	f.Add([]byte(configMapOfA), true)
	f.Add([]byte(`{"items":[{"metadata":{"name":"a|b","ownerReferences":[{"name":"x","uid":"\u007c"}]}}]}`), true)
	f.Add([]byte(`{"endpoints":[{"targetRef":{"namespace":"ns"}}],"message":"x","status":{"conditions":[{"message":"m"}]}}`), false)
	f.Add([]byte(` [1, {"metadata" : null}, "\"", 1e9 ]`), false)
	f.Fuzz(func(t *testing.T, document []byte, identities bool) {
		flat, err := (&rewriter{space: "a", identities: identities}).rewrite(document, objectRules)
		if err != nil {
			return
		}
		if !json.Valid(flat) {
			t.Fatalf("%q became invalid: %q", document, flat)
		}
		back, err := (&rewriter{space: "a", identities: identities, unflatten: true}).rewrite(flat, objectRules)
		if err != nil {
			return // a namespace that is a foreign flattened name already
		}
		var want, got any
		if err := errors.Join(json.Unmarshal(document, &want), json.Unmarshal(back, &got)); err != nil {
			t.Fatalf("%q became invalid: %q: %v", document, back, err)
		}
		if mayHoldFlattened(document) {
			return // names with a separator do not survive
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("there and back (-want +got):\n%s", diff)
		}
	})
}
