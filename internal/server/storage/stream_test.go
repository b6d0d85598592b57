package storage

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/value"

	"github.com/tenantry/tenantry/internal/tenant"
)

func newStream() *Stream {
	r := &Ranges{}
	r.add("registry", "/pods/", etcdRange{resource: schema.GroupResource{Resource: "pods"}, namespaced: true})
	r.add("registry", "/services/specs/", etcdRange{resource: schema.GroupResource{Resource: "services"}, namespaced: true})
	r.add("registry", "/clusterroles/", etcdRange{resource: schema.GroupResource{Group: "rbac", Resource: "clusterroles"}})
	r.add("registry", "/example.com/widgets/", etcdRange{resource: schema.GroupResource{Group: "example.com", Resource: "widgets"}, custom: true})
	return &Stream{ranges: r, root: "/registry/", decode: func(data []byte, _ bool) (runtime.Object, error) {
		object := &unstructured.Unstructured{}
		return object, object.UnmarshalJSON(data)
	}}
}

func TestPlacesInStream(t *testing.T) {
	for key, want := range map[string]Place{
		"/registry/pods/ns/p":             {Space: tenant.System, Namespace: "ns", Name: "p"},
		"/registry/pods/acme/ns/p":        {Space: "acme", Namespace: "ns", Name: "p"},
		"/registry/services/specs/ns/s":   {Space: tenant.System, Namespace: "ns", Name: "s"},
		"/registry/clusterroles/system:x": {Space: tenant.System, Name: "system:x"},
		"/registry/clusterroles/acme/x":   {Space: "acme", Name: "x"},
		"/registry/pods/a/b/c/d":          {},
		"/registry/pods/p":                {},
		"/registry/masterleases/1":        {},
		"/registry/example.com/widgets/w": {}, // the object says it
	} {
		s := newStream()
		change, ok, err := s.change(key, nil, 1)
		if err != nil || ok != (want != Place{} || change.Custom) {
			t.Errorf("%s: %v, %v", key, ok, err)
		}
		if ok && change.Place != want {
			t.Errorf("%s: %+v", key, change.Place)
		}
	}
}

// TestStreamLooksAtTenants has objects whose tenant is not that of their key, which do not exist.
func TestStreamLooksAtTenants(t *testing.T) {
	for name, tc := range map[string]struct {
		key, owner, namespace string
		exists                bool
	}{
		"a tenant's":               {"/registry/pods/acme/ns/x", "acme", "ns", true},
		"the system's":             {"/registry/pods/ns/x", "", "ns", true},
		"another tenant's":         {"/registry/pods/acme/ns/x", "globex", "ns", false},
		"the system's by its data": {"/registry/pods/acme/ns/x", "", "ns", false},
		"a tenant's custom":        {"/registry/example.com/widgets/acme/ns/x", "acme", "ns", true},
		"without a namespace":      {"/registry/example.com/widgets/acme/x", "acme", "", true},
		"in the system's":          {"/registry/example.com/widgets/acme/x", "", "acme", true},
		"another's custom":         {"/registry/example.com/widgets/acme/ns/x", "globex", "ns", false},
	} {
		metadata := map[string]any{"name": "x", "namespace": tc.namespace}
		if tc.owner != "" {
			metadata["annotations"] = map[string]any{tenant.Former(tenant.Annotation): tc.owner}
		}
		data, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "X", "metadata": metadata})
		if err != nil {
			t.Fatal(err)
		}
		s := newStream()
		change, ok, err := s.change(tc.key, data, 7)
		if err != nil || !ok {
			t.Fatal(name, ok, err)
		}
		object, place, err := s.Decode(t.Context(), &change)
		if (err == nil) != tc.exists {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && (string(place.Space) != cmp.Or(tc.owner, "system") || place.Name != "x" || place.Namespace != tc.namespace || object == nil) {
			t.Errorf("%s: %+v", name, place)
		}
		if err != nil && !strings.Contains(err.Error(), tc.key) {
			t.Errorf("%s: %v does not name the key", name, err)
		}
	}
}

// sealed is a transformer that does not decrypt, as one whose key service does not answer.
type sealed struct{ value.Transformer }

func (sealed) TransformFromStorage(context.Context, []byte, value.Context) ([]byte, bool, error) {
	return nil, false, errors.New("no key")
}

// TestStreamTellsSealedFromBroken has objects that cannot be decrypted now, and ones that nobody can read.
func TestStreamTellsSealedFromBroken(t *testing.T) {
	s := newStream()
	s.ranges.add("registry", "/secrets/", etcdRange{resource: schema.GroupResource{Resource: "secrets"}, namespaced: true, transformer: sealed{}})
	for key, want := range map[string]bool{"/registry/secrets/acme/ns/s": true, "/registry/pods/acme/ns/p": false} {
		change, ok, err := s.change(key, []byte("no object"), 7)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		if _, _, err := s.Decode(t.Context(), &change); err == nil || errors.Is(err, ErrSealed) != want {
			t.Errorf("%s: %v", key, err)
		}
	}
}
