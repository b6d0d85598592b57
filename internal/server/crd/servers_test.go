package crd

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/tenantry/tenantry/internal/server/storage"
	"github.com/tenantry/tenantry/internal/tenant"
)

// inMemory says where custom resources would be stored.
type inMemory struct{}

func (inMemory) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	return generic.RESTOptions{StorageConfig: &storagebackend.ConfigForResource{}, ResourcePrefix: resource.String()}, nil
}

// TestIsStarting checks that spaces are starting from the first list of definitions until what they have is served, and
// never again.
func TestIsStarting(t *testing.T) {
	for name, tc := range map[string]struct {
		of       *metav1.PartialObjectMetadata
		server   tenant.Name // that serves it
		starting map[tenant.Name]bool
	}{
		"a definition of a space":       {own("acme", "widgets.example.com"), "acme", map[tenant.Name]bool{"acme": true}},
		"a published one":               {shared("widgets.example.com", "7", isPublished), tenant.System, map[tenant.Name]bool{"acme": true, "globex": true}},
		"one of the system space alone": {own(tenant.System, "widgets.example.com"), tenant.System, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(Options{Definitions: NewDefinitions(), Ranges: &storage.Ranges{Custom: inMemory{}}})
			t.Cleanup(func() {
				s.queue.ShutDown()
				s.purges.ShutDown()
			})
			expect := func(when string, starting map[tenant.Name]bool) {
				t.Helper()
				for _, n := range []tenant.Name{"acme", "globex"} {
					if got := s.IsStarting(n); got != starting[n] {
						t.Errorf("%s, %q is starting: %t", when, n, got)
					}
				}
			}
			expect("before definitions are known", map[tenant.Name]bool{"acme": true, "globex": true})
			if err := s.Replace([]any{tc.of}, "7"); err != nil {
				t.Fatal(err)
			}
			expect("without a server", tc.starting)
			synced := false
			s.setRunning(tc.server, &server{hasSynced: func() bool { return synced }})
			expect("with a server that has not read them", tc.starting)
			synced = true
			expect("with a server", nil)
			s.setRunning(tc.server, nil)
			if err := s.Replace([]any{tc.of}, "8"); err != nil {
				t.Fatal(err)
			}
			expect("when definitions are listed again", nil)
		})
	}
}

// TestServeNone checks that nothing is starting where the API of definitions is disabled.
func TestServeNone(t *testing.T) {
	s := New(Options{Definitions: NewDefinitions()})
	t.Cleanup(func() {
		s.queue.ShutDown()
		s.purges.ShutDown()
	})
	if s.ServeNone(); s.IsStarting("acme") {
		t.Error("a space is starting")
	}
}
