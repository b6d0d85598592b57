package published

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
)

// TestReplaceWhatCannotBeChanged checks that a copy is deleted for another one only if that
// one is valid.
func TestReplaceWhatCannotBeChanged(t *testing.T) {
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "object", nil)
	taken := apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "object", field.ErrorList{field.Invalid(field.NewPath("spec", "clusterIPs"), "10.0.0.7", "provided IP is already allocated")})
	exists := apierrors.NewAlreadyExists(configMaps, "object")
	for name, tc := range map[string]struct {
		validation *apierrors.StatusError
		want       []string
		wantErr    bool
	}{
		"valid":   {exists, []string{"PUT", "POST dryRun", "DELETE", "POST"}, false},
		"taken":   {taken, []string{"PUT", "POST dryRun", "DELETE", "POST"}, false},
		"unknown": {apierrors.NewServiceUnavailable("later"), []string{"PUT", "POST dryRun"}, true},
		"invalid": {invalid, []string{"PUT", "POST dryRun"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				done, dryRun, status := req.Method, req.URL.Query().Has("dryRun"), invalid
				if dryRun {
					done, status = done+" dryRun", tc.validation
				}
				got = append(got, done)
				w.Header().Set("Content-Type", "application/json")
				if req.Method == http.MethodPut || dryRun {
					w.WriteHeader(int(status.ErrStatus.Code))
					status.ErrStatus.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
					_ = json.NewEncoder(w).Encode(status.ErrStatus)
					return
				}
				_, _ = w.Write([]byte(`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"object"}}`))
			}))
			t.Cleanup(server.Close)
			clients, err := newClients(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			r := &Reconciler{clients: clients, copies: newObservedCopies(func(Object) {})}
			if _, err := r.replace(t.Context(), "acme", desiredCopyOf(t, "configmaps", everything), 7); (err != nil) != tc.wantErr {
				t.Errorf("got error %v", err)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// TestRemovalIsNotAskedForAgainAndAgain checks that what a tenant's finalizer keeps is looked for
// less and less often.
func TestRemovalIsNotAskedForAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, o := &Reconciler{}, Object{Resource: namespaces, Name: "ns"}
		if got := backoff(r.removing(o)); got != soon {
			t.Errorf("at first after %v", got)
		}
		time.Sleep(20 * time.Second)
		if got := backoff(r.removing(o)); got != 5*time.Second {
			t.Errorf("after 20 seconds after %v", got)
		}
		time.Sleep(time.Hour)
		if got := backoff(r.removing(o)); got != seldom {
			t.Errorf("after an hour after %v", got)
		}
		if r.removed(o); len(r.removals) > 0 {
			t.Errorf("%v are remembered", r.removals)
		}
	})
}
