package network

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

// The labels of a host's pod that no policy of its tenant governs in a direction.
const (
	OpenIngressLabel = names.Prefix + "open-ingress"
	OpenEgressLabel  = names.Prefix + "open-egress"

	open = "true"
)

// Open is in which directions no policy of its tenant governs a pod.
type Open struct{ Ingress, Egress bool }

// Governed is which pods a policy governs, and in which directions.
type Governed struct {
	selector labels.Selector
	types    []networkingv1.PolicyType
}

// GovernedBy returns it. A policy whose selector cannot be read governs all pods.
func GovernedBy(policy *networkingv1.NetworkPolicy) *Governed {
	selector, err := metav1.LabelSelectorAsSelector(PodSelector(&policy.Spec.PodSelector))
	if err != nil {
		selector = labels.Everything()
	}
	return &Governed{selector, typesOf(policy)}
}

// OpenOf returns in which directions a pod is open, by what the policies of its namespace in the space govern.
func OpenOf(pod *corev1.Pod, all []*Governed) Open {
	o := Open{Ingress: true, Egress: true}
	for _, governed := range all {
		if governed.selector.Matches(labels.Set(pod.Labels)) {
			o.Ingress = o.Ingress && !slices.Contains(governed.types, networkingv1.PolicyTypeIngress)
			o.Egress = o.Egress && !slices.Contains(governed.types, networkingv1.PolicyTypeEgress)
		}
	}
	return o
}

// Label sets the labels that say so.
func (o Open) Label(on map[string]string) {
	delete(on, OpenIngressLabel)
	delete(on, OpenEgressLabel)
	if o.Ingress {
		on[OpenIngressLabel] = open
	}
	if o.Egress {
		on[OpenEgressLabel] = open
	}
}
