package storage

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
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
	for key, want := range map[string]ObjectKey{
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
		if err != nil || ok != (want != ObjectKey{} || change.Custom) {
			t.Errorf("%s: %v, %v", key, ok, err)
		}
		if ok && change.Object != want {
			t.Errorf("%s: %+v", key, change.Object)
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
		object, found, err := s.Decode(t.Context(), &change)
		if (err == nil) != tc.exists {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && (string(found.Space) != cmp.Or(tc.owner, "system") || found.Name != "x" || found.Namespace != tc.namespace || object == nil) {
			t.Errorf("%s: %+v", name, found)
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

// followed notes what it is told.
type followed struct {
	t      *testing.T
	cancel context.CancelFunc
	// until is the revision at which it ends.
	until           int64
	listed          []string
	revision, since int64
	changed         []int64
	reached         int64
}

func (f *followed) Changed(_ context.Context, changes []StoredChange) error {
	for i := range changes {
		if f.revision == 0 {
			f.listed = append(f.listed, changes[i].Key)
			continue
		}
		if changes[i].Revision <= f.reached {
			f.t.Errorf("a change at %d comes after %d was reached", changes[i].Revision, f.reached)
		}
		f.changed = append(f.changed, changes[i].Revision)
	}
	return nil
}

func (f *followed) Listed(revision, since int64) { f.revision, f.since = revision, since }

func (f *followed) Reached(revision int64) {
	if f.reached = revision; revision >= f.until {
		f.cancel()
	}
}

// TestStreamThatIsBehind goes on from where thousands of changes have come since: it is at none of them before it has
// told of those before it.
func TestStreamThatIsBehind(t *testing.T) {
	b := newBackend(t)
	s := newStream()
	s.client = b.server.Client()
	put := func(key string) int64 {
		t.Helper()
		response, err := s.client.Put(t.Context(), key, "{}")
		if err != nil {
			t.Fatal(err)
		}
		return response.Header.Revision
	}
	since := put("/registry/pods/acme/ns/before")
	role := put("/registry/clusterroles/acme/x")
	const count = 3500
	last := int64(0)
	for range count {
		last = put("/registry/pods/acme/ns/p")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := &followed{t: t, cancel: cancel, until: last}
	err := s.Resume(ctx, f, since, func(resource schema.GroupResource) bool { return resource.Resource == "clusterroles" })
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if len(f.changed) != count+1 || f.changed[0] != role || !slices.IsSorted(f.changed) {
		t.Errorf("%d changes", len(f.changed))
	}
	if !slices.Equal(f.listed, []string{"/registry/clusterroles/acme/x"}) || f.revision != last || f.since != since {
		t.Errorf("listed %v at %d, since %d", f.listed, f.revision, f.since)
	}
	if _, err := s.client.Compact(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	err = s.Resume(t.Context(), &followed{t: t, cancel: cancel, until: last}, since, func(schema.GroupResource) bool { return true })
	if !errors.Is(err, ErrCompacted) {
		t.Errorf("after a compaction: %v", err)
	}
}

// TestHad tells an etcd from one with another past.
func TestHad(t *testing.T) {
	b := newBackend(t)
	s := newStream()
	s.client = b.server.Client()
	response, err := s.client.Put(t.Context(), "/registry/pods/acme/ns/p", `{"a":1}`)
	if err != nil {
		t.Fatal(err)
	}
	at := response.Header.Revision
	change := StoredChange{Key: "/registry/pods/acme/ns/p", Revision: at, stored: []byte(`{"a":1}`)}
	other := StoredChange{stored: []byte(`{"a":2}`)}
	if _, err := s.client.Delete(t.Context(), change.Key); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		key, sum string
		revision int64
		had      bool
	}{
		"the change":       {change.Key, change.Sum(), at, true},
		"another value":    {change.Key, other.Sum(), at, false},
		"another revision": {change.Key, change.Sum(), at - 1, false},
		"one to come":      {change.Key, change.Sum(), at + 100, false},
		"its deletion":     {change.Key, change.Sum(), at + 1, false},
		"another key":      {change.Key + "x", change.Sum(), at, false},
	} {
		if had, err := s.Had(t.Context(), tc.key, tc.revision, tc.sum); err != nil || had != tc.had {
			t.Errorf("%s: %v, %v", name, had, err)
		}
	}
	if _, err := s.client.Compact(t.Context(), at+1); err != nil {
		t.Fatal(err)
	}
	if had, err := s.Had(t.Context(), change.Key, at, change.Sum()); err != nil || had {
		t.Errorf("what is forgotten: %v, %v", had, err)
	}
	dropped := change
	if dropped.Drop(); dropped.Sum() != "" || !dropped.IsDropped() {
		t.Error("what was let go has a sum")
	}
	if revision, err := s.Read(t.Context(), &dropped); err != nil || !dropped.Deleted || dropped.IsDropped() || revision != at+1 {
		t.Errorf("%+v, %d, %v", dropped, revision, err)
	}
	if _, err := s.client.Put(t.Context(), change.Key, `{"a":3}`); err != nil {
		t.Fatal(err)
	}
	if revision, err := s.Read(t.Context(), &dropped); err != nil || dropped.Deleted || string(dropped.stored) != `{"a":3}` || revision != at+2 || dropped.Revision != at+2 {
		t.Errorf("%+v, %d, %v", dropped, revision, err)
	}
}

// TestSpacesOfChanges tells whose a change is by its key.
func TestSpacesOfChanges(t *testing.T) {
	for key, want := range map[string]struct {
		space tenant.Name
		sure  bool
	}{
		"/registry/pods/ns/p":                     {tenant.System, true},
		"/registry/pods/acme/ns/p":                {"acme", true},
		"/registry/clusterroles/acme/x":           {"acme", true},
		"/registry/example.com/widgets/w":         {tenant.System, true},
		"/registry/example.com/widgets/acme/ns/w": {"acme", true},
		"/registry/example.com/widgets/acme/w":    {"acme", false},
	} {
		change, ok, err := newStream().change(key, nil, 1)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		if space, sure := change.Space(); space != want.space || sure != want.sure {
			t.Errorf("%s: %s, %v", key, space, sure)
		}
	}
}
