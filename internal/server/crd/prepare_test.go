package crd

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/server/storage"
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
			if err := New(Options{Definitions: NewDefinitions(), Ranges: &storage.Ranges{}}).Prepare(t.Context(), tc.space, before)(definition); err != nil {
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

// TestDefinitionsOfThePlatform checks that what is meant for a host cluster is not defined in the system space, where
// nothing would follow from it.
func TestDefinitionsOfThePlatform(t *testing.T) {
	definition := &apiextensions.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "controlplanes.tenantry.io"}}
	definition.Spec.Group = "tenantry.io"
	servers := New(Options{Definitions: NewDefinitions(), Ranges: &storage.Ranges{}})
	if err := servers.Prepare(t.Context(), tenant.System, nil)(definition); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "with the kubeconfig of that cluster") {
		t.Errorf("got %v", err)
	}
	if err := servers.Prepare(t.Context(), tenant.System, definition.DeepCopy())(definition); err != nil {
		t.Errorf("one that is there: %v", err)
	}
}

// What the status says of how a definition is served is not for users of its space: upstream leaves the objects of one
// that was never established.
func TestKeepServed(t *testing.T) {
	type condition = apiextensions.CustomResourceDefinitionCondition
	established := condition{Type: apiextensions.Established, Status: apiextensions.ConditionTrue}
	refused := condition{Type: apiextensions.Established, Status: apiextensions.ConditionFalse}
	accepted := condition{Type: apiextensions.NamesAccepted, Status: apiextensions.ConditionTrue}
	own := condition{Type: "Own", Status: apiextensions.ConditionTrue}
	for name, tc := range map[string]struct {
		user            tenant.Name
		was, sent, want []condition
	}{
		"another":         {"acme", []condition{established, accepted}, []condition{refused, accepted, own}, []condition{accepted, own, established}},
		"none":            {"acme", []condition{accepted, established}, nil, []condition{established, accepted}},
		"early":           {"acme", nil, []condition{established}, nil},
		"the same":        {"acme", []condition{accepted, established}, []condition{accepted, established}, []condition{accepted, established}},
		"by the platform": {tenant.System, []condition{established}, []condition{refused}, []condition{refused}},
	} {
		t.Run(name, func(t *testing.T) {
			was, is := &apiextensions.CustomResourceDefinition{}, &apiextensions.CustomResourceDefinition{}
			was.Status.Conditions, is.Status.Conditions = tc.was, tc.sent
			ctx := request.WithUser(t.Context(), &user.DefaultInfo{Extra: map[string][]string{tenant.UserExtraKey: {string(tc.user)}}})
			if err := New(Options{Definitions: NewDefinitions(), Ranges: &storage.Ranges{}}).Prepare(ctx, "acme", was)(is); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, is.Status.Conditions, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
