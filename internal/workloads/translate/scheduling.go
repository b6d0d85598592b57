package translate

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// What a pod may say about nodes and neighbours. The host has one scheduler for all tenants, which compares the terms
// of each pod with every node, and required anti-affinity with every pod of anybody.
const (
	maxTerms      = 32
	maxConditions = 500
	maxSpread     = 16
	maxTolerated  = 50
)

// checkScheduling refuses pods that cost the host's scheduler more than others.
func checkScheduling(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	asked := demandOf(spec)
	var errs field.ErrorList
	most := func(at *field.Path, count, most int, what string) {
		if count > most {
			errs = append(errs, field.Forbidden(at, fmt.Sprintf("it has %d %s, and a pod that runs on a host cluster has at most %d; remove some", count, what, most)))
		}
	}
	most(path.Child("affinity"), asked.terms, maxTerms, "terms")
	most(path.Child("topologySpreadConstraints"), len(spec.TopologySpreadConstraints), maxSpread, "constraints")
	most(path.Child("tolerations"), len(spec.Tolerations), maxTolerated, "tolerations")
	most(path, asked.conditions, maxConditions, "conditions and values in its nodeSelector, affinity and topologySpreadConstraints")
	return errs
}

// demand is how much a pod asks of a scheduler.
type demand struct{ terms, conditions int }

func demandOf(spec *corev1.PodSpec) demand {
	d := demand{conditions: len(spec.NodeSelector)}
	for i := range spec.TopologySpreadConstraints {
		d.selector(spec.TopologySpreadConstraints[i].LabelSelector)
		d.conditions += len(spec.TopologySpreadConstraints[i].MatchLabelKeys)
	}
	for _, term := range podTerms(spec.Affinity) {
		d.terms++
		d.selector(term.LabelSelector)
		d.conditions += len(term.MatchLabelKeys) + len(term.MismatchLabelKeys)
	}
	if spec.Affinity != nil && spec.Affinity.NodeAffinity != nil {
		nodes := spec.Affinity.NodeAffinity
		if required := nodes.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
			for i := range required.NodeSelectorTerms {
				d.nodes(&required.NodeSelectorTerms[i])
			}
		}
		for i := range nodes.PreferredDuringSchedulingIgnoredDuringExecution {
			d.nodes(&nodes.PreferredDuringSchedulingIgnoredDuringExecution[i].Preference)
		}
	}
	return d
}

func (d *demand) nodes(term *corev1.NodeSelectorTerm) {
	d.terms++
	for _, all := range [][]corev1.NodeSelectorRequirement{term.MatchExpressions, term.MatchFields} {
		for i := range all {
			d.conditions += 1 + len(all[i].Values)
		}
	}
}

// podTerms are the terms that are about other pods.
func podTerms(a *corev1.Affinity) (all []*corev1.PodAffinityTerm) {
	add := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		for i := range required {
			all = append(all, &required[i])
		}
		for i := range preferred {
			all = append(all, &preferred[i].PodAffinityTerm)
		}
	}
	if a != nil && a.PodAffinity != nil {
		add(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a != nil && a.PodAntiAffinity != nil {
		add(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return all
}

func (d *demand) selector(s *metav1.LabelSelector) {
	if s == nil {
		return
	}
	d.conditions += len(s.MatchLabels)
	for i := range s.MatchExpressions {
		d.conditions += 1 + len(s.MatchExpressions[i].Values)
	}
}
