package crd

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tenantry/tenantry/internal/tenant"
)

func TestPrepare(t *testing.T) {
	type meta = metav1.ObjectMeta
	marked := map[string]string{tenant.PublishedDefinitionLabel: tenant.PublishedCopy}
	held := []string{tenant.PublishedDefinitionFinalizer}
	deleted := &metav1.Time{}
	for name, tc := range map[string]struct {
		space       tenant.Name
		before      *meta
		after, want meta
		pending     bool // it has a condition that says so
	}{
		"not published":                {tenant.System, nil, meta{}, meta{}, false},
		"published":                    {tenant.System, nil, meta{Annotations: isPublished}, meta{Annotations: isPublished, Labels: marked, Finalizers: held}, false},
		"published later":              {tenant.System, &meta{}, meta{Annotations: isPublished}, meta{Annotations: isPublished, Labels: marked, Finalizers: held}, false},
		"not published any longer":     {tenant.System, &meta{Labels: marked, Finalizers: held}, meta{}, meta{Labels: marked, Finalizers: held}, false},
		"deleted":                      {tenant.System, &meta{Labels: marked, Finalizers: held, DeletionTimestamp: deleted}, meta{Labels: marked, DeletionTimestamp: deleted}, meta{Labels: marked, DeletionTimestamp: deleted}, false},
		"in a space":                   {"acme", nil, meta{Annotations: isPublished}, meta{Annotations: isPublished}, true},
		"in a space, changed":          {"acme", &meta{}, meta{}, meta{}, false},
		"in a space, marked by a user": {"acme", &meta{Labels: marked}, meta{}, meta{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var before runtime.Object
			if tc.before != nil {
				before = &apiextensions.CustomResourceDefinition{ObjectMeta: *tc.before}
			}
			definition := &apiextensions.CustomResourceDefinition{ObjectMeta: tc.after}
			if err := New(Options{Definitions: NewDefinitions()}).Prepare(t.Context(), tc.space, before)(definition); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, definition.ObjectMeta); diff != "" {
				t.Error(diff)
			}
			if got := len(definition.Status.Conditions) > 0; got != tc.pending {
				t.Errorf("it has a condition: %v, want %v", got, tc.pending)
			}
		})
	}
}
