package keystone

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/controller/spaceclient"
	"github.com/tenantry/tenantry/internal/tenant"
)

// TestNamespaceThatIsThere checks that a namespace that is there already is that of a project with all of its marks.
func TestNamespaceThatIsThere(t *testing.T) {
	namespace := func(label, id string) *corev1.Namespace {
		return &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{
			Name: "web", Labels: map[string]string{tenant.KeystoneLabel: label, "its": "own"}, Annotations: map[string]string{tenant.KeystoneIDAnnotation: id},
		}}
	}
	for name, tc := range map[string]struct {
		there *corev1.Namespace
		own   bool
	}{
		"made a moment ago":  {namespace(tenant.KeystoneProject, "p"), true},
		"a tenant's":         {&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, false},
		"of another project": {namespace(tenant.KeystoneProject, "q"), false},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			var answer any = tc.there
			if req.Method == http.MethodPost {
				w.WriteHeader(http.StatusConflict)
				answer = metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonAlreadyExists, Code: http.StatusConflict}
			}
			if err := json.NewEncoder(w).Encode(answer); err != nil {
				t.Error(err)
			}
		}))
		defer server.Close()
		spaces, err := spaceclient.New(&rest.Config{Host: server.URL}, fieldManager)
		if err != nil {
			t.Fatal(err)
		}
		w := &writer{spaces: spaces}
		err = w.applyNamespace(t.Context(), change{tenant: "acme", after: namespace(tenant.KeystoneProject, "p")})
		if taken := new(conflict); errors.As(err, taken) == tc.own || tc.own && err != nil {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
