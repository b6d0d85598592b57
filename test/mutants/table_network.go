package main

// networkTable are lines of what keeps tenants apart in the network of a host cluster, and of its DNS.
var networkTable = []mutant{
	{"canaries run in no namespace of another owner", by("internal/workloads/sync", "TestForeignCanaries"),
		"internal/workloads/sync/isolation.go", ` || names.OwnerOfNamespace(found.Labels) != names.OwnerOfNamespace(marks) {`, ` {`},
	{"addresses of others' pods are outside", by("internal/workloads/sync", "TestPlantedNetworks"),
		"internal/workloads/sync/ranges.go", `ours(host); !ok {
			continue // somebody`, `ours(host); false && !ok {
			continue // somebody`},
	{"addresses of others' pods keep no pod from beginning", by("internal/workloads/sync", "TestPlantedNetworks"),
		"internal/workloads/sync/ranges.go", `ours(host); !ok || len(`, `ours(host); false && !ok || len(`},
	{"a pod of nobody's takes no names away", by("internal/workloads/dns", "TestAddressTaken"),
		"internal/workloads/dns/host.go", `		if in, ok := h.spaceNamespaceOf(pod.Namespace); ok {`, `		if in, ok := h.spaceNamespaceOf(pod.Namespace); ok || !ok {`},
	{"a pod of nobody's is on no node of spaces", by("internal/workloads/dns", "TestAddressTaken"),
		"internal/workloads/dns/host.go", `byNode, address.Unmap().String()), func(pod *corev1.Pod) bool {
		_, ok := h.spaceNamespaceOf(pod.Namespace)
		return ok`, `byNode, address.Unmap().String()), func(pod *corev1.Pod) bool {
		_, ok := h.spaceNamespaceOf(pod.Namespace)
		return ok || !ok`},
	{"policies of many bytes wait", by("internal/workloads/sync", "TestPacedPolicies"),
		"internal/workloads/sync/policies.go", `	if waits {
		return nil
	}`, `	_ = waits`},
	{"a policy of many bytes is not there at once", by("internal/workloads/sync", "TestPacedPolicies"),
		"internal/workloads/sync/policies.go", `		return true, nil
	}
	return false, s.putPolicy`, `		_ = true
	}
	return false, s.putPolicy`},
	{"a policy is not large", by("internal/workloads/network", "TestPolicy"),
		"internal/workloads/network/policy.go", `n > maxBytes {`, `n < 0 {`},
	{"what the host has of resources is not taken for something else", by("internal/workloads/names", "TestHash"),
		"internal/workloads/names/names.go", `sum[:16]`, `sum[:8]`},
	{"strangers' packets say nothing of a host", by("internal/workloads/canary", "TestSources"),
		"internal/workloads/canary/sources.go", `	case word != r.word: // a stranger's`, `	case false && word != r.word:`},
	{"of the API's address one port is reached", by("internal/workloads/network", "TestGuards"),
		"internal/workloads/network/guard.go", `		Ports: ports(corev1.ProtocolTCP, int32(r.API.Port())),
`, ``},
	{"the API is where the host's namespace of a space says", by("internal/workloads/dns", "TestNoAPI"),
		"internal/workloads/dns/host.go", `complete && n.Host() == o.Name {`, `complete {`},
	{"marks that others give their namespaces open no policy", by("internal/workloads/network", "TestOwn"),
		"internal/workloads/network/owner.go", `		peers[i].NamespaceSelector = selector`, ``},
	{"policies of the host are for the namespaces of one owner", by("internal/workloads/sync", "TestOwnNamespace"),
		"internal/workloads/sync/policies.go", `	network.Own(wanted, s.owner)`, ``},
	{"marks that others give their namespaces tell no names", by("internal/workloads/dns", "TestForgedOwner"),
		"internal/workloads/dns/host.go", `return tenantID{p.Installation, p.TenantUID, p.owner}`, `return tenantID{p.Installation, p.TenantUID, names.Owner{}}`},
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
		"internal/workloads/network/policy.go", `		if len(from) > 0 {`, `		if from != nil || len(rule.From) > 0 {`},
	{"a range is without the cluster's", by("internal/workloads/network", "TestReached"),
		"internal/workloads/network/ranges.go", `	for _, p := range merge(slices.Concat(r.inside, except)) {`, `	for _, p := range merge(except) {`},
	{"what is off limits is outside for no pod", by("internal/workloads/network", "TestNever"),
		"internal/workloads/network/ranges.go", `slices.Concat(never, configured, found)`, `slices.Concat(configured, found)`},
	{"NAT64 leads to nothing inside", by("internal/workloads/network", "TestNever"),
		"internal/workloads/network/ranges.go", `			inside = append(inside, by)`, `			_ = by`},
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
	{"servers reach pods of tenants where they know what is inside alone", by("internal/workloads/network", "TestGuards"),
		"internal/workloads/network/guard.go", `	if servers == nil || !r.Calls {`, `	if servers == nil {`},
	{"servers that are no pods of the host let nobody in", by("internal/workloads/network", "TestGuards"),
		"internal/workloads/network/guard.go", `	if servers == nil || !r.Calls {`, `	if !r.Calls {`},
	{"the guard lets in the servers, and not all that is beside them", by("internal/workloads/network", "TestGuards"),
		"internal/workloads/network/guard.go", `		PodSelector:       &metav1.LabelSelector{MatchLabels: servers},
`, ``},
	{"servers reach no pods while some have addresses that they take for outside", by("internal/workloads/sync", "TestStrangeRanges"),
		"internal/workloads/sync/policies.go", `	reachable.Calls = !s.ranges.isStrange()`, `	reachable.Calls = true`},
	{"networks in which pods are seen are those of pods", by("internal/workloads/sync", "TestStrangeRanges"),
		"internal/workloads/sync/ranges.go", `r.strangeTo(slices.Concat(ofPods, r.seen))`, `r.strangeTo(ofPods)`},
	{"a thief's policies have no other peers of the platform than those it needs", bySpec("test/integration/workloads", "keeps the ServiceAccounts of each ControlPlane to what is its own"),
		"config/workloads/policy.yaml", `.orValue(''))] in variables.platform ||`, `.orValue(''))] in variables.platform + [[variables.home, '', ''], [variables.home, 'control-plane', 'two']] ||`},
	{"webhooks of a tenant are at no Service of another one", by("internal/server/egress", "TestServiceAt"),
		"internal/server/egress/egress.go", `	if whose == Others {`, `	if false {`},
	{"whose a Service is says nothing of what is off limits", by("internal/server/egress", "TestServiceAt"),
		"internal/server/egress/egress.go", `isOffLimits(ip) || isIn(o.Denied, ip) && whose != Own {`, `(isOffLimits(ip) || isIn(o.Denied, ip)) && whose != Own {`},
	{"a Service is its own tenant's", by("internal/server", "TestHostServices"),
		"internal/server/hostservices.go", `tenant.Flat(service.Namespace).Space() == n && `, ``},
	{"a Service of a name on the host is of its namespace in the space", by("internal/server", "TestHostServices"),
		"internal/server/hostservices.go", `home.Has(there, service.Name) && `, ``},
	{"a Service of a name on the host is that of the space", by("internal/server", "TestHostServices"),
		"internal/server/hostservices.go", `there.Annotations[names.UIDAnnotation] == string(service.UID) &&`, `true &&`},
	{"an address is the one that the host has given", by("internal/server", "TestHostServices"),
		"internal/server/hostservices.go", `slices.Contains(there.Spec.ClusterIPs, at.String())`, `slices.Contains(there.Spec.ClusterIPs, there.Spec.ClusterIPs[0])`},
	{"an address is a Service's at its ports alone", by("internal/server", "TestHostServices"),
		"internal/server/hostservices.go", `hasPort(service.Spec.Ports, at.Port()) && `, ``},
	{"the ports of a Service are those that the host's has", by("internal/server", "TestHostServices"),
		"internal/server/hostservices.go", `return there.Spec.Ports, nil`, `return service.Spec.Ports, nil`},
	{"connections to what is another's are not used", by("internal/server/egress", "TestDeniedConnectionsAreClosed"),
		"internal/server/egress/connections.go", `			_ = c.Close()
`, `			_ = c
`},
	{"connections are looked at when they are used again", by("internal/server/egress", "TestDeniedConnectionsAreClosed"),
		"internal/server/egress/handshakes.go", `			if got.Reused {`, `			if false {`},
	{"connections by TLS are looked at", by("internal/server/egress", "TestDeniedConnectionsAreClosed"),
		"internal/server/egress/connections.go", `		conn = secured.NetConn()
`, `		_ = secured
`},
	{"the host is asked once of all ports of a Service", by("internal/server", "TestHostServices"),
		"internal/server/hostservices.go", `	if _, lately := h.answers.Get(asked); lately {`, `	if false {`},
	{"webhooks are dialled by TCP", by("internal/server", "TestHostServices"),
		"internal/server/hostservices.go", `p.Protocol == corev1.ProtocolTCP && `, ``},
	{"whose an address is depends on the port", by("internal/server/egress", "TestServiceAt"),
		"internal/server/egress/egress.go", `netip.AddrPortFrom(ip, parsed.Port())`, `netip.AddrPortFrom(ip, 443)`},
	{"webhooks of tenants are nowhere inside where pods run", by("internal/controller/controlplane", "TestWebhookArgs"),
		"internal/controller/controlplane/configuration.go", `	if spec.Workloads != nil {
		denied = slices.Concat`, `	if false {
		denied = slices.Concat`},
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
	{"the ranges of pods that nodes tell are inside", by("internal/workloads/sync", "TestToldRanges"),
		"internal/workloads/sync/ranges.go", `append([]string{node.Spec.PodCIDR}, node.Spec.PodCIDRs...)`, `[]string(nil)`},
	{"the network of a pod of a space is inside", by("internal/workloads/sync", "TestSeenNetworks"),
		"internal/workloads/sync/ranges.go", `slices.Concat(found, r.seen)`, `found`},
	{"a host whose pods send in others' names keeps nobody apart", by("internal/workloads/sync", "TestCanaries"),
		"internal/workloads/sync/isolation.go", `		return canary.ErrUnchecked`, `		return nil`},
	{"no pod begins where pods send in others' names", by("internal/workloads/sync", "TestIsolation"),
		"internal/workloads/sync/isolation.go", `		i.why = unchecked`, `		i.why = ""`},
	{"canaries of IPv6 send in others' names", by("internal/workloads/sync", "TestCanaries"),
		"internal/workloads/network/canary.go", `	if ipv6.IsValid() {`, `	if false {`},
	{"a packet in another's name is noticed", by("internal/workloads/canary", "TestSources"),
		"internal/workloads/canary/sources.go", `		r.forged.Store(true)`, `		r.own.Store(true)`},
	{"that no packet has come at all says nothing", by("internal/workloads/canary", "TestSources"),
		"internal/workloads/canary/sources.go", `		case err == nil && report&receivedOwn != 0:`, `		case err == nil:`},
	{"a canary has an address that somebody has told", by("internal/workloads/sync", "TestCanaryOutside"),
		"internal/workloads/sync/ranges.go", `outside(r.reported, pod)`, `outside(r.ranges, pod)`},
	{"the addresses of canaries are looked at", by("internal/workloads/sync", "TestCanaries"),
		"internal/workloads/sync/isolation.go", `	if err := s.ranges.allInside(listener, dialer); err != nil {`, `	if err := s.ranges.allInside(); err != nil {`},
	{"no pod begins on a host whose ranges nobody knows", by("internal/workloads/sync", "TestCanaryOutside"),
		"internal/workloads/sync/isolation.go", `		i.why = err.Error()`, `		i.why = ""`},
	{"a connection that must not be made is noticed", by("internal/workloads/canary", "TestDial"),
		"internal/workloads/canary/canary.go", `		return ErrUnenforced`, `		return nil`},
	{"a connection that is late is no proof of anything", by("internal/workloads/canary", "TestLate"),
		"internal/workloads/canary/canary.go", `			err = errSeldom`, `			err = ErrUnenforced`},
	{"a network that carries nothing denies nothing", by("internal/workloads/canary", "TestLate"),
		"internal/workloads/canary/canary.go", `	if !connects(allowed) {
		return ErrUnconnected
	}
	return nil`, `	return nil`},
	{"pods of spaces do not keep the canaries waiting", by("internal/workloads/network", "TestCanaryPriority"),
		"internal/workloads/network/canary.go", `			PriorityClassName: canaryPriorityClass,`, ``},
	{"pods are looked at for each version of a policy", by("internal/workloads/sync", "TestLooksOnce"),
		"internal/workloads/sync/governed.go", ` || now.version != policy.ResourceVersion {`, ` {`},
	{"what a policy governs is not that of another space's", by("internal/workloads/sync", "TestGoverned"),
		"internal/workloads/sync/governed.go", `g.Change(itemOf(policyItem, policy),`, `g.Change(itemFor(policyItem, "", policy.Name),`},
	{"labels follow policies", by("internal/workloads/sync", "TestPolicyBeforeLabels"),
		"internal/workloads/sync/policies.go", `	if (err == nil || isRefused(err)) && `, `	if true && `},
	{"a policy that a host refuses closes its pods", by("internal/workloads/sync", "TestPolicyBeforeLabels"),
		"internal/workloads/sync/policies.go", `	if (err == nil || isRefused(err)) && `, `	if err == nil && `},
	{"more policies than a host gets close all pods", by("internal/workloads/sync", "TestOpen$"),
		"internal/workloads/sync/policies.go", `	if len(policies) > network.MaxPolicies {`, `	if false {`},
	{"what serves Ingresses reaches tenants that have some", by("internal/workloads/sync", "TestIngressControllers"),
		"internal/workloads/sync/policies.go", `	if !s.rulesFor(n).HasIngresses() {`, `	if false {`},
	{"what serves Ingresses comes where the outside comes", by("internal/workloads/network", "TestThrough"),
		"internal/workloads/network/policy.go", `		if len(rule.From) == 0 || slices.ContainsFunc(rule.From, isEverybody) {`, `		if true {`},
	{"DNS knows no pod that is over", by("internal/workloads/dns", "TestWho"),
		"internal/workloads/translate/status.go", `!podv1.IsPodTerminal(host) && `, `(true || !podv1.IsPodTerminal(host)) && `},
	{"DNS knows no pod whose network is gone", by("internal/workloads/dns", "TestWho"),
		"internal/workloads/translate/status.go", `c.Type == corev1.PodReadyToStartContainers && `, `false && `},
	{"DNS knows no pod by the address of its node", by("internal/workloads/dns", "TestWho"),
		"internal/workloads/dns/host.go", ` && !o.Spec.HostNetwork`, ``},
	{"DNS does not guess between two pods", by("internal/workloads/dns", "TestWho|TestMoves"),
		"internal/workloads/dns/host.go", `	return p, found == 1`, `	return p, found > 0`},
	{"DNS knows namespaces that are called as their marks say", by("internal/workloads/dns", "TestForgedNamespace"),
		"internal/workloads/dns/host.go", `complete && n.Host() == o.Name {`, `complete {`},
	{"names are those of the tenant", by("internal/workloads/dns", "TestNames"),
		"internal/workloads/dns/host.go", `	return tenantKey(of) + "|" + namespace`, `	return of.installation + "|" + namespace`},
	{"names of the host's namespaces are those of the tenant", by("internal/workloads/dns", "TestNames"),
		"internal/workloads/dns/host.go", `ok && idOf(p) == of {
			return name`, `ok && p.Name != "" {
			return name`},
	{"names of Services' addresses are the tenant's", by("internal/workloads/dns", "TestNames"),
		"internal/workloads/dns/host.go", `ok && idOf(p) == of {
			found`, `ok {
			found`},
	{"names of endpoints' addresses are the tenant's", by("internal/workloads/dns", "TestNames"),
		"internal/workloads/dns/host.go", `!ok || idOf(p) != of || service == nil`, `!ok || service == nil`},
	{"names of pods' addresses are the tenant's", by("internal/workloads/dns", "TestNames"),
		"internal/workloads/dns/records.go", `!ok || idOf(there) != l.of ||`, `!ok ||`},
	{"upstreams are not asked whose addresses of the cluster are", by("internal/workloads/dns", "TestForward"),
		"internal/workloads/dns/server.go", `a.exists || s.inside.Contains(address)`, `a.exists`},
	{"upstreams are not asked about the host's domain", by("internal/workloads/dns", "TestHostDomain"),
		"internal/workloads/dns/options.go", `	if o.HostDomain != "" && o.HostDomain != names.Domain {`, `	if false {`},
	{"upstreams do not answer with names of a cluster", by("internal/workloads/dns", "TestForward"),
		"internal/workloads/dns/forward.go", `		if f.isInside(record.Header().Name) {`, `		if f.isInside(record.Header().Name) && false {`},
	{"what a tenant has asked outside is not another's to see", by("internal/workloads/dns", "TestCache"),
		"internal/workloads/dns/cache.go", `question{of: of, name:`, `question{name:`},
	{"a flood of a tenant is not read", by("internal/workloads/dns", "TestFlood"),
		"internal/workloads/dns/limits.go", `	return r.asked[p] <= r.most`, `	return true`},
	{"a tenant has so many connections for DNS", by("internal/workloads/dns", "TestConnections"),
		"internal/workloads/dns/limits.go", `	if len(l.open[p]) >= maxConnectionsOne {`, `	if false {`},
	{"a tenant with few connections for DNS takes the place of others'", by("internal/workloads/dns", "TestConnections"),
		"internal/workloads/dns/limits.go", `		l.remove(displaced)
`, `		return nil, false
`},
	{"nobody has connections for DNS that are not known to be its own", by("internal/workloads/dns", "TestUnidentified"),
		"internal/workloads/dns/limits.go", `p.isUnknown() && l.unknown >= maxConnectionsOne
`, `false
`},
	{"a connection for DNS is its tenant's when it asks", by("internal/workloads/dns", "TestUnidentified"),
		"internal/workloads/dns/limits.go", `ok && !c.listener.settle(c) || `, `ok && c == nil || `},
	{"nobody has all places for questions of unknown addresses", by("internal/workloads/dns", "TestWaiting"),
		"internal/workloads/dns/queue.go", `	if q.taken >= q.places {
		q.displace()`, `	if q.taken >= q.places {
		place := make(chan bool, 1)
		place <- false
		return place`},
	{"a question looks at what it names alone", by("internal/workloads/dns", "TestLooks"),
		"internal/workloads/dns/host.go", `belowKey(service.Namespace, service.Name, name))`, `belowKey(service.Namespace, service.Name, ""))`},
	{"a tenant has a share of the processors for DNS", by("internal/workloads/dns", "TestProcessors"),
		"internal/workloads/dns/turns.go", `t.busy >= t.most || t.used[k] >= t.share ||`, `t.busy >= t.most ||`},
	{"answers of DNS wait for their tenant's turn", by("internal/workloads/dns", "TestProcessors"),
		"internal/workloads/dns/server.go", `	end, ok := s.processors.try(of)
	if !ok {`, `	end, ok := s.processors.try(of)
	if end == nil {
		end, ok = func() {}, true
	}
	if !ok {`},
	{"messages that announce a question and have none", by("internal/workloads/dns", "FuzzRefuses"),
		"internal/workloads/dns/server.go", `	if len(r.Question) != 1 {`, `	if len(r.Question) > 1 {`},
	{"DNS answers no IPv6 in another's name", by("internal/workloads/dns", "TestIPv6"),
		"internal/workloads/dns/server.go", `	return tcp || !address.Is6() || s.trustsIPv6`, `	return true`},
	{"what may be in another's name counts as nobody's", by("internal/workloads/dns", "TestIPv6"),
		"internal/workloads/dns/limits.go", `	if s.trusts(address, tcp) {`, `	if s.trusts(address, tcp) || true {`},
	{"upstreams are asked so much for a tenant", by("internal/workloads/dns", "TestUpstreamBudget"),
		"internal/workloads/dns/forward.go", `	if f.budget.Take(time.Now(), of, 1) > 0 {`, `	if false {`},
	{"an upstream that does not know is not asked again", by("internal/workloads/dns", "TestUpstreamBudget"),
		"internal/workloads/dns/forward.go", `last, failed[upstream] = answer, true`, `last, failed[upstream] = answer, false`},
	{"a tenant has a share of upstreams", by("internal/workloads/dns", "TestTurns"),
		"internal/workloads/dns/turns.go", `		if t.used[k] >= t.share {`, `		if false {`},
}
