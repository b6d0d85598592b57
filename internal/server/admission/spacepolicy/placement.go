package spacepolicy

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

// platformLabels are keys of node labels that say what an image needs to run at
// all, not which node it is: Helm charts select by them as a matter of course.
var platformLabels = []string{"kubernetes.io/os", "kubernetes.io/arch"}

// defaultTaints are keys of taints that admission itself makes pods tolerate.
var defaultTaints = []string{"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}

// checkPlacement refuses what chooses nodes in a way that the tenant may not. An
// update may keep what is there already.
func (p *Plugin) checkPlacement(a admission.Attributes, n tenant.Name) error {
	rules := p.placement(n)
	if rules.Mode == v1alpha1.NodePlacementEnabled {
		return nil
	}
	own, err := tenant.OfUser(a.GetUserInfo())
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	// An administrator of the platform knows the nodes. The server's own
	// controllers do what objects of tenants say.
	if own == tenant.System && a.GetUserInfo().GetName() != user.APIServerUser {
		return nil
	}
	if binding, ok := a.GetObject().(*core.Binding); ok {
		return refusePlacement(a, rules, []string{fmt.Sprintf("target %q", binding.Target.Name)})
	}
	resource := a.GetResource().GroupResource()
	found, err := p.choices(resource, a.GetObject(), rules)
	if err != nil {
		return forbidden(a, err.Error())
	}
	if len(found) > 0 && a.GetOperation() == admission.Update {
		before, err := p.choices(resource, a.GetOldObject(), rules)
		if err != nil {
			before = nil // what is there already was not checked when it came
		}
		found = slices.DeleteFunc(found, func(choice string) bool { return slices.Contains(before, choice) })
	}
	return refusePlacement(a, rules, found)
}

func (p *Plugin) placement(n tenant.Name) *v1alpha1.NodePlacement {
	if p.rules.Placement != nil {
		if own := p.rules.Placement(n); own != nil {
			return own
		}
	}
	return &p.config.NodePlacement
}

func refusePlacement(a admission.Attributes, rules *v1alpha1.NodePlacement, found []string) error {
	if len(found) == 0 {
		return nil
	}
	scope := "is " + string(v1alpha1.NodePlacementDisabled)
	if rules.Mode == v1alpha1.NodePlacementLimited {
		scope = fmt.Sprintf("is %s to labels [%s] and taints [%s]",
			rules.Mode, strings.Join(rules.AllowedLabels, " "), strings.Join(rules.AllowedTaints, " "))
	}
	return forbidden(a, fmt.Sprintf("node placement %s in this tenant, which does not allow %s; remove it or ask the platform's administrators",
		scope, strings.Join(found, ", ")))
}

// choices returns what in an object chooses nodes against the rules.
func (p *Plugin) choices(resource schema.GroupResource, obj runtime.Object, rules *v1alpha1.NodePlacement) ([]string, error) {
	if custom, ok := obj.(*unstructured.Unstructured); ok {
		return p.customChoices(resource, custom, rules)
	}
	spec, path := podSpecOf(obj)
	if spec == nil {
		return nil, nil
	}
	return choicesOf(spec, path, rules), nil
}

// choicesOf returns what in the pod spec at path chooses nodes against the rules.
func choicesOf(spec *core.PodSpec, path string, rules *v1alpha1.NodePlacement) []string {
	var found []string
	add := func(format string, args ...any) { found = append(found, path+"."+fmt.Sprintf(format, args...)) }
	if spec.NodeName != "" {
		add("nodeName %q", spec.NodeName)
	}
	mayUse := func(key string) bool {
		return slices.Contains(platformLabels, key) || rules.Mode == v1alpha1.NodePlacementLimited && slices.Contains(rules.AllowedLabels, key)
	}
	for key := range spec.NodeSelector {
		if !mayUse(key) {
			add("nodeSelector %q", key)
		}
	}
	for _, term := range nodeTerms(spec.Affinity) {
		for _, requirement := range term.MatchExpressions {
			if !mayUse(requirement.Key) {
				add("affinity.nodeAffinity %q", requirement.Key)
			}
		}
		for _, requirement := range term.MatchFields {
			add("affinity.nodeAffinity of field %q", requirement.Key)
		}
	}
	for _, toleration := range spec.Tolerations {
		switch {
		case slices.Contains(defaultTaints, toleration.Key) && toleration.Effect == core.TaintEffectNoExecute:
		case toleration.Key == "":
			add("tolerations of every taint")
		case rules.Mode != v1alpha1.NodePlacementLimited || !slices.Contains(rules.AllowedTaints, toleration.Key):
			add("tolerations %q", toleration.Key)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func nodeTerms(affinity *core.Affinity) []core.NodeSelectorTerm {
	if affinity == nil || affinity.NodeAffinity == nil {
		return nil
	}
	var terms []core.NodeSelectorTerm
	if required := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		terms = append(terms, required.NodeSelectorTerms...)
	}
	for _, preferred := range affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
		terms = append(terms, preferred.Preference)
	}
	return terms
}
