package v1alpha1

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

func TestTenantLimits(t *testing.T) {
	placement := func(mode NodePlacementMode, labels ...string) TenantSpec {
		return TenantSpec{NodePlacement: &NodePlacement{Mode: mode, AllowedLabels: labels}}
	}
	upTo := func(mode NodePlacementMode, labels ...string) TenantLimits {
		return TenantLimits{NodePlacement: placement(mode, labels...).NodePlacement}
	}
	tolerating := TenantSpec{NodePlacement: &NodePlacement{Mode: NodePlacementLimited, AllowedTaints: []string{"gpu"}}}
	daemons := func(mode DaemonSetMode) *DaemonSets { return &DaemonSets{Mode: mode} }
	pods := func(level PodSecurityLevel) TenantSpec { return TenantSpec{Workloads: &Workloads{PodSecurity: level}} }
	rate := func(limit RateLimit) TenantSpec { return TenantSpec{RateLimit: &limit} }
	rates := TenantLimits{RateLimit: &RateLimit{RequestsPerSecond: new(int32(100)), InFlight: new(int32(10)), Watches: new(int32(0))}}
	size := func(limit RequestLimit) TenantSpec { return TenantSpec{RequestLimit: &limit} }
	sizes := TenantLimits{RequestLimit: &RequestLimit{BodyBytes: new(int64(2048)), ListObjects: new(int32(10))}}
	quota := func(limits ...string) map[corev1.ResourceName]resource.Quantity {
		all := map[corev1.ResourceName]resource.Quantity{}
		for _, limit := range limits {
			name, value, _ := strings.Cut(limit, "=")
			all[corev1.ResourceName(name)] = resource.MustParse(value)
		}
		return all
	}
	quotas := TenantLimits{Quota: quota("pods=10", "services.loadbalancers=0")}
	audited := func(levels ...auditv1.Level) TenantSpec {
		policy := &AuditPolicy{}
		for _, level := range levels {
			policy.Rules = append(policy.Rules, auditv1.PolicyRule{Level: level})
		}
		return TenantSpec{AuditPolicy: policy}
	}
	with := func(spec TenantSpec, change func(*AuditPolicy)) TenantSpec {
		change(spec.AuditPolicy)
		return spec
	}
	audits := func(least, most auditv1.Level) TenantLimits {
		return TenantLimits{AuditPolicy: &AuditPolicyLimits{Least: least, Most: most}}
	}
	some := audits(auditv1.LevelMetadata, auditv1.LevelRequest)
	for name, tc := range map[string]struct {
		limits         TenantLimits
		wanted, before TenantSpec
		err            string // empty if it is within the limits
	}{
		"nothing is asked for":        {},
		"no placement":                {wanted: placement(NodePlacementDisabled)},
		"placement by default":        {wanted: placement(NodePlacementLimited, "a"), err: "spec.nodePlacement: Forbidden: Tenants of this host may have mode Disabled at most"},
		"all placement by default":    {wanted: placement(NodePlacementEnabled), err: "may have mode Disabled at most"},
		"placement as before":         {wanted: placement(NodePlacementEnabled), before: placement(NodePlacementEnabled)},
		"more placement than before":  {wanted: placement(NodePlacementEnabled), before: placement(NodePlacementLimited), err: "may have mode Disabled"},
		"all placement":               {limits: upTo(NodePlacementEnabled), wanted: placement(NodePlacementEnabled)},
		"some placement of all":       {limits: upTo(NodePlacementEnabled), wanted: placement(NodePlacementLimited, "a")},
		"all placement of some":       {limits: upTo(NodePlacementLimited, "a"), wanted: placement(NodePlacementEnabled), err: "may have mode Limited at most"},
		"placement within":            {limits: upTo(NodePlacementLimited, "a", "b"), wanted: placement(NodePlacementLimited, "b")},
		"another label":               {limits: upTo(NodePlacementLimited, "a"), wanted: placement(NodePlacementLimited, "a", "b"), err: `"b" is not one of the labels of nodes`},
		"a taint":                     {limits: upTo(NodePlacementLimited, "gpu"), wanted: tolerating, err: `"gpu" is not one of the taints of nodes`},
		"DaemonSets by default":       {wanted: TenantSpec{DaemonSets: daemons(DaemonSetsInert)}},
		"DaemonSets that are refused": {limits: TenantLimits{DaemonSets: daemons(DaemonSetsRefused)}, wanted: TenantSpec{DaemonSets: daemons(DaemonSetsInert)}, err: "spec.daemonSets: Forbidden: Tenants of this host may have no DaemonSets"},
		"no DaemonSets":               {limits: TenantLimits{DaemonSets: daemons(DaemonSetsRefused)}, wanted: TenantSpec{DaemonSets: daemons(DaemonSetsRefused)}},
		"the level by default":        {limits: TenantLimits{Workloads: &Workloads{PodSecurity: PodSecurityRestricted}}},
		"a level beyond the default":  {wanted: pods(PodSecurityPrivileged), err: "spec.workloads: Forbidden: pods of Tenants of this host may have the Pod Security level baseline at most, and this is privileged"},
		"a level within the default":  {wanted: pods(PodSecurityRestricted)},
		"node ports":                  {wanted: TenantSpec{Workloads: &Workloads{NodePorts: NodePortsAllowed}}, err: "spec.workloads: Forbidden: Services of Tenants of this host may not have ports of its nodes"},
		"node ports that may be":      {limits: TenantLimits{Workloads: &Workloads{NodePorts: NodePortsAllowed}}, wanted: TenantSpec{Workloads: &Workloads{NodePorts: NodePortsAllowed}}},
		"load balancers":              {limits: TenantLimits{Workloads: &Workloads{NodePorts: NodePortsAllowed}}, wanted: TenantSpec{Workloads: &Workloads{LoadBalancers: LoadBalancersAllowed}}, err: "spec.workloads: Forbidden: Services of Tenants of this host may not have load balancers"},
		"load balancers that may be":  {limits: TenantLimits{Workloads: &Workloads{LoadBalancers: LoadBalancersAllowed}}, wanted: TenantSpec{Workloads: &Workloads{LoadBalancers: LoadBalancersAllowed}}},
		"annotations of balancers":    {limits: TenantLimits{Workloads: &Workloads{IngressAnnotations: []string{"example.com/a"}}}, wanted: TenantSpec{Workloads: &Workloads{LoadBalancerAnnotations: []string{"example.com/a"}}}, err: `"example.com/a" is not one of the annotations that load balancers of Tenants`},
		"host names":                  {wanted: TenantSpec{Workloads: &Workloads{HostNames: []string{"a.example.com"}}}, err: `spec.workloads: Forbidden: Ingresses and HTTPRoutes of Tenants of this host may not name "a.example.com"`},
		"Gateways":                    {wanted: TenantSpec{Workloads: &Workloads{Gateways: []string{"infra/public"}}}, err: `"infra/public" is not one of the Gateways that HTTPRoutes of Tenants of this host may have`},
		"Gateways that may be":        {limits: TenantLimits{Workloads: &Workloads{Gateways: []string{"infra/public"}}}, wanted: TenantSpec{Workloads: &Workloads{Gateways: []string{"infra/public"}}}},
		"host names that may be": {limits: TenantLimits{Workloads: &Workloads{HostNames: []string{"*.example.com", "example.org"}}},
			wanted: TenantSpec{Workloads: &Workloads{HostNames: []string{"a.example.com", "*.example.com", "example.org"}}}},
		"host names beyond":         {limits: TenantLimits{Workloads: &Workloads{HostNames: []string{"*.example.com"}}}, wanted: TenantSpec{Workloads: &Workloads{HostNames: []string{"*.a.example.com"}}}, err: "may not name"},
		"classes":                   {wanted: TenantSpec{Workloads: &Workloads{IngressClasses: []string{"nginx"}}}, err: `"nginx" is not one of the classes that Ingresses of Tenants of this host may have`},
		"classes that may be":       {limits: TenantLimits{Workloads: &Workloads{IngressClasses: []string{"nginx"}}}, wanted: TenantSpec{Workloads: &Workloads{IngressClasses: []string{"nginx"}}}},
		"annotations":               {limits: TenantLimits{Workloads: &Workloads{IngressAnnotations: []string{"example.com/a"}}}, wanted: TenantSpec{Workloads: &Workloads{IngressAnnotations: []string{"example.com/a", "example.com/b"}}}, err: `"example.com/b" is not one of the annotations`},
		"no level":                  {wanted: TenantSpec{Workloads: &Workloads{}}},
		"no level where it is less": {limits: TenantLimits{Workloads: &Workloads{PodSecurity: PodSecurityRestricted}}, wanted: TenantSpec{Workloads: &Workloads{}}, err: "level restricted at most"},
		"the highest level":         {limits: TenantLimits{Workloads: &Workloads{PodSecurity: PodSecurityPrivileged}}, wanted: pods(PodSecurityPrivileged)},
		"a level as before":         {wanted: pods(PodSecurityPrivileged), before: pods(PodSecurityPrivileged)},
		"any rate by default":       {wanted: rate(RateLimit{RequestsPerSecond: new(int32(0))})},
		"a rate within":             {limits: rates, wanted: rate(RateLimit{RequestsPerSecond: new(int32(100)), Burst: new(int32(200)), InFlight: new(int32(10)), Watches: new(int32(0))})},
		"a rate beyond":             {limits: rates, wanted: rate(RateLimit{RequestsPerSecond: new(int32(101))}), err: "requestsPerSecond is 101, and Tenants of this host may have 100 at most"},
		"no rate limit":             {limits: rates, wanted: rate(RateLimit{RequestsPerSecond: new(int32(0))}), err: "requestsPerSecond is 0, which is no limit"},
		"a burst beyond":            {limits: rates, wanted: rate(RateLimit{RequestsPerSecond: new(int32(1)), Burst: new(int32(201))}), err: "burst is 201"},
		"a burst by default beyond": {limits: TenantLimits{RateLimit: &RateLimit{RequestsPerSecond: new(int32(100)), Burst: new(int32(100))}}, wanted: rate(RateLimit{RequestsPerSecond: new(int32(51))}), err: "burst is 102"},
		"in flight beyond":          {limits: rates, wanted: rate(RateLimit{InFlight: new(int32(0))}), err: "inFlight is 0"},
		"sizes within":              {limits: sizes, wanted: size(RequestLimit{BodyBytes: new(int64(2048)), ListObjects: new(int32(10))})},
		"a body beyond":             {limits: sizes, wanted: size(RequestLimit{BodyBytes: new(int64(2049))}), err: "bodyBytes is 2049, and Tenants of this host may have 2048 at most"},
		"lists of any length":       {limits: sizes, wanted: size(RequestLimit{ListObjects: new(int32(0))}), err: "listObjects is 0"},
		"the manager's quota":       {limits: quotas},
		"devices of nodes":          {wanted: TenantSpec{Quota: map[corev1.ResourceName]resource.Quantity{"requests.nvidia.com/gpu": resource.MustParse("1")}}, err: "it lets pods have nvidia.com/gpu, which Tenants of this host may not have"},
		"devices within": {limits: TenantLimits{Quota: map[corev1.ResourceName]resource.Quantity{"requests.nvidia.com/gpu": resource.MustParse("1")}},
			wanted: TenantSpec{Quota: map[corev1.ResourceName]resource.Quantity{"requests.nvidia.com/gpu": resource.MustParse("1")}}},
		"an audit policy by default":      {wanted: audited(auditv1.LevelMetadata), err: "spec.auditPolicy: Forbidden: Tenants of this host may have no auditPolicy"},
		"an audit policy as before":       {wanted: audited(auditv1.LevelNone), before: audited(auditv1.LevelNone)},
		"an audit policy within":          {limits: some, wanted: audited(auditv1.LevelRequest, auditv1.LevelMetadata)},
		"nothing is logged":               {limits: some, wanted: audited(auditv1.LevelNone), err: "rules[0] has level None, and Tenants of this host have Metadata at least"},
		"some is not logged":              {limits: some, wanted: audited(auditv1.LevelMetadata, auditv1.LevelNone), err: "rules[1] has level None"},
		"all is logged":                   {limits: some, wanted: audited(auditv1.LevelRequestResponse), err: "rules[0] has level RequestResponse, and Tenants of this host may have Request at most"},
		"what matches no rule":            {limits: some, wanted: with(audited(auditv1.LevelMetadata), func(p *AuditPolicy) { p.Rules[0].Verbs = []string{"create"} }), err: "what matches no rule is not logged"},
		"no rules":                        {limits: some, wanted: audited(), err: "what matches no rule is not logged"},
		"ends that are omitted":           {limits: some, wanted: with(audited(auditv1.LevelMetadata), func(p *AuditPolicy) { p.OmitStages = []auditv1.Stage{auditv1.StageResponseComplete} }), err: "it omits the stage"},
		"ends that a rule omits":          {limits: some, wanted: with(audited(auditv1.LevelMetadata), func(p *AuditPolicy) { p.Rules[0].OmitStages = []auditv1.Stage{auditv1.StagePanic} }), err: "rules[0] omits the stage"},
		"beginnings that are omitted":     {limits: some, wanted: with(audited(auditv1.LevelMetadata), func(p *AuditPolicy) { p.OmitStages = []auditv1.Stage{auditv1.StageRequestReceived} })},
		"any audit policy":                {limits: audits(auditv1.LevelNone, ""), wanted: audited(auditv1.LevelNone, auditv1.LevelRequestResponse)},
		"the least that is not said":      {limits: audits("", ""), wanted: audited(auditv1.LevelNone), err: "have Metadata at least"},
		"a limit of placement unknown":    {limits: upTo("limited", "a"), wanted: placement(NodePlacementLimited, "a"), err: "may have mode limited at most"},
		"placement unknown":               {limits: upTo(NodePlacementLimited, "a"), wanted: placement("All"), err: "may have mode Limited at most"},
		"a limit of DaemonSets unknown":   {limits: TenantLimits{DaemonSets: daemons("refused")}, wanted: TenantSpec{DaemonSets: daemons(DaemonSetsInert)}, err: "may have no DaemonSets"},
		"DaemonSets unknown":              {limits: TenantLimits{DaemonSets: daemons(DaemonSetsRefused)}, wanted: TenantSpec{DaemonSets: daemons("inert")}, err: "may have no DaemonSets"},
		"a limit of levels unknown":       {limits: TenantLimits{Workloads: &Workloads{PodSecurity: "Privileged"}}, wanted: pods(PodSecurityRestricted), err: "level Privileged at most"},
		"a level unknown":                 {wanted: pods("Privileged"), err: "this is Privileged"},
		"node ports unknown":              {wanted: TenantSpec{Workloads: &Workloads{NodePorts: "allowed"}}, err: "nodePorts is allowed"},
		"a least that is unknown":         {limits: audits("metadata", ""), wanted: audited(auditv1.LevelMetadata), err: "from \"metadata\" to \"RequestResponse\", are not known"},
		"a most that is unknown":          {limits: audits("None", "all"), wanted: audited(auditv1.LevelNone), err: "are not known"},
		"an audit level unknown":          {limits: audits("None", ""), wanted: audited("none"), err: "rules[0] has level \"none\", which is not known"},
		"a quota within":                  {limits: quotas, wanted: TenantSpec{Quota: quota("pods=10", "services.loadbalancers=0", "cpu=1k")}},
		"a quota beyond":                  {limits: quotas, wanted: TenantSpec{Quota: quota("pods=11", "services.loadbalancers=0")}, err: "spec.quota: Forbidden: pods is 11, and Tenants of this host may have 10 at most"},
		"a quota without a limit of some": {limits: quotas, wanted: TenantSpec{Quota: quota("pods=10")}, err: "it has no limit of services.loadbalancers"},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.limits.Validate(&tc.wanted, &tc.before, field.NewPath("spec")).ToAggregate()
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err) || !strings.Contains(err.Error(), "spec.tenantLimits")) {
				t.Errorf("got %v, want %q", err, tc.err)
			}
		})
	}
}
