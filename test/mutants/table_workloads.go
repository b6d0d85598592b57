package main

// workloadsTable are lines of what runs the pods of spaces on a host cluster.
var workloadsTable = []mutant{
	{"a connection is to the host's pod that is made of this one", by("internal/workloads/connect", "TestLocate"),
		"internal/workloads/connect/host.go", ` || there.Annotations[names.UIDAnnotation] != string(pod.UID) {`, ` {`},
	{"a connection is to a pod of this tenant and namespace", by("internal/workloads/connect", "TestLocate"),
		"internal/workloads/connect/host.go", `!complete || of != home ||`, `!complete || of.Name != home.Name ||`},
	{"the host gets no credentials of clients", by("internal/workloads/connect", "TestExec"),
		"internal/workloads/connect/stream.go", `	ours.Header = http.Header{}`, ``},
	{"the host gets no tokens in subprotocols", by("internal/workloads/connect", "TestAsOurs"),
		"internal/workloads/connect/stream.go", `!strings.HasPrefix(protocol, tokenProtocol)`, `protocol != ""`},
	{"a WebSocket needs the right to create", by("internal/workloads/connect", "TestCreates"),
		"internal/workloads/connect/stream.go", `	if decision != authorizer.DecisionAllow {`, `	if decision == authorizer.DecisionDeny {`},
	{"streams end with their request", by("internal/workloads/connect", "TestExec"),
		"internal/workloads/connect/stream.go", `		context.AfterFunc(e.ctx, func() { _ = conn.Close() })`, ``},
	{"a tenant has so many streams", by("internal/workloads/connect", "TestLogs"),
		"internal/workloads/connect/streams.go", `	if s.open[n] >= s.most {`, `	if false {`},
	{"what is gone by the cache alone stays on the host", by("internal/workloads/sync", "TestBehind"),
		"internal/workloads/sync/pods.go", `	if err == nil && live.UID == uid {`, `	if err == nil && live.UID != uid {`},
	{"what the host has lost is asked for there", by("internal/workloads/sync", "TestBehind"),
		"internal/workloads/sync/pods.go", `	if there, err := s.isOnHost(ctx, pod, home); err != nil || there {
		return err
	}
	if err := s.losses`, `	if err := s.losses`},
	{"not much goes by itself", by("internal/workloads/sync", "TestPods"),
		"internal/workloads/sync/pods.go", `	if !ok {
		if err := s.orphans.allow`, `	if ok {
		if err := s.orphans.allow`},
	{"not much is lost", by("internal/workloads/sync", "TestPods"),
		"internal/workloads/sync/pods.go", `	if err := s.losses.allow(len(s.podIndexer.ListKeys())); err != nil {
		return err
	}
`, ``},
	{"what halts at the start halts", by("internal/workloads/sync", "TestPods"),
		"internal/workloads/sync/guard.go", `	if g.halted != nil {`, `	if false {`},
	{"a host does not forget a pod that runs", by("internal/workloads/sync", "TestPods"),
		"internal/workloads/sync/pods.go", `	grace := max(1, graceOf(pod))`, `	grace := graceOf(pod)`},
	{"a pod of the host is of the namespace that it is in", by("internal/workloads/sync", "TestPods|TestForeignInPlace"),
		"internal/workloads/sync/host.go", `complete && name != "" && n.Host() == host.GetNamespace()`, `complete && name != ""`},
	{"a pod of an earlier life of its namespace is not taken", by("internal/workloads/sync", "TestAnotherLife"),
		"internal/workloads/sync/pods.go", `			if !s.isAtHome(h) {`, `			if false {`},
	{"a namespace of others is not taken", by("internal/workloads/sync", "TestForeignNamespace"),
		"internal/workloads/sync/namespaces.go", `	case !ok || has != home:`, `	case !ok && has == home:`},
	{"namespaces of others are not deleted", by("internal/workloads/sync", "TestHostNamespaces"),
		"internal/workloads/sync/host.go", `complete && n.Host() == host.GetName()`, `complete`},
	{"a host puts no token of its own into a copy", by("internal/workloads/sync", "TestCopies"),
		"internal/workloads/sync/copies.go", `	return corev1.SecretTypeOpaque`, `	return of`},
	{"what no pod names is not on the host", by("internal/workloads/sync", "TestCopyFollows"),
		"internal/workloads/sync/copies.go", `	if s.references.has(ref) {
		version`, `	if true {
		version`},
	{"what a host must not get does not get there", by("internal/workloads/sync", "TestPods"),
		"internal/workloads/sync/pods.go", `field.NewPath("spec")); len(errs) > 0 {`, `field.NewPath("spec")); false {`},
	{"what the table refuses is refused", by("internal/workloads/translate", "TestCheck"),
		"internal/workloads/translate/check.go", `		case treated != same && treated != changed:`, `		case treated == noNodes:`},
	{"tokens are refused", by("internal/workloads/translate", "TestCheck"),
		"internal/workloads/translate/check.go", `	errs = append(errs, checkTokens(spec.Volumes, path.Child("volumes"))...)`, ``},
	{"a reference is a name", by("internal/workloads/translate", "TestCheck"),
		"internal/workloads/translate/check.go", `	errs = append(errs, checkReferences(spec, path)...)`, ``},
	{"the level is asked", by("internal/workloads/translate", "TestCheck"),
		"internal/workloads/translate/check.go", `	return append(errs, r.Level.check(meta, spec, path)...)`, `	return errs`},
	{"the default is baseline", by("internal/workloads/translate", "TestCheck"),
		"internal/workloads/translate/level.go", `cmp.Or(l, Baseline)`, `cmp.Or(l, Privileged)`},
	{"labels of ours are ours", by("internal/workloads/translate", "TestPod$"),
		"internal/workloads/translate/pod.go", `	on[names.InstallationLabel] = home.Installation`, `	maps.Copy(on, of)`},
	{"marks are ours", by("internal/workloads/translate", "TestDownward|TestPod$"),
		"internal/workloads/translate/pod.go", `	maps.Copy(host.Annotations, home.MarksOf(pod.Name, pod.UID))`, `	maps.Copy(host.Annotations, pod.Annotations)`},
	{"no other tenant's image is used", by("internal/workloads/translate", "TestTrustLocalImages"),
		"internal/workloads/translate/pod.go", `	if !o.TrustLocalImages {`, `	if false {`},
	{"no token of the host is in a pod", by("internal/workloads/translate", "TestPod$"),
		"internal/workloads/translate/pod.go", `	spec.AutomountServiceAccountToken = new(false)`, ``},
	{"no pod answers for others", by("internal/workloads/translate", "TestNetRaw"),
		"internal/workloads/translate/pod.go", `		capabilities.Drop = append(capabilities.Drop, netRaw)`, ``},
	{"no pod preempts", by("internal/workloads/translate", "TestPod$"),
		"internal/workloads/translate/pod.go", `= PriorityClass, nil, nil`, `= spec.PriorityClassName, spec.Priority, spec.PreemptionPolicy`},
	{"the host's names are not told", by("internal/workloads/translate", "TestDNS"),
		"internal/workloads/translate/pod.go", `		spec.DNSPolicy = corev1.DNSDefault`, ``},
	{"a namespace that is made again is another one", by("internal/workloads/names", "TestHost$"),
		"internal/workloads/names/names.go", `Digest(n.Installation, string(n.TenantUID), string(n.UID))`, `Digest(n.Installation, string(n.TenantUID), n.Name)`},
	{"spaces refuse what a host must not get", by("internal/server/admission/spacepolicy", "TestWorkloads"),
		"internal/server/admission/spacepolicy/plugin.go", `	if err := p.checkWorkloads(a, n); err != nil {`, `	if err := p.checkWorkloads(a, n); false {`},
	{"tenants do not say where a pod runs", by("internal/server/admission/spacepolicy", "TestWorkloads"),
		"internal/server/admission/spacepolicy/workloads.go", `	if user == tenant.System {`, `	if user != "" {`},
	{"where a pod runs stays, by whatever subresource", by("internal/server/admission/spacepolicy", "TestWorkloads"),
		"internal/server/admission/spacepolicy/workloads.go", `ok || changesHostUID(a) {`, `ok {`},
	{"a selector of namespaces is of the tenant", by("internal/workloads/network", "TestReached"),
		"internal/workloads/network/selectors.go", `	maps.Copy(s.MatchLabels, home.Labels())`, ``},
	{"a selector of namespaces has no key of the host's", by("internal/workloads/network", "TestReached"),
		"internal/workloads/network/selectors.go", `	s := withKeys(of, hostKey)`, `	s := withKeys(of, strings.Clone)`},
	{"a selector of pods has no key of the platform's", by("internal/workloads/network", "TestReached|TestOpenOf"),
		"internal/workloads/network/selectors.go", `		if strings.HasPrefix(key, names.Prefix) {
			return absentPrefix`, `		if strings.HasPrefix(key, LabelPrefix) {
			return absentPrefix`},
	{"no peers are not everybody", by("internal/workloads/network", "TestReached"),
		"internal/workloads/network/policy.go", `	if len(of) == 0 {`, `	if false {`},
	{"a rule of which nothing is left goes", by("internal/workloads/network", "TestReached"),
		"internal/workloads/network/policy.go", `if from := peers(rule.From, home, ranges); len(from) > 0 {`, `if from := peers(rule.From, home, ranges); from != nil || len(rule.From) > 0 {`},
	{"a range is without the cluster's", by("internal/workloads/network", "TestReached"),
		"internal/workloads/network/ranges.go", `	for _, p := range merge(slices.Concat(r.inside, except)) {`, `	for _, p := range merge(except) {`},
	{"an exception that nobody reads is not left out", by("internal/workloads/network", "TestReached"),
		"internal/workloads/network/ranges.go", `		p, err := netip.ParsePrefix(text)
		if err != nil || p.Addr().Is4In6() {
			return nil
		}`, `		p, err := netip.ParsePrefix(text)
		if err != nil || p.Addr().Is4In6() {
			continue
		}`},
	{"the guard selects all pods in both directions", by("internal/workloads/network", "TestReached|TestGuards"),
		"internal/workloads/network/guard.go", `networkingv1.NetworkPolicySpec{PolicyTypes: both,`, `networkingv1.NetworkPolicySpec{PolicyTypes: both[:1],`},
	{"what no addresses are reachable by is nobody", by("internal/workloads/network", "TestGuards"),
		"internal/workloads/network/guard.go", `	if len(addresses) > 0 {`, `	if true {`},
	{"a policy of the host is not too large", by("internal/workloads/network", "TestPolicy$"),
		"internal/workloads/network/policy.go", `	if n := entries(&host.Spec); n > maxEntries {`, `	if n := entries(&host.Spec); n < 0 {`},
	{"pods wait for the word of the canaries", by("internal/workloads/sync", "TestIsolation"),
		"internal/workloads/sync/isolation.go", `	return i.why
}`, `	return ""
}`},
	{"a host that does not enforce policies is found out", by("internal/workloads/sync", "TestIsolation"),
		"internal/workloads/sync/isolation.go", `		i.why = unenforced`, `		i.why = ""`},
	{"what an exit code means is not a guess", by("internal/workloads/sync", "TestCanaries"),
		"internal/workloads/sync/isolation.go", `	case canary.Unenforced:
		return canary.ErrUnenforced`, `	case canary.Unenforced:
		return nil`},
	{"a connection that must not be made is noticed", by("internal/workloads/canary", "TestDial"),
		"internal/workloads/canary/canary.go", `			return ErrUnenforced
		}
	}`, `			return nil
		}
	}`},
	{"no pod is made before the guards", by("internal/workloads/sync", "TestGuards|TestForeignGuard"),
		"internal/workloads/sync/namespaces.go", `	return found.UID, s.ensureGuards(ctx, home)`, `	return found.UID, nil`},
	{"somebody else's policy is not taken for the guard", by("internal/workloads/sync", "TestForeignGuard|TestPolicies"),
		"internal/workloads/sync/policies.go", `	if !isSame(there, wanted) {`, `	if false {`},
	{"what somebody has changed of a policy is seen", by("internal/workloads/sync", "TestPolicies"),
		"internal/workloads/sync/host.go", `	annotations[hashAnnotation] = network.Hash(&policy.Spec)`, `	if annotations[hashAnnotation] == "" {
		annotations[hashAnnotation] = network.Hash(&policy.Spec)
	}`},
	{"labels follow policies", by("internal/workloads/sync", "TestPolicyBeforeLabels"),
		"internal/workloads/sync/policies.go", `	if err == nil || isRefused(err) {`, `	if true {`},
	{"a policy that a host refuses closes its pods", by("internal/workloads/sync", "TestPolicyBeforeLabels"),
		"internal/workloads/sync/policies.go", `	if err == nil || isRefused(err) {`, `	if err == nil {`},
	{"more policies than a host gets close all pods", by("internal/workloads/sync", "TestOpen$"),
		"internal/workloads/sync/policies.go", `	if len(policies) > network.MaxPolicies {`, `	if false {`},
	{"the isolation of tenants is what there is without a flag", by("internal/workloads/sync", "TestValidate"),
		"internal/workloads/sync/options.go", `cmp.Or(Isolation(o.NetworkIsolation), Enforced)`, `cmp.Or(Isolation(o.NetworkIsolation), Unenforced)`},
	{"a host's Tenants have the level that their ControlPlane says", by("api/v1alpha1", "TestTenantLimits"),
		"api/v1alpha1/tenant_limits.go", `	most := PodSecurityBaseline`, `	most := PodSecurityPrivileged`},
}
