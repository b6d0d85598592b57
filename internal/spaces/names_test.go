package spaces

import (
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/roundtrip"
)

// TestNames checks that no request leaves a metadata client for another object than the
// one that was meant.
func TestNames(t *testing.T) {
	ctx := t.Context()
	config := &rest.Config{Transport: roundtrip.Func(func(req *http.Request) (*http.Response, error) {
		t.Errorf("%s %s was sent", req.Method, req.URL)
		return nil, http.ErrNotSupported
	})}
	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	for kind, config := range map[string]*rest.Config{"flattened": NewClientConfig(config), "identities": NewIdentityClientConfig(config)} {
		client, err := NewMetadataClient(config)
		if err != nil {
			t.Fatal(err)
		}
		in := func(namespace string) metadata.ResourceInterface {
			return client.Resource(configMaps).Namespace(namespace)
		}
		for name, do := range map[string]func() error{
			"get": func() error {
				_, err := in("a|ns").Get(ctx, "a|x/../../../../watch/secrets", metav1.GetOptions{})
				return err
			},
			"get of the space itself": func() error {
				_, err := client.Resource(configMaps).Get(ctx, "a|x/..", metav1.GetOptions{})
				return err
			},
			"parent":      func() error { _, err := in("a|ns").Get(ctx, "a|..", metav1.GetOptions{}); return err },
			"itself":      func() error { _, err := in("a|ns").Get(ctx, "a|.", metav1.GetOptions{}); return err },
			"nothing":     func() error { _, err := in("a|ns").Get(ctx, "a|", metav1.GetOptions{}); return err },
			"escaped":     func() error { _, err := in("a|ns").Get(ctx, "a|x%2f..", metav1.GetOptions{}); return err },
			"subresource": func() error { _, err := in("a|ns").Get(ctx, "a|x", metav1.GetOptions{}, "..", ".."); return err },
			"delete":      func() error { return in("a|ns").Delete(ctx, "a|x/../y", metav1.DeleteOptions{}) },
			"patch": func() error {
				_, err := in("a|ns").Patch(ctx, "a|x/../y", types.MergePatchType, nil, metav1.PatchOptions{})
				return err
			},
			"namespace": func() error { _, err := in("a|ns/../b").List(ctx, metav1.ListOptions{}); return err },
			"watch":     func() error { _, err := in("a|..").Watch(ctx, metav1.ListOptions{}); return err },
			"deletecollection": func() error {
				return in("a|ns/../..").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
			},
			"resource": func() error {
				_, err := client.Resource(schema.GroupVersionResource{Group: "g", Version: "v1", Resource: "a|x/.."}).List(ctx, metav1.ListOptions{})
				return err
			},
			"group": func() error {
				_, err := client.Resource(schema.GroupVersionResource{Group: "..", Version: "v1", Resource: "x"}).List(ctx, metav1.ListOptions{})
				return err
			},
		} {
			if err := do(); err == nil || !strings.Contains(err.Error(), "is refused") {
				t.Errorf("%s, %s: %v", kind, name, err)
			}
		}
	}
}

// TestPaths checks what the transport refuses of what arrives, whatever client made it.
func TestPaths(t *testing.T) {
	for path, want := range map[string]bool{
		"/api/v1/watch/secrets":                 false,
		"/apis/apps/v1/watch/deployments":       false,
		"/api/v1/namespaces/a|ns/pods/..":       false,
		"/api/v1/namespaces/a|../pods/x":        false,
		"/api/v1/namespaces/a|ns/pods/a|.":      false,
		"/api/v1/namespaces//pods/x":            false,
		"/api/v1/namespaces/a|/pods":            false,
		"/api/v1/pods/x%2f..":                   false,
		"/metrics":                              false,
		"/debug/pprof/profile":                  false,
		"/tenants/a/api/v1/pods":                false,
		"/":                                     false,
		"/api":                                  true,
		"/apis/":                                true,
		"/api/v1":                               true,
		"/apis/apps/v1":                         true,
		"/openapi/v3":                           true,
		"/version":                              true,
		"/api/v1/namespaces/a|watch":            true,
		"/api/v1/namespaces/watch/pods/watch":   true,
		"/apis/rbac.x/v1/clusterroles/system:x": true,
	} {
		if _, err := routeOf(path, nil); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}
