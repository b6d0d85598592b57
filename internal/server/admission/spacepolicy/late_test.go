package spacepolicy

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/authentication"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestLate checks that what was held until its namespace was gone, or another one, has no effect.
func TestLate(t *testing.T) {
	namespace := func(uid types.UID) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", UID: uid}}
	}
	ends := namespace("1")
	ends.DeletionTimestamp = new(metav1.Now())
	object := func(namespace, version string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "x", ResourceVersion: version}}
	}
	empty := &corev1.ConfigMap{}
	is := func(reason metav1.StatusReason) func(error) bool {
		return func(err error) bool { return apierrors.ReasonForError(err) == reason }
	}
	none := func(err error) bool { return err == nil }
	const there = types.UID("1") // when it was authorized
	for name, tc := range map[string]struct {
		noted         types.UID
		before, after runtime.Object
		found         *corev1.Namespace
		failed        error
		want          func(error) bool
	}{
		"created":                  {there, nil, object("ns", ""), namespace("1"), nil, none},
		"created, another":         {there, nil, object("ns", ""), namespace("2"), nil, is(metav1.StatusReasonConflict)},
		"created, gone":            {there, nil, object("ns", ""), nil, nil, is(metav1.StatusReasonNotFound)},
		"created, ends":            {there, nil, object("ns", ""), ends, nil, func(err error) bool { return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) }},
		"created, unknown":         {there, nil, object("ns", ""), nil, errors.New("down"), is(metav1.StatusReasonInternalError)},
		"created, since":           {"", nil, object("ns", ""), namespace("1"), nil, is(metav1.StatusReasonConflict)},
		"created, never there":     {"", nil, object("ns", ""), nil, nil, is(metav1.StatusReasonNotFound)},
		"cluster-scoped":           {there, nil, object("", ""), nil, errors.New("asked"), none},
		"a namespace":              {"", nil, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}, nil, errors.New("asked"), none},
		"a namespace, another":     {there, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", ResourceVersion: "1"}}, nil, namespace("2"), nil, is(metav1.StatusReasonConflict)},
		"a namespace, ends":        {there, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", ResourceVersion: "1"}}, nil, ends, nil, none},
		"updated, ends":            {there, object("ns", "1"), object("ns", "1"), ends, nil, none},
		"updated, another":         {there, object("ns", "1"), object("ns", "1"), namespace("2"), nil, is(metav1.StatusReasonConflict)},
		"updated, since":           {"", object("ns", "1"), object("ns", "1"), namespace("2"), nil, is(metav1.StatusReasonConflict)},
		"deleted, gone":            {there, object("ns", "1"), nil, nil, nil, none},
		"deleted, another":         {there, object("ns", "1"), nil, namespace("2"), nil, is(metav1.StatusReasonConflict)},
		"deleted, ends, no object": {there, empty, nil, ends, nil, none},
	} {
		t.Run(name, func(t *testing.T) {
			namespaces := Namespaces(func(flat tenant.Flat) (*corev1.Namespace, error) {
				if flat != tenant.Flatten("acme", "ns") {
					t.Errorf("asked for %q", flat)
				}
				if tc.found == nil && tc.failed == nil {
					return nil, apierrors.NewNotFound(schema.GroupResource{}, "ns")
				}
				return tc.found, tc.failed
			})
			ctx := tenant.WithSpace(t.Context(), "acme")
			tenant.RequestFrom(ctx).NoteNamespace(tc.noted)
			if err := namespaces.Protect(ctx, "acme", resourceOf(tc.before, tc.after), tc.before)(tc.after); !tc.want(err) {
				t.Errorf("got %v", err)
			}
		})
	}
	// Those of the server itself.
	if err := Namespaces(nil).Protect(t.Context(), "acme", schema.GroupResource{}, nil)(object("ns", "")); err != nil {
		t.Error(err)
	}
}

func resourceOf(objects ...runtime.Object) schema.GroupResource {
	for _, o := range objects {
		if _, is := o.(*corev1.Namespace); is {
			return corev1.Resource("namespaces")
		}
	}
	return corev1.Resource("configmaps")
}

// TestLateAdmission checks that what is answered without being stored, such as a token, is not about another namespace.
func TestLateAdmission(t *testing.T) {
	const there = types.UID("1")
	plugin, err := New(nil, Rules{Namespaces: func(name tenant.Flat) (*corev1.Namespace, error) {
		if name != "acme|ns" && name != "ns" {
			t.Errorf("asked for %q", name)
		}
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{UID: there}}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, space := range []tenant.Name{"acme", tenant.System} {
		for noted, another := range map[types.UID]bool{there: false, "2": true, "": true} {
			ctx := tenant.WithSpace(t.Context(), space)
			tenant.RequestFrom(ctx).NoteNamespace(noted)
			a := admission.NewAttributesRecord(&authentication.TokenRequest{}, nil, schema.GroupVersionKind{}, "ns", "default",
				schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}, "token", admission.Create, nil, false, member)
			if err := plugin.Validate(ctx, a, nil); apierrors.IsConflict(err) != another || !another && err != nil {
				t.Errorf("in %q, noted %q: got %v", space, noted, err)
			}
		}
	}
}
