package spacepolicy

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/tenantry/tenantry/internal/tenant"
)

// maxLimits are the containers of a pod times what the LimitRanges of its namespace say of one.
// Upstream adds all defaults to each container, and compares each container with each limit.
const maxLimits = 100_000

// checkLimits refuses pods to which LimitRanges would add very much.
func (r Rules) checkLimits(a admission.Attributes, n tenant.Name) error {
	pod, ok := a.GetObject().(*core.Pod)
	creates := a.GetOperation() == admission.Create && a.GetSubresource() == ""
	if !ok || r.LimitRanges == nil || !creates && a.GetSubresource() != "resize" {
		return nil
	}
	ranges, err := r.LimitRanges(n, a.GetNamespace())
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	containers, limits := len(pod.Spec.Containers)+len(pod.Spec.InitContainers), limitsOf(ranges)
	if containers*limits > maxLimits {
		return forbidden(a, fmt.Sprintf("it has %d containers, and the LimitRanges of its namespace say %d things of each: their product is at most %d in a space; "+
			"have fewer LimitRanges, or fewer resources in them", containers, limits, maxLimits))
	}
	return nil
}

// limitsOf returns how much LimitRanges say of a container.
func limitsOf(ranges []*corev1.LimitRange) (count int) {
	for _, r := range ranges {
		for i := range r.Spec.Limits {
			item := &r.Spec.Limits[i]
			count += thingsOf(item.Default, item.DefaultRequest, item.Max, item.Min, item.MaxLimitRequestRatio)
		}
	}
	return count
}

// thingsOf returns how much an item of a LimitRange says, in any version.
func thingsOf[Name comparable, Quantity any](lists ...map[Name]Quantity) int {
	count := 1
	for _, list := range lists {
		count += len(list)
	}
	return count
}
