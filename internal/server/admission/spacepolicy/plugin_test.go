package spacepolicy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/tenantry/tenantry/internal/tenant"
)

// member is a user of tenant a.
var member = &user.DefaultInfo{Name: "u", Extra: map[string][]string{tenant.UserExtraKey: {"a"}}}

func TestPlugin(t *testing.T) {
	critical := &core.Pod{Spec: core.PodSpec{PriorityClassName: "system-cluster-critical"}}
	plugin, err := New(nil, Rules{})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		space       tenant.Name
		resource    schema.GroupResource
		subresource string
		namespace   string
		object      runtime.Object
		want        string
	}{
		"node in a space": {
			space: "a", resource: schema.GroupResource{Resource: "nodes"},
			want: `nodes "x" is forbidden: SpacePolicy: nodes belong to the system space`,
		},
		"node in the system space": {space: tenant.System, resource: schema.GroupResource{Resource: "nodes"}},
		"daemon set in a space": {
			space: "a", resource: schema.GroupResource{Group: "apps", Resource: "daemonsets"}, namespace: "ns",
			want: `daemonsets.apps "x" is forbidden: SpacePolicy: a space has no nodes to run a pod on each of; use a Deployment, or ` +
				`ask the platform's administrators for daemonSets: {mode: Inert} in the Tenant, which stores DaemonSets without running them`,
		},
		"CSI node in a space": {
			space: "a", resource: schema.GroupResource{Group: "storage.k8s.io", Resource: "csinodes"},
			want: `csinodes.storage.k8s.io "x" is forbidden: SpacePolicy: nodes belong to the system space`,
		},
		"a custom resource of the same name": {space: "a", resource: schema.GroupResource{Group: "example.com", Resource: "nodes"}},
		"deployment in a space":              {space: "a", resource: schema.GroupResource{Group: "apps", Resource: "deployments"}},
		"critical pod":                       {space: "a", resource: core.Resource("pods"), namespace: "ns", object: critical},
	} {
		t.Run(name, func(t *testing.T) {
			a := admission.NewAttributesRecord(tc.object, nil, schema.GroupVersionKind{}, tc.namespace, "x",
				tc.resource.WithVersion("v1"), tc.subresource, admission.Create, nil, false, member)
			ctx := tenant.WithSpace(t.Context(), tc.space)
			for phase, err := range map[string]error{"Admit": plugin.Admit(ctx, a, nil), "Validate": plugin.Validate(ctx, a, nil)} {
				got := ""
				if err != nil {
					got = err.Error()
				}
				if diff := cmp.Diff(tc.want, got); diff != "" || (err != nil) != apierrors.IsForbidden(err) {
					t.Errorf("%s: %v: %s", phase, err, diff)
				}
			}
		})
	}
}

func TestWithoutTenant(t *testing.T) {
	a := admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "", "x",
		core.Resource("nodes").WithVersion("v1"), "", admission.Create, nil, false, nil)
	if err := (&Plugin{}).Validate(t.Context(), a, nil); !apierrors.IsForbidden(err) {
		t.Errorf("got %v, want it forbidden", err)
	}
}

// validated has the plugin look at an object that is created or changed.
func validated(t *testing.T, space tenant.Name, kind schema.GroupVersionKind, resource string, object, old runtime.Object) error {
	t.Helper()
	plugin, err := New(nil, Rules{})
	if err != nil {
		t.Fatal(err)
	}
	operation := admission.Create
	if old != nil {
		operation = admission.Update
	}
	a := admission.NewAttributesRecord(object, old, kind, "", "x", kind.GroupVersion().WithResource(resource), "", operation, nil, false, nil)
	return plugin.Validate(tenant.WithSpace(t.Context(), space), a, nil)
}
