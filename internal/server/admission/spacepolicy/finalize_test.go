package spacepolicy

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestFinalize checks who takes out what keeps a namespace until it is empty.
func TestFinalize(t *testing.T) {
	member := &user.DefaultInfo{Name: "jane", Extra: map[string][]string{tenant.UserExtraKey: {"a"}}}
	controller := &user.DefaultInfo{Name: user.APIServerUser, Extra: map[string][]string{tenant.UserExtraKey: {tenant.System.String()}}}
	impersonated := &user.DefaultInfo{Name: "somebody"}
	plugin, err := New(nil, Rules{})
	if err != nil {
		t.Fatal(err)
	}
	const other core.FinalizerName = "example.com/other"
	for name, tc := range map[string]struct {
		space   tenant.Name
		user    user.Info
		was, is []core.FinalizerName
		refused bool
	}{
		"a user":                     {"a", member, []core.FinalizerName{core.FinalizerKubernetes}, nil, true},
		"a user, leaving others":     {"a", member, []core.FinalizerName{core.FinalizerKubernetes, other}, []core.FinalizerName{other}, true},
		"a user adds another":        {"a", member, []core.FinalizerName{core.FinalizerKubernetes}, []core.FinalizerName{core.FinalizerKubernetes, other}, false},
		"a user takes another out":   {"a", member, []core.FinalizerName{core.FinalizerKubernetes, other}, []core.FinalizerName{core.FinalizerKubernetes}, false},
		"a user, when it is out":     {"a", member, []core.FinalizerName{other}, nil, false},
		"the controller":             {"a", controller, []core.FinalizerName{core.FinalizerKubernetes}, nil, false},
		"a user of the system space": {tenant.System, controller, []core.FinalizerName{core.FinalizerKubernetes}, nil, false},
		"a user of the system's":     {"a", impersonated, []core.FinalizerName{core.FinalizerKubernetes}, nil, false},
		"nobody":                     {"a", nil, []core.FinalizerName{core.FinalizerKubernetes}, nil, true},
	} {
		is, was := &core.Namespace{Spec: core.NamespaceSpec{Finalizers: tc.is}}, &core.Namespace{Spec: core.NamespaceSpec{Finalizers: tc.was}}
		a := admission.NewAttributesRecord(is, was, schema.GroupVersionKind{}, "", "x", core.Resource("namespaces").WithVersion("v1"), "finalize", admission.Update, nil, false, tc.user)
		err := plugin.Validate(tenant.WithSpace(t.Context(), tc.space), a, nil)
		if (err != nil) != tc.refused || err != nil && tc.user != nil && !strings.Contains(err.Error(), notEmptied) {
			t.Errorf("%s: got %v", name, err)
		}
		if tc.user != impersonated {
			continue
		}
		ctx := tenant.WithRequest(t.Context(), &tenant.Request{Requested: tc.space.Scope(), Authenticated: "a"})
		if err := plugin.Validate(ctx, a, nil); err == nil {
			t.Errorf("%s, by one of the tenant: it is not refused", name)
		}
	}
}
