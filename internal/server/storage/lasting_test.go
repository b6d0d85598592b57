package storage

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestProtectNamespaces checks that what was held until its namespace was gone, or another one, has no effect.
func TestProtectNamespaces(t *testing.T) {
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
		"quick":                    {0, nil, object("ns", ""), nil, errors.New("asked"), none},
		"created":                  {before, nil, object("ns", ""), made(2 * before), nil, none},
		"cluster-scoped":           {before, nil, object("", ""), nil, errors.New("asked"), none},
		"created, gone":            {before, nil, object("ns", ""), nil, nil, is(metav1.StatusReasonNotFound)},
		"created, another":         {before, nil, object("ns", ""), made(before / 2), nil, is(metav1.StatusReasonConflict)},
		"created, ends":            {before, nil, object("ns", ""), deleted, nil, func(err error) bool { return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) }},
		"created, unknown":         {before, nil, object("ns", ""), nil, errors.New("down"), is(metav1.StatusReasonInternalError)},
		"created by update, gone":  {before, empty, object("ns", ""), nil, nil, is(metav1.StatusReasonNotFound)},
		"updated, ends":            {before, object("ns", "1"), object("ns", "1"), deleted, nil, none},
		"updated, another":         {before, object("ns", "1"), object("ns", "1"), made(before / 2), nil, is(metav1.StatusReasonConflict)},
		"deleted, gone":            {before, object("ns", "1"), nil, nil, nil, none},
		"deleted, another":         {before, object("ns", "1"), nil, made(before / 2), nil, is(metav1.StatusReasonConflict)},
		"deleted, ends, no object": {before, empty, nil, deleted, nil, none},
	} {
		t.Run(name, func(t *testing.T) {
			protect := ProtectNamespaces(func(flat tenant.Flat) (*corev1.Namespace, error) {
				if flat != tenant.Flatten("acme", "ns") {
					t.Errorf("asked for %q", flat)
				}
				if tc.found == nil && tc.failed == nil {
					return nil, apierrors.NewNotFound(schema.GroupResource{}, "ns")
				}
				return tc.found, tc.failed
			})
			ctx := request.WithReceivedTimestamp(t.Context(), time.Now().Add(tc.received))
			if err := protect(ctx, "acme", schema.GroupResource{Resource: "configmaps"}, tc.before)(tc.after); !tc.want(err) {
				t.Errorf("got %v", err)
			}
		})
	}
	// Those of the server itself.
	if err := ProtectNamespaces(nil)(t.Context(), "acme", schema.GroupResource{}, nil)(object("ns", "")); err != nil {
		t.Error(err)
	}
}
