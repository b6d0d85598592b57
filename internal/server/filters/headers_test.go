package filters

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

// TestHeaders checks that headers are as long as they may be, and no longer.
func TestHeaders(t *testing.T) {
	groups := func(n int) http.Header {
		headers := http.Header{}
		for i := range n {
			headers.Add("Impersonate-Group", fmt.Sprint("g", i))
		}
		return headers
	}
	for name, tc := range map[string]struct {
		headers http.Header
		refused bool
	}{
		"none":              {http.Header{}, false},
		"longest":           {http.Header{"X": {strings.Repeat("x", maxHeaders-1)}}, false},
		"long":              {http.Header{"X": {strings.Repeat("x", maxHeaders)}}, true},
		"long together":     {http.Header{"X": {strings.Repeat("x", maxHeaders/2), strings.Repeat("x", maxHeaders/2)}}, true},
		"most groups":       {groups(maxImpersonated), false},
		"too many groups":   {groups(maxImpersonated + 1), true},
		"many other things": {http.Header{"X-Group": groups(maxImpersonated + 1)["Impersonate-Group"]}, false},
		"extra values":      {http.Header{"Impersonate-Extra-A": groups(maxImpersonated)["Impersonate-Group"], "Impersonate-Extra-B": {"b"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			served := false
			handler := WithTenant(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served = true }), legacyscheme.Codecs)
			req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/pods", nil)
			req.Header = tc.headers
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, req)
			if served == tc.refused || tc.refused && recorder.Code != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("served: %v, %d: %s", served, recorder.Code, recorder.Body)
			}
		})
	}
}
