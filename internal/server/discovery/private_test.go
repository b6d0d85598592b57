package discovery

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestPrivate checks that no cache of several clients keeps what differs between spaces.
func TestPrivate(t *testing.T) {
	for path, want := range map[string]string{
		"/apis": "private, immutable", "/apis/": "private, immutable", "/api": "private, immutable", "/openapi/v3/apis/y.io/v1": "private, immutable",
		"/healthz": "public, immutable",
	} {
		for how, write := range map[string]func(http.ResponseWriter){
			"a body":   func(w http.ResponseWriter) { _, _ = w.Write([]byte("x")) },
			"a header": func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotModified) },
		} {
			response := httptest.NewRecorder()
			w := private(response, httptest.NewRequest(http.MethodGet, path, nil))
			w.Header().Set(cacheControl, "public, immutable")
			write(w)
			if got := response.Result().Header.Get(cacheControl); got != want {
				t.Errorf("%s, %s: %q, want %q", path, how, got, want)
			}
		}
	}
	response := httptest.NewRecorder()
	w := private(response, httptest.NewRequest(http.MethodGet, "/apis", nil))
	w.Header().Set(cacheControl, "no-cache")
	w.WriteHeader(http.StatusOK)
	if got := response.Header().Get(cacheControl); got != "no-cache" {
		t.Errorf("what no cache keeps: %q", got)
	}
}
