package crd

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/roundtrip"
	"github.com/tenantry/tenantry/internal/tenant"
)

// TestPurgeIsFair checks that a tenant whose webhook does not answer keeps others waiting for a short time.
func TestPurgeIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := func(req *http.Request, body string) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: req, Body: io.NopCloser(strings.NewReader(body))}, nil
		}
		var mu sync.Mutex
		deleted := map[string]time.Duration{}
		began := time.Now()
		config := &rest.Config{Transport: roundtrip.Func(func(req *http.Request) (*http.Response, error) {
			if req.Method == http.MethodGet {
				object := func(space, namespace string) string {
					return `{"metadata":{"name":"x","namespace":"` + namespace + `","annotations":{"` + tenant.Annotation + `":"` + space + `"}}}`
				}
				return answer(req, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[`+
					strings.Join([]string{object("acme", "a"), object("acme", "b"), object("acme", "c"), object("globex", "a")}, ",")+`]}`)
			}
			if strings.Contains(req.URL.Path, "acme") {
				<-req.Context().Done()
				return nil, req.Context().Err()
			}
			mu.Lock()
			defer mu.Unlock()
			deleted[req.URL.Path] = time.Since(began)
			return answer(req, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)
		})}
		s := New(Options{Definitions: NewDefinitions(), Config: &apiserver.Config{GenericConfig: &genericapiserver.RecommendedConfig{Config: genericapiserver.Config{LoopbackClientConfig: config}}}})
		left, err := s.deleteAll(t.Context(), schema.GroupVersionResource{Group: "x.io", Version: "v1", Resource: "things"})
		if left != 4 || err == nil || !strings.Contains(err.Error(), `in the space of tenant "acme"`) || strings.Contains(err.Error(), "globex") {
			t.Errorf("got %d, %v", left, err)
		}
		if took := time.Since(began); took != purgeTime {
			t.Errorf("it took %v", took)
		}
		if at, ok := deleted["/tenants/globex/apis/x.io/v1/namespaces/a/things"]; !ok || at != 0 || len(deleted) != 1 {
			t.Errorf("deleted: %v", deleted)
		}
		s.queue.ShutDown()
		s.purges.ShutDown()
	})
}
