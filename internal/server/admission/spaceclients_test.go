package admission

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// TestWithin checks that names by which parameters of policies are looked for lead to nothing outside their space, with
// and without what upstream refuses of them.
func TestWithin(t *testing.T) {
	var asked, outside atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		asked.Add(1)
		if !strings.HasPrefix(req.URL.Path, "/tenants/acme/") || strings.Contains(req.URL.Path, "/..") {
			outside.Add(1)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}`))
	}))
	defer server.Close()
	all := newSpaceClients(&rest.Config{Host: server.URL})
	c, err := all.of("acme")
	if err != nil {
		t.Fatal(err)
	}
	configMaps := c.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"})
	if _, err := configMaps.Namespace("default").Get(t.Context(), "x", metav1.GetOptions{}); err != nil || asked.Load() != 1 {
		t.Errorf("its own is not read: %v", err)
	}
	for _, namespace := range []string{"../../../../globex/api/v1/namespaces/default", "..", ".", "a/b"} {
		if _, err := configMaps.Namespace(namespace).Get(t.Context(), "x", metav1.GetOptions{}); err == nil || asked.Load() != 1 {
			t.Errorf("namespace %q leads somewhere: %v", namespace, err)
		}
	}
	_, _ = configMaps.Namespace("%2e%2e").Get(t.Context(), "x", metav1.GetOptions{}) // which is a name, for who does not decode it twice
	client := within("/tenants/acme", server.Client())
	for path, want := range map[string]bool{
		"/tenants/acme/api/v1/pods": true, "/tenants/acme/../globex/api/v1/pods": false, "/tenants/acme2/api": false, "/api/v1/pods": false, "/tenants/acme/..": false,
	} {
		response, err := client.Get(server.URL + path)
		if (err == nil) != want {
			t.Errorf("%s is asked for: %v", path, err)
		}
		if err == nil {
			_ = response.Body.Close()
		}
	}
	if outside.Load() > 0 {
		t.Errorf("%d requests have left the space", outside.Load())
	}
}
