package spacepolicy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/resource"
	"k8s.io/kubernetes/pkg/apis/storage"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

// platformLabels are keys of node labels that say which nodes can run an image, not which
// node it is. Helm charts commonly select by them.
var platformLabels = []string{"kubernetes.io/os", "kubernetes.io/arch"}

// topologyLabels are keys of node labels by which charts commonly spread pods.
// Other keys would select the nodes that have the label.
var topologyLabels = []string{
	"kubernetes.io/hostname", "topology.kubernetes.io/zone", "topology.kubernetes.io/region",
	"failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
}

// defaultTaints are taints that admission makes pods tolerate by default.
var defaultTaints = map[string]core.TaintEffect{
	"node.kubernetes.io/not-ready":       core.TaintEffectNoExecute,
	"node.kubernetes.io/unreachable":     core.TaintEffectNoExecute,
	"node.kubernetes.io/memory-pressure": core.TaintEffectNoSchedule,
}

// choice is a field of an object that selects nodes.
type choice struct {
	// what is for the error; value distinguishes choices of the same field.
	what, value string
}

// checkPlacement refuses fields that select nodes against the tenant's rules. An
// update may keep existing ones.
func (p *Plugin) checkPlacement(a admission.Attributes, n tenant.Name) error {
	rules := p.placement(n)
	if rules.Mode == v1alpha1.NodePlacementEnabled {
		return nil
	}
	userTenant, err := tenant.OfUser(a.GetUserInfo())
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	// Administrators of the platform may select nodes. The server's own controllers do what
	// objects of tenants say.
	if userTenant == tenant.System && a.GetUserInfo().GetName() != user.APIServerUser {
		return nil
	}
	if binding, ok := a.GetObject().(*core.Binding); ok {
		return refusePlacement(a, rules, []choice{{what: fmt.Sprintf("target %q", binding.Target.Name)}})
	}
	of := a.GetResource().GroupResource()
	found, err := p.choices(of, a.GetObject(), rules)
	if err == nil && a.GetSubresource() == "status" {
		found = append(found, nomination(a)...)
	}
	if err != nil {
		return forbidden(a, err.Error())
	}
	if len(found) > 0 && a.GetOperation() == admission.Update {
		before, err := p.choices(of, a.GetOldObject(), rules)
		if err != nil {
			before = nil // it was stored before it was checked
		}
		found = slices.DeleteFunc(found, func(c choice) bool { return slices.Contains(before, c) })
	}
	return refusePlacement(a, rules, found)
}

// nomination returns the node that a new status asks the scheduler to try first, unless
// the scheduler has set it.
func nomination(a admission.Attributes) []choice {
	pod, ok := a.GetObject().(*core.Pod)
	before, _ := a.GetOldObject().(*core.Pod)
	if !ok || pod.Status.NominatedNodeName == "" || before != nil && before.Status.NominatedNodeName == pod.Status.NominatedNodeName {
		return nil
	}
	return []choice{{what: fmt.Sprintf("status.nominatedNodeName %q", pod.Status.NominatedNodeName)}}
}

func (p *Plugin) placement(n tenant.Name) *v1alpha1.NodePlacement {
	return ownOr(n, p.rules.Placement, &p.config.NodePlacement)
}

func refusePlacement(a admission.Attributes, rules *v1alpha1.NodePlacement, found []choice) error {
	if len(found) == 0 {
		return nil
	}
	what := make([]string, len(found))
	for i := range found {
		what[i] = found[i].what
	}
	scope := "is " + string(v1alpha1.NodePlacementDisabled)
	if rules.Mode == v1alpha1.NodePlacementLimited {
		scope = fmt.Sprintf("is %s to labels [%s] and taints [%s]",
			rules.Mode, strings.Join(rules.AllowedLabels, " "), strings.Join(rules.AllowedTaints, " "))
	}
	return forbidden(a, fmt.Sprintf("node placement %s in this tenant, which does not allow %s; remove it, or ask the platform's administrators to allow it by nodePlacement of the Tenant",
		scope, strings.Join(slices.Compact(what), ", ")))
}

// choices returns the fields of an object that select nodes against the rules.
func (p *Plugin) choices(of schema.GroupResource, obj runtime.Object, rules *v1alpha1.NodePlacement) ([]choice, error) {
	if custom, ok := obj.(*unstructured.Unstructured); ok {
		return p.customChoices(of, custom, rules)
	}
	found := &finder{rules: rules}
	if _, spec, path := podOf(obj); spec != nil {
		found.inPod(spec, path)
	} else {
		found.inOther(obj)
	}
	return found.sorted(), nil
}

// finder finds fields that select nodes against the rules.
type finder struct {
	rules *v1alpha1.NodePlacement
	found []choice
}

func (f *finder) sorted() []choice {
	slices.SortFunc(f.found, func(a, b choice) int {
		return cmp.Or(cmp.Compare(a.what, b.what), cmp.Compare(a.value, b.value))
	})
	return slices.Compact(f.found)
}

func (f *finder) add(value any, format string, args ...any) {
	f.found = append(f.found, choice{what: fmt.Sprintf(format, args...), value: fmt.Sprint(value)})
}

// mayUse reports whether pods may select nodes by a label.
func (f *finder) mayUse(label string) bool {
	return slices.Contains(platformLabels, label) ||
		f.rules.Mode == v1alpha1.NodePlacementLimited && slices.Contains(f.rules.AllowedLabels, label)
}

func (f *finder) mayTolerate(t core.Toleration) bool {
	effect, ok := defaultTaints[t.Key]
	return ok && effect == t.Effect ||
		t.Key != "" && f.rules.Mode == v1alpha1.NodePlacementLimited && slices.Contains(f.rules.AllowedTaints, t.Key)
}

// inPod examines the pod spec at path.
func (f *finder) inPod(spec *core.PodSpec, path string) {
	if spec.NodeName != "" {
		f.add("", "%s.nodeName %q", path, spec.NodeName)
	}
	for key, value := range spec.NodeSelector {
		if !f.mayUse(key) {
			f.add(value, "%s.nodeSelector %q", path, key)
		}
	}
	f.inTerms(path+".affinity.nodeAffinity", nodeTerms(spec.Affinity))
	for _, constraint := range spec.TopologySpreadConstraints {
		f.inTopology(path+".topologySpreadConstraints", constraint.TopologyKey)
	}
	for _, term := range podTerms(spec.Affinity) {
		f.inTopology(path+".affinity", term.TopologyKey)
	}
	for _, toleration := range spec.Tolerations {
		switch {
		case f.mayTolerate(toleration):
		case toleration.Key == "":
			f.add(toleration.Effect, "%s.tolerations of every taint", path)
		default:
			f.add([]any{toleration.Operator, toleration.Value, toleration.Effect}, "%s.tolerations %q", path, toleration.Key)
		}
	}
}

func (f *finder) inTerms(path string, terms []core.NodeSelectorTerm) {
	for _, term := range terms {
		for _, requirement := range term.MatchExpressions {
			if !f.mayUse(requirement.Key) {
				f.add(requirement, "%s %q", path, requirement.Key)
			}
		}
		for _, requirement := range term.MatchFields {
			f.add(requirement, "%s of field %q", path, requirement.Key)
		}
	}
}

func (f *finder) inTopology(path, key string) {
	if !slices.Contains(topologyLabels, key) && !f.mayUse(key) {
		f.add("", "%s with topology key %q", path, key)
	}
}

// inOther examines objects that bind the pods that use them to nodes.
func (f *finder) inOther(obj runtime.Object) {
	switch o := obj.(type) {
	case *core.PersistentVolume:
		if o.Spec.NodeAffinity != nil && o.Spec.NodeAffinity.Required != nil {
			f.inTerms("spec.nodeAffinity", o.Spec.NodeAffinity.Required.NodeSelectorTerms)
		}
		for _, key := range topologyLabels[1:] { // the scheduler uses these labels of volumes
			if value, ok := o.Labels[key]; ok && !f.mayUse(key) {
				f.add(value, "metadata.labels %q", key)
			}
		}
	case *storage.StorageClass:
		for _, term := range o.AllowedTopologies {
			for _, requirement := range term.MatchLabelExpressions {
				if !f.mayUse(requirement.Key) {
					f.add(requirement, "allowedTopologies %q", requirement.Key)
				}
			}
		}
	case *resource.ResourceClaim:
		if allocated := o.Status.Allocation; allocated != nil && allocated.NodeSelector != nil {
			f.inTerms("status.allocation.nodeSelector", allocated.NodeSelector.NodeSelectorTerms)
		}
	}
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

func podTerms(affinity *core.Affinity) (terms []core.PodAffinityTerm) {
	if affinity == nil {
		return nil
	}
	var preferred []core.WeightedPodAffinityTerm
	if to := affinity.PodAffinity; to != nil {
		terms = append(terms, to.RequiredDuringSchedulingIgnoredDuringExecution...)
		preferred = append(preferred, to.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	if from := affinity.PodAntiAffinity; from != nil {
		terms = append(terms, from.RequiredDuringSchedulingIgnoredDuringExecution...)
		preferred = append(preferred, from.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	for i := range preferred {
		terms = append(terms, preferred[i].PodAffinityTerm)
	}
	return terms
}
