package v1alpha1

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// HostOperator is the name of the operator of a host cluster as a user of the system space. It
// writes there what Tenants of the host say, within the limits of the ControlPlane.
const HostOperator = "tenantry-operator"

// TenantLimits are the most that Tenants of a host cluster may ask for. What a Tenant says
// nothing of is as the servers and the manager have it for all.
// +k8s:openapi-gen=false
type TenantLimits struct {
	// nodePlacement is how far pods may choose their nodes at most. Defaults to mode Disabled.
	// +optional
	NodePlacement *NodePlacement `json:"nodePlacement,omitempty"`
	// daemonSets is what may become of DaemonSets: with mode Refused no Tenant may ask for
	// Inert. Defaults to mode Inert.
	// +optional
	DaemonSets *DaemonSets `json:"daemonSets,omitempty"`
	// workloads is the most that pods and Services may on the host cluster that runs them: podSecurity
	// is the level that allows the most, which defaults to baseline, and with nodePorts or loadBalancers
	// Refused, the default, no Tenant may ask for Allowed. hostNames, ingressClasses, ingressAnnotations and
	// loadBalancerAnnotations are all that Tenants may ask for.
	// +optional
	Workloads *Workloads `json:"workloads,omitempty"`
	// rateLimit is the highest. Where it has a number, a Tenant cannot ask for more, or for no
	// limit.
	// +optional
	RateLimit *RateLimit `json:"rateLimit,omitempty"`
	// requestLimit is the highest, likewise.
	// +optional
	RequestLimit *RequestLimit `json:"requestLimit,omitempty"`
	// quota is the highest of each resource that it names. A Tenant that has a quota must limit
	// these resources, too, and has no extended one, requests.DOMAIN/RESOURCE, that is not here.
	// +optional
	// +kubebuilder:validation:MaxProperties=128
	// +kubebuilder:validation:XValidation:rule="self.all(k, type(self[k]) == int ? self[k] >= 0 : !self[k].startsWith('-'))",message="a limit must not be negative"
	Quota map[corev1.ResourceName]resource.Quantity `json:"quota,omitempty"`
	// auditPolicy is how much or little of a Tenant may be logged because it says so. By default
	// none may have an auditPolicy, which would take the place of the ControlPlane's: it could
	// have nothing logged, or fill the log that all share.
	// +optional
	AuditPolicy *AuditPolicyLimits `json:"auditPolicy,omitempty"`
}

// AuditPolicyLimits are the least and the most that an auditPolicy may have logged.
// +k8s:openapi-gen=false
// +kubebuilder:validation:XValidation:rule="self.least == 'None' || self.most == 'RequestResponse' || self.most == 'Request' && self.least != 'RequestResponse' || self.most == 'Metadata' && self.least == 'Metadata'",message="least must not be more than most"
type AuditPolicyLimits struct {
	// least is the lowest level of a rule. With more than None, the last rule must be about all
	// requests, and no request may be left out at its end.
	// +optional
	// +kubebuilder:default=Metadata
	// +kubebuilder:validation:Enum=None;Metadata;Request;RequestResponse
	Least auditv1.Level `json:"least,omitempty"`
	// most is the highest level of a rule.
	// +optional
	// +kubebuilder:default=RequestResponse
	// +kubebuilder:validation:Enum=None;Metadata;Request;RequestResponse
	Most auditv1.Level `json:"most,omitempty"`
}

// Validate returns what of a wanted spec, at a path, is beyond the limits. What is as it was
// before is not looked at, so that lower limits keep nobody from changing something else. A word
// that is not known, on either side, is beyond them.
func (l *TenantLimits) Validate(wanted, before *TenantSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	check := func(name string, after, before any, problem func() string) {
		if apiequality.Semantic.DeepEqual(after, before) {
			return
		}
		if message := problem(); message != "" {
			errs = append(errs, field.Forbidden(path.Child(name), message+
				": ask for less, or let the platform raise spec.tenantLimits."+name+" of the ControlPlane"))
		}
	}
	check("nodePlacement", wanted.NodePlacement, before.NodePlacement, func() string { return l.placement(wanted.NodePlacement) })
	check("daemonSets", wanted.DaemonSets, before.DaemonSets, func() string { return l.daemonSets(wanted.DaemonSets) })
	check("workloads", wanted.Workloads, before.Workloads, func() string { return l.workloads(wanted.Workloads) })
	check("rateLimit", wanted.RateLimit, before.RateLimit, func() string { return l.rate(wanted.RateLimit) })
	check("requestLimit", wanted.RequestLimit, before.RequestLimit, func() string { return l.size(wanted.RequestLimit) })
	check("auditPolicy", wanted.AuditPolicy, before.AuditPolicy, func() string { return l.audit(wanted.AuditPolicy) })
	check("quota", wanted.Quota, before.Quota, func() string { return l.most(wanted.Quota) })
	return errs
}

func (l *TenantLimits) placement(wanted *NodePlacement) string {
	most := NodePlacement{Mode: NodePlacementDisabled}
	if l.NodePlacement != nil {
		most = *l.NodePlacement
	}
	switch {
	case wanted == nil, wanted.Mode == NodePlacementDisabled, most.Mode == NodePlacementEnabled:
		return ""
	case wanted.Mode != NodePlacementLimited, most.Mode != NodePlacementLimited:
		return fmt.Sprintf("Tenants of this host may have mode %s at most", most.Mode)
	}
	for what, keys := range map[string][2][]string{
		"labels": {wanted.AllowedLabels, most.AllowedLabels}, "taints": {wanted.AllowedTaints, most.AllowedTaints},
	} {
		for _, key := range keys[0] {
			if !slices.Contains(keys[1], key) {
				return fmt.Sprintf("%q is not one of the %s of nodes that Tenants of this host may choose by", key, what)
			}
		}
	}
	return ""
}

func (l *TenantLimits) daemonSets(wanted *DaemonSets) string {
	if wanted == nil || wanted.Mode == DaemonSetsRefused || l.DaemonSets == nil || l.DaemonSets.Mode == DaemonSetsInert {
		return ""
	}
	return "Tenants of this host may have no DaemonSets"
}

// auditLevels are those of rules, from the least to the most.
var auditLevels = []auditv1.Level{auditv1.LevelNone, auditv1.LevelMetadata, auditv1.LevelRequest, auditv1.LevelRequestResponse}

func (l *TenantLimits) audit(wanted *AuditPolicy) string {
	switch {
	case wanted == nil:
		return ""
	case l.AuditPolicy == nil:
		return "Tenants of this host may have no auditPolicy of their own"
	}
	least := cmp.Or(l.AuditPolicy.Least, auditv1.LevelMetadata)
	most := cmp.Or(l.AuditPolicy.Most, auditv1.LevelRequestResponse)
	lowest, highest := slices.Index(auditLevels, least), slices.Index(auditLevels, most)
	if lowest < 0 || highest < 0 {
		return fmt.Sprintf("the levels that Tenants of this host may have, from %q to %q, are not known", least, most)
	}
	for i, rule := range wanted.Rules {
		level := slices.Index(auditLevels, rule.Level)
		switch {
		case level < 0:
			return fmt.Sprintf("rules[%d] has level %q, which is not known", i, rule.Level)
		case level > highest:
			return fmt.Sprintf("rules[%d] has level %s, and Tenants of this host may have %s at most", i, rule.Level, most)
		case least == auditv1.LevelNone:
		case level < lowest:
			return fmt.Sprintf("rules[%d] has level %s, and Tenants of this host have %s at least", i, rule.Level, least)
		case omitsEnds(rule.OmitStages):
			return fmt.Sprintf("rules[%d] omits the stage %s or %s, by which alone requests are logged with their result", i, auditv1.StageResponseComplete, auditv1.StagePanic)
		}
	}
	switch {
	case least == auditv1.LevelNone:
		return ""
	case omitsEnds(wanted.OmitStages):
		return fmt.Sprintf("it omits the stage %s or %s, by which alone requests are logged with their result", auditv1.StageResponseComplete, auditv1.StagePanic)
	case len(wanted.Rules) == 0 || !isAboutAll(&wanted.Rules[len(wanted.Rules)-1]):
		return fmt.Sprintf("what matches no rule is not logged, and Tenants of this host have %s at least: add a last rule that has a level and nothing else", least)
	}
	return ""
}

func omitsEnds(stages []auditv1.Stage) bool {
	return slices.Contains(stages, auditv1.StageResponseComplete) || slices.Contains(stages, auditv1.StagePanic)
}

// isAboutAll reports whether a rule of an audit policy is about all requests.
func isAboutAll(rule *auditv1.PolicyRule) bool {
	return len(rule.Users)+len(rule.UserGroups)+len(rule.Verbs)+len(rule.Resources)+len(rule.Namespaces)+len(rule.NonResourceURLs) == 0
}

// podSecurityLevels are the levels, from the one that allows the least.
var podSecurityLevels = []PodSecurityLevel{PodSecurityRestricted, PodSecurityBaseline, PodSecurityPrivileged}

func (l *TenantLimits) workloads(wanted *Workloads) string {
	most := PodSecurityBaseline
	if l.Workloads != nil && l.Workloads.PodSecurity != "" {
		most = l.Workloads.PodSecurity
	}
	level := PodSecurityBaseline
	if wanted != nil && wanted.PodSecurity != "" {
		level = wanted.PodSecurity
	}
	if wanted != nil && wanted.NodePorts != "" && wanted.NodePorts != NodePortsRefused && (l.Workloads == nil || l.Workloads.NodePorts != NodePortsAllowed) {
		return "Services of Tenants of this host may not have ports of its nodes, and nodePorts is " + string(wanted.NodePorts)
	}
	if wanted != nil && wanted.LoadBalancers != "" && wanted.LoadBalancers != LoadBalancersRefused && (l.Workloads == nil || l.Workloads.LoadBalancers != LoadBalancersAllowed) {
		return "Services of Tenants of this host may not have load balancers, and loadBalancers is " + string(wanted.LoadBalancers)
	}
	if beyond := l.Workloads.lists(wanted); beyond != "" {
		return beyond
	}
	if asked := slices.Index(podSecurityLevels, level); asked >= 0 && asked <= slices.Index(podSecurityLevels, most) {
		return ""
	}
	return fmt.Sprintf("pods of Tenants of this host may have the Pod Security level %s at most, and this is %s", most, level)
}

func (l *TenantLimits) rate(wanted *RateLimit) string {
	if wanted == nil || l.RateLimit == nil {
		return ""
	}
	return firstBeyond(
		number{"requestsPerSecond", wanted.RequestsPerSecond, l.RateLimit.RequestsPerSecond},
		number{"burst", wanted.atOnce(), l.RateLimit.atOnce()},
		number{"inFlight", wanted.InFlight, l.RateLimit.InFlight},
		number{"watches", wanted.Watches, l.RateLimit.Watches},
	)
}

// atOnce is the burst, by default twice the rate.
func (r *RateLimit) atOnce() *int32 {
	if r.Burst == nil && r.RequestsPerSecond != nil {
		return new(2 * *r.RequestsPerSecond)
	}
	return r.Burst
}

func (l *TenantLimits) size(wanted *RequestLimit) string {
	if wanted == nil || l.RequestLimit == nil {
		return ""
	}
	if most := l.RequestLimit.BodyBytes; most != nil && wanted.BodyBytes != nil && *wanted.BodyBytes > *most {
		return fmt.Sprintf("bodyBytes is %d, and Tenants of this host may have %d at most", *wanted.BodyBytes, *most)
	}
	return firstBeyond(number{"listObjects", wanted.ListObjects, l.RequestLimit.ListObjects})
}

// number is one of which 0 is no limit.
// +k8s:openapi-gen=false
// +kubebuilder:object:generate=false
type number struct {
	name         string
	wanted, most *int32
}

// firstBeyond says which number is beyond the most that there may be, empty if none is.
func firstBeyond(numbers ...number) string {
	for _, n := range numbers {
		switch {
		case n.wanted == nil || n.most == nil || *n.most == 0:
		case *n.wanted == 0:
			return fmt.Sprintf("%s is 0, which is no limit, and Tenants of this host may have %d at most", n.name, *n.most)
		case *n.wanted > *n.most:
			return fmt.Sprintf("%s is %d, and Tenants of this host may have %d at most", n.name, *n.wanted, *n.most)
		}
	}
	return ""
}

// most compares a quota. One of a Tenant takes the place of the manager's default, so that a
// resource that is missing would have no limit.
func (l *TenantLimits) most(wanted map[corev1.ResourceName]resource.Quantity) string {
	if len(wanted) == 0 {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(l.Quota)) {
		most := l.Quota[name]
		switch found, is := wanted[name]; {
		case !is:
			return fmt.Sprintf("it has no limit of %s, and Tenants of this host may have %s at most", name, most.String())
		case found.Cmp(most) > 0:
			return fmt.Sprintf("%s is %s, and Tenants of this host may have %s at most", name, found.String(), most.String())
		}
	}
	// What a quota names of devices, pods of a space may have of the nodes that they run on.
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if _, limited := l.Quota[name]; !limited && strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) && strings.Contains(string(name), "/") {
			return fmt.Sprintf("it lets pods have %s, which Tenants of this host may not have", strings.TrimPrefix(string(name), corev1.DefaultResourceRequestsPrefix))
		}
	}
	return ""
}
