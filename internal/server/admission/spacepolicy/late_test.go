package spacepolicy

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/pkg/apis/authentication"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestLate checks that what was held until its namespace was gone, or another one, has no effect.
func TestLate(t *testing.T) {
	const before = -10 * time.Second
	made := func(ago time.Duration) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", CreationTimestamp: metav1.NewTime(time.Now().Add(ago))}}
	}
	deleted := made(2 * before)
	deleted.DeletionTimestamp = new(metav1.Now())
	object := func(namespace, version string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "x", ResourceVersion: version}}
	}
	empty := &corev1.ConfigMap{}
	known := func(uid types.UID) *corev1.Namespace {
		ns := made(0)
		ns.UID = uid
		return ns
	}
	sameSecond := made(before)
	sameSecond.CreationTimestamp = metav1.NewTime(time.Now().Add(before).Truncate(time.Second))
	is := func(reason metav1.StatusReason) func(error) bool {
		return func(err error) bool { return apierrors.ReasonForError(err) == reason }
	}
	none := func(err error) bool { return err == nil }
	for name, tc := range map[string]struct {
		received      time.Duration
		before, after runtime.Object
		found         *corev1.Namespace
		failed        error
		want          func(error) bool
	}{
		"known, quick, another":    {0, nil, object("ns", ""), known("2"), nil, is(metav1.StatusReasonConflict)},
		"known, another":           {before, nil, object("ns", ""), known("2"), nil, is(metav1.StatusReasonConflict)},
		"known":                    {before, nil, object("ns", ""), known("1"), nil, none},
		"known, gone":              {0, nil, object("ns", ""), nil, nil, is(metav1.StatusReasonNotFound)},
		"in the same second":       {before, object("ns", "1"), object("ns", "1"), sameSecond, nil, is(metav1.StatusReasonConflict)},
		"quick":                    {0, nil, object("ns", ""), nil, errors.New("asked"), none},
		"created":                  {before, nil, object("ns", ""), made(2 * before), nil, none},
		"cluster-scoped":           {before, nil, object("", ""), nil, errors.New("asked"), none},
		"a namespace":              {before, nil, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}, nil, errors.New("asked"), none},
		"a namespace, another":     {before, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", ResourceVersion: "1"}}, nil, made(before / 2), nil, is(metav1.StatusReasonConflict)},
		"a namespace, ends":        {before, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", ResourceVersion: "1"}}, nil, deleted, nil, none},
		"created, gone":            {before, nil, object("ns", ""), nil, nil, is(metav1.StatusReasonNotFound)},
		"created, another":         {before, nil, object("ns", ""), made(before / 2), nil, is(metav1.StatusReasonConflict)},
		"created, ends":            {before, nil, object("ns", ""), deleted, nil, func(err error) bool { return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) }},
		"created, unknown":         {before, nil, object("ns", ""), nil, errors.New("down"), is(metav1.StatusReasonInternalError)},
		"updated, ends":            {before, object("ns", "1"), object("ns", "1"), deleted, nil, none},
		"updated, another":         {before, object("ns", "1"), object("ns", "1"), made(before / 2), nil, is(metav1.StatusReasonConflict)},
		"deleted, gone":            {before, object("ns", "1"), nil, nil, nil, none},
		"deleted, another":         {before, object("ns", "1"), nil, made(before / 2), nil, is(metav1.StatusReasonConflict)},
		"deleted, ends, no object": {before, empty, nil, deleted, nil, none},
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
			ctx := request.WithReceivedTimestamp(tenant.WithSpace(t.Context(), "acme"), time.Now().Add(tc.received))
			uid := types.UID("")
			if strings.HasPrefix(name, "known") {
				uid = "1"
			}
			tenant.RequestFrom(ctx).NoteNamespace(uid)
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
	received := time.Now().Add(-10 * time.Second)
	var created time.Time
	plugin, err := New(nil, Rules{Namespaces: func(name tenant.Flat) (*corev1.Namespace, error) {
		if name != "acme|ns" && name != "ns" {
			t.Errorf("asked for %q", name)
		}
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(created)}}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, space := range []tenant.Name{"acme", tenant.System} {
		for _, another := range []bool{false, true} {
			created = received.Add(-time.Minute)
			if another {
				created = received.Add(5 * time.Second)
			}
			ctx := request.WithReceivedTimestamp(tenant.WithSpace(t.Context(), space), received)
			tenant.RequestFrom(ctx).NoteNamespace("")
			a := admission.NewAttributesRecord(&authentication.TokenRequest{}, nil, schema.GroupVersionKind{}, "ns", "default",
				schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}, "token", admission.Create, nil, false, member)
			if err := plugin.Validate(ctx, a, nil); apierrors.IsConflict(err) != another || !another && err != nil {
				t.Errorf("in %q, another %v: got %v", space, another, err)
			}
		}
	}
}
