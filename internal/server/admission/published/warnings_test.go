package published

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"
	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestMisnamed checks that who publishes by the prefix of all other annotations learns that nothing comes of it.
func TestMisnamed(t *testing.T) {
	of := func(key, value string) *core.ConfigMap {
		return &core.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", Annotations: map[string]string{key: value}}}
	}
	resource := schema.GroupResource{Resource: "configmaps"}
	rules := Rules{Publishable: []schema.GroupResource{resource}}
	const want = "annotation tenantry.io/published means nothing; the one that publishes an object is multi-tenancy.k8s.io/published"
	for name, tc := range map[string]struct {
		before, after *core.ConfigMap
		want          bool
	}{
		"new":       {after: of("tenantry.io/published", "true"), want: true},
		"added":     {before: of("a", "b"), after: of("tenantry.io/published", "true"), want: true},
		"changed":   {before: of("tenantry.io/published", "true"), after: of("tenantry.io/published", "force"), want: true},
		"unchanged": {before: of("tenantry.io/published", "true"), after: of("tenantry.io/published", "true")},
		"right":     {after: of("multi-tenancy.k8s.io/published", "true")},
		"removed":   {before: of("tenantry.io/published", "true"), after: of("a", "b")},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if tc.before == nil {
				got = rules.warning(resource, nil, tc.after)
			} else {
				got = rules.warning(resource, tc.before, tc.after)
			}
			if strings.Contains(got, want) != tc.want || !tc.want && got != "" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// TestEvaded checks that who publishes a policy whose parameters tenants write, or that is off where they are not read,
// learns so.
func TestEvaded(t *testing.T) {
	of := func(published bool, policy admissionregistration.FailurePolicyType, kind *admissionregistration.ParamKind) []runtime.Object {
		meta := metav1.ObjectMeta{Name: "x"}
		if published {
			meta.Annotations = map[string]string{tenant.PublishedAnnotation: "true"}
		}
		return []runtime.Object{
			&admissionregistration.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionregistration.ValidatingAdmissionPolicySpec{FailurePolicy: &policy, ParamKind: kind}},
			&admissionregistration.MutatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionregistration.MutatingAdmissionPolicySpec{FailurePolicy: &policy, ParamKind: kind}},
		}
	}
	kind := &admissionregistration.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
	own := &admissionregistration.ParamKind{APIVersion: "example.com/v1", Kind: "Limit"}
	bound := func(ref *admissionregistration.ParamRef) []runtime.Object {
		meta := metav1.ObjectMeta{Name: "x", Annotations: map[string]string{tenant.PublishedAnnotation: "true"}}
		return []runtime.Object{
			&admissionregistration.ValidatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionregistration.ValidatingAdmissionPolicyBindingSpec{ParamRef: ref}},
			&admissionregistration.MutatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionregistration.MutatingAdmissionPolicyBindingSpec{ParamRef: ref}},
		}
	}
	ignored := of(true, admissionregistration.Ignore, kind)
	for name, tc := range map[string]struct {
		before, after []runtime.Object
		want          string
	}{
		"new":                              {after: ignored, want: "has failurePolicy: Fail"},
		"published":                        {before: of(false, admissionregistration.Ignore, kind), after: ignored, want: "has failurePolicy: Fail"},
		"changed":                          {before: of(true, admissionregistration.Fail, kind), after: ignored, want: "has failurePolicy: Fail"},
		"of an own kind":                   {after: of(true, admissionregistration.Fail, own), want: "limits.example.com are not published, so the parameters are those that each tenant writes"},
		"unchanged":                        {before: ignored, after: ignored},
		"not published":                    {after: of(false, admissionregistration.Ignore, kind)},
		"fails":                            {after: of(true, admissionregistration.Fail, kind)},
		"of namespaces":                    {after: of(true, admissionregistration.Fail, &admissionregistration.ParamKind{APIVersion: "v1", Kind: "Namespace"})},
		"no parameters":                    {after: of(true, admissionregistration.Ignore, nil)},
		"bound to what each tenant writes": {after: bound(&admissionregistration.ParamRef{Name: "limits"}), want: "name the published namespace that has them"},
		"bound to what is published":       {after: bound(&admissionregistration.ParamRef{Name: "limits", Namespace: "house"})},
		"bound without parameters":         {after: bound(nil)},
		"another policy":                   {after: []runtime.Object{&core.ConfigMap{}}},
	} {
		t.Run(name, func(t *testing.T) {
			for i, after := range tc.after {
				resource := schema.GroupResource{Group: admissionregistration.GroupName, Resource: []string{"validatingadmissionpolicies", "mutatingadmissionpolicies"}[i]}
				var before runtime.Object
				if tc.before != nil {
					before = tc.before[i]
				}
				got := Rules{Publishable: []schema.GroupResource{resource, {Resource: "configmaps"}}}.warning(resource, before, after)
				if !strings.Contains(got, tc.want) || tc.want == "" && got != "" {
					t.Errorf("%T: %q", after, got)
				}
			}
		})
	}
}
