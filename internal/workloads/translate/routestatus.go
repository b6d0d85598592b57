package translate

import (
	"regexp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

// RouteController is the controllerName of what spaces are told of HTTPRoutes on the host: that of the host's own is
// not theirs to know.
const RouteController gatewayv1.GatewayController = names.Prefix + "gateways"

// routeConditions are those of a route that spaces are shown.
var routeConditions = []string{string(gatewayv1.RouteConditionAccepted), string(gatewayv1.RouteConditionResolvedRefs), string(gatewayv1.RouteConditionPartiallyInvalid)}

var routeReason = regexp.MustCompile(`^[A-Za-z]{1,64}$`)

// RouteStatus returns what a space is told of an HTTPRoute of a generation there, for one of its parentRefs: the
// conditions of the host's route as it is now. Their messages are left out, because they may name what is others'. ok
// is whether the host says anything of that Gateway, also if it was of the route before its last change.
func RouteStatus(host *gatewayv1.HTTPRoute, ref gatewayv1.ParentReference, generation int64) (told gatewayv1.RouteParentStatus, ok bool) {
	told = gatewayv1.RouteParentStatus{ParentRef: ref, ControllerName: RouteController}
	for i := range host.Status.Parents {
		said := &host.Status.Parents[i]
		if !isSameParent(&said.ParentRef, &ref) {
			continue
		}
		ok = true
		for _, c := range said.Conditions {
			isKnown := slices.ContainsFunc(told.Conditions, func(t metav1.Condition) bool { return t.Type == c.Type })
			if c.ObservedGeneration != host.Generation || isKnown || !slices.Contains(routeConditions, c.Type) {
				continue
			}
			if !routeReason.MatchString(c.Reason) {
				c.Reason = "Unknown"
			}
			told.Conditions = append(told.Conditions, metav1.Condition{
				Type: c.Type, Status: c.Status, Reason: c.Reason, LastTransitionTime: c.LastTransitionTime, ObservedGeneration: generation,
			})
		}
	}
	return told, ok
}

// isSameParent reports whether two parentRefs are of the same Gateway and listener, whether or not they say what is the
// default.
func isSameParent(one, other *gatewayv1.ParentReference) bool {
	return GatewayOf(one) == GatewayOf(other) && ptr.Equal(one.SectionName, other.SectionName) && ptr.Equal(one.Port, other.Port)
}
