package spacepolicy

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/rbac"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/server/storage/cachememory"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// askedPlugin is a plugin with all rules, in a space that has room for 10 webhooks, 10 CEL rules, and one pattern of
// 100 instructions.
type askedPlugin struct {
	*Plugin
	// changes are those of definitions that it has asked about.
	changes map[cachememory.DefinitionChange]bool
}

func newAsked(t *testing.T) askedPlugin {
	asked := askedPlugin{changes: map[cachememory.DefinitionChange]bool{}}
	disabled, inert := &v1alpha1.NodePlacement{Mode: v1alpha1.NodePlacementDisabled}, &v1alpha1.DaemonSets{Mode: v1alpha1.DaemonSetsInert}
	plugin, err := New(nil, Rules{
		Placement:  func(tenant.Name) *v1alpha1.NodePlacement { return disabled },
		DaemonSets: func(tenant.Name) *v1alpha1.DaemonSets { return inert },
		Definition: func(tenant.Name, schema.GroupResource) (*apiextensionsv1.CustomResourceDefinition, error) {
			return &apiextensionsv1.CustomResourceDefinition{}, nil
		},
		CheckDefinitionChange: func(_ context.Context, _ tenant.Name, _ schema.GroupResource, change cachememory.DefinitionChange) error {
			asked.changes[change] = true
			if change.Versions > 2 {
				return errors.New("they take too much memory")
			}
			return nil
		},
		UID: func(tenant.Name) types.UID { return "uid" },
		LimitRanges: func(tenant.Name, string) ([]*corev1.LimitRange, error) {
			return []*corev1.LimitRange{{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Max: corev1.ResourceList{"cpu": {}}}}}}}, nil
		},
		Namespaces: func(tenant.Flat) (*corev1.Namespace, error) {
			return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{UID: "ns"}}, nil
		},
		Workloads: func(tenant.Name) translate.Rules {
			return translate.Rules{Level: translate.Privileged, LoadBalancers: true}
		},
		Expressions: Expressions{
			Policies: func(tenant.Name) map[string]PolicyCosts {
				return map[string]PolicyCosts{"others": {Webhooks: maxWebhooksInSpace - 10}}
			},
			Definitions: func(tenant.Name) map[string]DefinitionCosts {
				return map[string]DefinitionCosts{"others": {Rules: maxRulesInSpace - 10}}
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := plugin.patterns.in(plugin.rules.lifeOf("a"))("before", maxKept-100-2*perPattern); err != nil {
		t.Fatal(err)
	}
	asked.Plugin = plugin
	return asked
}

// askedState is what a plugin remembers of requests.
type askedState struct {
	Policies    map[string]PolicyCosts
	Definitions map[string]DefinitionCosts
	Patterns    int
	Changes     []cachememory.DefinitionChange
}

func (p askedPlugin) state() askedState {
	s := askedState{
		Policies: map[string]PolicyCosts{}, Definitions: map[string]DefinitionCosts{},
		Patterns: p.patterns.of[p.rules.lifeOf("a")].instructions, Changes: slices.Collect(maps.Keys(p.changes)),
	}
	p.policies.include("a", s.Policies)
	p.definitions.include("a", s.Definitions)
	return s
}

// TestAskedTwice checks that no rule takes what it is asked for: it is asked twice for each request, and again when a
// write is tried again.
func TestAskedTwice(t *testing.T) {
	webhooks := func(count int) *admissionregistration.MutatingWebhookConfiguration {
		return &admissionregistration.MutatingWebhookConfiguration{Webhooks: make([]admissionregistration.MutatingWebhook, count)}
	}
	ruled := func(rules int) *apiextensions.CustomResourceDefinition {
		return definition(props{Type: "object", XValidations: make(apiextensions.ValidationRules, rules)})
	}
	versions := func(count int) *apiextensions.CustomResourceDefinition {
		return definition(slices.Repeat([]props{{Type: "object"}}, count)...)
	}
	for name, tc := range map[string]struct {
		resource    schema.GroupResource
		object, old runtime.Object
		refused     bool
	}{
		"webhooks":             {resource: admissionregistration.Resource("mutatingwebhookconfigurations"), object: webhooks(10)},
		"more webhooks":        {resource: admissionregistration.Resource("mutatingwebhookconfigurations"), object: webhooks(11), refused: true},
		"rules":                {object: ruled(10)},
		"more rules":           {object: ruled(11), refused: true},
		"a pattern":            {object: definition(with("a", pattern(100)))},
		"a longer pattern":     {object: definition(with("a", pattern(101))), refused: true},
		"a version":            {object: versions(2), old: versions(1)},
		"more versions":        {object: versions(3), old: versions(1), refused: true},
		"a custom resource":    {resource: schema.GroupResource{Group: "example.com", Resource: "widgets"}, object: customResource(map[string]any{"a": "b"}).GetObject()},
		"a pod":                {resource: core.Resource("pods"), object: asking("1")},
		"a pod of some nodes":  {resource: core.Resource("pods"), object: &core.Pod{Spec: selecting("disk")}, refused: true},
		"a pod of much":        {resource: core.Resource("pods"), object: &core.Pod{Spec: core.PodSpec{Containers: make([]core.Container, maxContainers+1)}}, refused: true},
		"a StatefulSet":        {resource: statefulSets, object: &apps.StatefulSet{Spec: apps.StatefulSetSpec{Replicas: MaxReplicas}}},
		"replicas":             {resource: statefulSets, object: &apps.StatefulSet{Spec: apps.StatefulSetSpec{Replicas: MaxReplicas + 1}}, refused: true},
		"a DaemonSet":          {resource: daemonSets, object: &apps.DaemonSet{}},
		"a pod of the nodes":   {resource: core.Resource("pods"), object: &core.Pod{Spec: core.PodSpec{HostNetwork: true}}, refused: true},
		"a Service":            {resource: core.Resource("services"), object: balancer(nil)},
		"a role":               {resource: rbac.Resource("clusterroles"), object: &rbac.ClusterRole{Rules: make([]rbac.PolicyRule, maxRoleRules)}},
		"a node":               {resource: core.Resource("nodes"), object: &core.Node{}, refused: true},
		"a ControllerRevision": {resource: apps.Resource("controllerrevisions"), object: &apps.ControllerRevision{}, refused: true},
		"an owner elsewhere": {resource: core.Resource("configmaps"), object: &core.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "../x", UID: "u"}}}}, refused: true},
	} {
		for _, dryRun := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				p, object, operation := newAsked(t), tc.object.DeepCopyObject(), admission.Create
				if tc.old != nil {
					operation = admission.Update
				}
				if tc.resource.Empty() {
					tc.resource = apiextensions.Resource("customresourcedefinitions")
				}
				a := admission.NewAttributesRecord(object, tc.old, schema.GroupVersionKind{}, "ns", "x", tc.resource.WithVersion("v1"), "", operation, nil, dryRun, member)
				ctx := tenant.WithSpace(t.Context(), "a")
				answer := func(ask func(context.Context, admission.Attributes, admission.ObjectInterfaces) error) string {
					if err := ask(ctx, a, nil); err != nil {
						return err.Error()
					}
					return ""
				}
				before := p.state()
				first := answer(p.Admit)
				if refused := first != ""; refused != tc.refused {
					t.Fatalf("the first answer is %q, want it refused: %v", first, tc.refused)
				}
				once, admitted := p.state(), object.DeepCopyObject()
				if dryRun { // but for patterns, which upstream has compiled, and keeps
					before.Patterns, before.Changes = once.Patterns, once.Changes
					if diff := cmp.Diff(before, once); diff != "" {
						t.Errorf("a dry run has changed the state: %s", diff)
					}
				}
				for range 2 {
					for phase, ask := range map[string]func(context.Context, admission.Attributes, admission.ObjectInterfaces) error{"Admit": p.Admit, "Validate": p.Validate} {
						if phase == "Validate" && first != "" {
							continue // it is not asked what Admit has refused, by rules of its own as well
						}
						if got := answer(ask); got != first {
							t.Errorf("%s answers %q, and at first it was %q", phase, got, first)
						}
						if diff := cmp.Diff(once, p.state()) + cmp.Diff(admitted, object); diff != "" {
							t.Errorf("%s has changed the state, or the object: %s", phase, diff)
						}
					}
				}
			})
		}
	}
}
