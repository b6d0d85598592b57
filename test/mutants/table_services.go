package main

// servicesTable are lines of Services and Ingresses of spaces on a host cluster.
var servicesTable = []mutant{
	{"the addresses of a predecessor are not shown", by("internal/workloads/sync", "TestIngresses$"),
		"internal/workloads/sync/ingresses.go", `	if there != nil && uidOf(there) == ingress.UID {`, `	if there != nil {`},
	{"Services that are made wait", by("internal/workloads/sync", "TestPacedSmall"),
		"internal/workloads/sync/services.go", `	if s.postponeBytes(i, translate.ServiceBytes(wanted)) {
		return nil
	}
	client`, `	client`},
	{"Services that change wait", by("internal/workloads/sync", "TestPacedSmall"),
		"internal/workloads/sync/services.go", `	if !forgets && s.postponeBytes(`, `	if false && s.postponeBytes(`},
	{"a Service counts as often as it is stored", by("internal/workloads/sync", "TestServicesCount"),
		"internal/workloads/translate/service.go", `return writesOfService * max(`, `return max(`},
	{"what a host notes of each port of a Service counts", by("internal/workloads/sync", "TestServicesCount"),
		"internal/workloads/translate/service.go", `entries := len(host.Spec.Ports) + len(`, `entries := 0*len(host.Spec.Ports) + len(`},
	{"a load balancer does not ask for the address of one before it", by("internal/workloads/translate", "TestBalancerEnds"),
		"internal/workloads/translate/service.go", `	if has == had && !ends ||`, `	if (has || !had) && !ends ||`},
	{"what is put back does not ask for the address of before", by("internal/workloads/translate", "TestBalancerEnds"),
		"internal/workloads/translate/service.go", `	dropOthers(wanted)
`, ``},
	{"what has lost its load balancer keeps no address", by("internal/workloads/translate", "TestBalancerEnds"),
		"internal/workloads/translate/service.go", ` || ends && len(there.Finalizers) > 0 {`, ` || ends {`},
	{"components have what they need to take a load balancer away", by("internal/workloads/translate", "TestBalancerEnds"),
		"internal/workloads/translate/service.go", ` || ends && len(there.Finalizers) > 0 {`, ` {`},
	{"the address goes when the load balancer has been taken away", by("internal/workloads/sync", "TestForgetsBalancer"),
		"internal/workloads/sync/services.go", `	return marked || left <= 0, left <= 0`, `	return marked && left <= 0 || left <= 0, left <= 0`},
	{"the address that others wait for goes at once", by("internal/workloads/sync", "TestForgetsBalancer"),
		"internal/workloads/sync/services.go", `	if !forgets && s.postponeBytes(`, `	if s.postponeBytes(`},
	{"an address that is written late goes as well", by("internal/workloads/sync", "TestForgetsBalancer"),
		"internal/workloads/sync/services.go", `	left := s.making.left(key)
	if left > 0 {
		s.queue`, `	left := 0 * s.making.left(key)
	if left > 0 {
		s.queue`},
	{"no other node port is taken after the grant", by("internal/workloads/translate", "TestNodePortsAfterTheGrant"),
		"internal/workloads/translate/service.go", `	if !r.NodePorts {
		errs = append(errs, checkMoreNodePorts`, `	if false {
		errs = append(errs, checkMoreNodePorts`},
	{"what is a load balancer in the space alone gets none without a grant", by("internal/workloads/sync", "TestNoneOnTheHostYet"),
		"internal/workloads/sync/services.go", `rules.LoadBalancers || host.Spec.Type == corev1.ServiceTypeLoadBalancer`, `true`},
	{"a name is one up to a NUL", by("internal/workloads/translate", "TestCertificate"),
		"internal/workloads/translate/certificate.go", `	name, _, _ = strings.Cut(name, "\x00")
`, ``},
	{"a certificate has its own key", by("internal/workloads/translate", "TestCertificateLoads"),
		"internal/workloads/translate/certificate.go", `	if err != nil { // which quotes what is in there`, `	if err != nil && len(chain) == 0 {`},
	{"a certificate is one that all libraries load", by("internal/workloads/translate", "TestCertificateLoads"),
		"internal/workloads/translate/certificate.go", `errors.Join(checkEncoding(certificate), checkLoads(certificate)); err != nil {`, `errors.Join(checkEncoding(certificate), checkLoads(certificate)); err != nil && len(chain) == 0 {`},
	{"a certificate is read by all libraries alike", by("internal/workloads/translate", "TestCertificateEncodings|TestCertificateExtensions"),
		"internal/workloads/translate/encoding.go", `return err == nil && bytes.Equal(again, der)`, `return err == nil && len(again) > 0`},
	{"labels of host names are such as there can be", by("api/v1alpha1", "TestHasHostName"),
		"api/v1alpha1/tenant_workloads.go", `slices.ContainsFunc(labels, func(l string) bool { return len(validation.IsDNS1123Label(l)) > 0 })`, `len(labels) == 0`},
	{"a certificate has a version", by("internal/workloads/translate", "TestCertificateEncodings"),
		"internal/workloads/translate/encoding.go", ` || c.Signed.Version != version3`, ``},
	{"the key of a certificate is read by all libraries alike", by("internal/workloads/translate", "TestCertificateEncodings"),
		"internal/workloads/translate/encoding.go", `!bytes.Equal(key, certificate.RawSubjectPublicKeyInfo)`, `len(key) == 0`},
	{"names of a certificate are read by all libraries alike", by("internal/workloads/translate", "TestCertificateEncodings|TestCertificateExtensions"),
		"internal/workloads/translate/encoding.go", `if !slices.Contains(kinds, n.FullBytes[0]) || `, `if `},
	{"a directory of a certificate is read by all libraries alike", by("internal/workloads/translate", "TestCertificateExtensions"),
		"internal/workloads/translate/encoding.go", `!isDirectory(n.Bytes)`, `false`},
	{"extensions that libraries read are known", by("internal/workloads/translate", "TestCertificateExtensions"),
		"internal/workloads/translate/encoding.go", `!known && !strings.HasPrefix(id, privateExtensions) || known`, `!known && strings.HasPrefix(id, "0") || known`},
	{"parameters of a certificate's signature are read by all libraries alike", by("internal/workloads/translate", "TestCertificateEncodings"),
		"internal/workloads/translate/encoding.go", `|| bytes.Equal(p, asn1.NullBytes) ||`, `|| p[0] == asn1.TagNull ||`},
	{"a certificate has a key of some length", by("internal/workloads/translate", "TestCertificateLoads"),
		"internal/workloads/translate/certificate.go", `		fits = key.N.BitLen() >= minRSABits`, `		fits = true`},
	{"a certificate is signed as libraries take it", by("internal/workloads/translate", "TestCertificateLoads"),
		"internal/workloads/translate/certificate.go", `	if !slices.Contains(signatures, certificate.SignatureAlgorithm) {`, `	if false && !slices.Contains(signatures, certificate.SignatureAlgorithm) {`},
	{"a key has two primes", by("internal/workloads/translate", "TestCertificateLoads"),
		"internal/workloads/translate/certificate.go", `ok && len(key.Primes) != 2 {`, `ok && len(key.Primes) == 0 {`},
	{"certificates of before are looked at again", by("internal/workloads/sync", "TestCertificateOfBefore"),
		"internal/workloads/sync/copies.go", `names.Hash([]any{s.rulesFor(n).HostNames, translate.CertificateRules})`, `names.Hash([]any{s.rulesFor(n).HostNames, 0 * translate.CertificateRules})`},
	{"all common names of a certificate are looked at", by("internal/workloads/translate", "TestCertificate"),
		"internal/workloads/translate/certificate.go", `range certificate.Subject.Names {`, `range certificate.Subject.Names[max(0, len(certificate.Subject.Names)-1):] {`},
	{"what is not stored is not on the host", by("internal/workloads/clusterip", "TestTakenBack"),
		"internal/workloads/clusterip/transaction.go", `	if err != nil {
		t.rollBack(ctx)`, `	if err == nil {
		t.rollBack(ctx)`},
	{"a host is not asked for what admission refuses", by("internal/workloads/clusterip", "TestAskedLast"),
		"internal/workloads/clusterip/wrap.go", `			if err := validate(ctx, obj); err != nil {`, `			if err := validate(ctx, obj); false && err != nil {`},
	{"nor for a change", by("internal/workloads/clusterip", "TestAskedLast"),
		"internal/workloads/clusterip/wrap.go", `			if err := validate(ctx, obj, old); err != nil {`, `			if err := validate(ctx, obj, old); false && err != nil {`},
	{"a change that is not stored is put back", by("internal/workloads/clusterip", "TestPutBack"),
		"internal/workloads/clusterip/transaction.go", `err != nil || same {`, `err != nil || same || true {`},
	{"a change that may be stored stays", by("internal/workloads/clusterip", "TestPutBack"),
		"internal/workloads/clusterip/transaction.go", `err != nil || same {`, `err != nil || same && false {`},
	{"what others have changed since is not put back", by("internal/workloads/clusterip", "TestPutBack"),
		"internal/workloads/clusterip/transaction.go", `there.Annotations[names.ChangeAnnotation] != stamp:`, `false:`},
	{"a change is not made upon another's", by("internal/workloads/clusterip", "TestChangedByAnother"),
		"internal/workloads/clusterip/services.go", `		} else if !same {`, `		} else if false && !same {`},
	{"what a host may have made is taken back", by("internal/workloads/clusterip", "TestAnsweredLate"),
		"internal/workloads/clusterip/services.go", `	if err == nil || lost {`, `	if err == nil || lost && false {`},
	{"a change that is refused again has no more time", by("internal/workloads/sync", "TestServices"),
		"internal/workloads/sync/services.go", `left(string(host.UID)) // from`, `left(string(host.UID) + change) // from`},
	{"what may be stored stays on the host", by("internal/workloads/clusterip", "TestTakenBack"),
		"internal/workloads/clusterip/transaction.go", `err != nil || stored != nil && stored.UID == uid {`, `err != nil || stored != nil && false {`},
	{"an attempt that was not stored is taken back", by("internal/workloads/clusterip", "TestTriedAgain"),
		"internal/workloads/clusterip/transaction.go", `	t.rollBack(ctx) // an attempt`, `	_ = 0 // an attempt`},
	{"webhooks add nothing that a host must not get", by("internal/workloads/clusterip", "TestRefused"),
		"internal/workloads/clusterip/services.go", `CheckServiceChange(asked, was); len(errs) > 0 {`, `CheckServiceChange(asked, was); false {`},
	{"what is not valid does not get to a host", by("internal/workloads/clusterip", "TestRefused"),
		"internal/workloads/clusterip/services.go", `	if len(errs) > 0 {
		return nil, apierrors.NewInvalid`, `	if false {
		return nil, apierrors.NewInvalid`},
	{"a predecessor's Service on the host is not taken", by("internal/workloads/clusterip", "TestRefused|TestPredecessorGoes"),
		"internal/workloads/clusterip/services.go", `	case found.Annotations[names.UIDAnnotation] != wanted.Annotations[names.UIDAnnotation]:`, `	case false:`},
	{"a change is of this Service's own", by("internal/workloads/clusterip", "TestUpdateElsewhere"),
		"internal/workloads/clusterip/services.go", ` || there.Annotations[names.UIDAnnotation] != string(before.UID) {`, ` {`},
	{"a dry run asks nothing of a host", by("internal/workloads/clusterip", "TestDryRun"),
		"internal/workloads/clusterip/services.go", `	if err != nil || dryRun {`, `	if err != nil {`},
	{"nobody says where a Service is", by("internal/workloads/clusterip", "TestUpdate$"),
		"internal/workloads/clusterip/wrap.go", `	service.Annotations[names.HostUIDAnnotation] = place`, `	_ = place`},
	{"a status does not say where a Service is", by("internal/workloads/clusterip", "TestStatus"),
		"internal/workloads/clusterip/wrap.go", `	keepPlace(service, before)
	return service, nil`, `	return service, nil`},
	{"what the host has given is not released here", by("internal/workloads/clusterip", "TestCreate"),
		"internal/workloads/clusterip/wrap.go", `ok && isPlaced(service) {`, `ok && service == nil {`},
	{"node ports are for Tenants that may", by("internal/workloads/translate", "TestCheckService"),
		"internal/workloads/translate/service.go", `ServiceTypeNodePort && !r.NodePorts:`, `ServiceTypeNodePort && false:`},
	{"tenants choose no endpoints", by("internal/workloads/translate", "TestCheckService"),
		"internal/workloads/translate/service.go", `	if len(spec.Selector) == 0 &&`, `	if false &&`},
	{"the host's components do not obey tenants", by("internal/workloads/translate", "TestService$"),
		"internal/workloads/translate/service.go", `	for _, key := range serviceLabels {`, `	host.Annotations = service.Annotations
	for _, key := range serviceLabels {`},
	{"a Service in the making is left alone", by("internal/workloads/sync", "TestServices"),
		"internal/workloads/sync/services.go", `host.CreationTimestamp.Time); left > 0 {`, `host.CreationTimestamp.Time); false {`},
	{"a Service that a server changes is left alone", by("internal/workloads/sync", "TestServices"),
		"internal/workloads/sync/services.go", `	if !same && change != "" {`, `	if false {`},
	{"what a host must not get of Services does not get there", by("internal/workloads/sync", "TestServices"),
		"internal/workloads/sync/services.go", `	if errs := rules.CheckService(service); len(errs) > 0 {
		return s.refuseService(ctx, service, errs.ToAggregate().Error())
	}
	_, err = s.ensure`, `	if errs := rules.CheckService(service); false && len(errs) > 0 {
		return s.refuseService(ctx, service, errs.ToAggregate().Error())
	}
	_, err = s.ensure`},
	{"Ingresses name hosts", by("internal/workloads/translate", "TestCheckIngress"),
		"internal/workloads/translate/ingress.go", `	case host == "":
		return field.ErrorList{`, `	case host == "":
		return nil
	case host == "?":
		return field.ErrorList{`},
	{"Ingresses name hosts of their Tenant", by("internal/workloads/translate", "TestCheckIngress"),
		"internal/workloads/translate/ingress.go", `	case !v1alpha1.HasHostName(r.HostNames, host):`, `	case !v1alpha1.HasHostName(r.HostNames, host) && host == "?":`},
	{"certificates of Ingresses have hosts of their Tenant", by("internal/workloads/translate", "TestCheckIngress"),
		"internal/workloads/translate/ingress.go", `r.checkHost(host, path.Child("hosts").Index(i))...)`, `r.checkHost(host[:0]+"acme.example.com", path.Child("hosts").Index(i))...)`},
	{"certificates of Ingresses have hosts", by("internal/workloads/translate", "TestCheckIngress"),
		"internal/workloads/translate/ingress.go", `	if len(tls.Hosts) == 0 {`, `	if false {`},
	{"Ingresses have classes of their Tenant", by("internal/workloads/translate", "TestCheckIngress"),
		"internal/workloads/translate/ingress.go", `!slices.Contains(r.IngressClasses, class) {`, `class == "" {`},
	{"Ingresses take no default class of the host", by("internal/workloads/translate", "TestCheckIngress"),
		"internal/workloads/translate/ingress.go", `	default:
		return ""
	}`, `	default:
		return "nginx"
	}`},
	{"paths are no configuration", by("internal/workloads/translate", "TestCheckIngress"),
		"internal/workloads/translate/ingress.go", `		if !inPaths[text[i]] {`, `		if false {`},
	{"load balancers are for Tenants that may", by("internal/workloads/translate", "TestCheckLoadBalancer"),
		"internal/workloads/translate/service.go", `	if !r.LoadBalancers {`, `	if false {`},
	{"load balancers have no ports of nodes by themselves", by("internal/workloads/translate", "TestCheckLoadBalancer"),
		"internal/workloads/translate/service.go", `	if hasAllocated(spec) {`, `	if false {`},
	{"load balancers have no port of nodes for health checks by themselves", by("internal/workloads/translate", "TestCheckLoadBalancer"),
		"internal/workloads/translate/service.go", `	if spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {`, `	if false {`},
	{"load balancers name no ports of nodes by themselves", by("internal/workloads/translate", "TestCheckLoadBalancer"),
		"internal/workloads/translate/service.go", `		if spec.Ports[i].NodePort != 0 {`, `		if false {`},
	{"load balancers let in so many ranges", by("internal/workloads/translate", "TestCheckLoadBalancer"),
		"internal/workloads/translate/service.go", `	if len(spec.LoadBalancerSourceRanges) > maxSourceRanges {`, `	if false {`},
	{"annotations are on the host for load balancers alone", by("internal/workloads/translate", "TestLoadBalancer$"),
		"internal/workloads/translate/service.go", `	if service.Spec.Type == corev1.ServiceTypeLoadBalancer {
		copyAnnotations(`, `	if true {
		copyAnnotations(`},
	{"an annotation that changes is changed on the host", by("internal/workloads/translate", "TestLoadBalancer$"),
		"internal/workloads/translate/service.go", `		hashed["annotations"] = copied`, `		_ = copied`},
	{"what the host needs to take a load balancer away stays", by("internal/workloads/sync", "TestLoadBalancers$"),
		"internal/workloads/sync/services.go", `	translate.KeepHosts(wanted, host)
`, ``},
	{"what the host needs to take a load balancer away stays when servers change it", by("internal/workloads/clusterip", "TestChangeLoadBalancer"),
		"internal/workloads/clusterip/services.go", `	translate.KeepHosts(host, there)
`, ``},
	{"what the host needs to take a load balancer away stays when it is put back", by("internal/workloads/clusterip", "TestLoadBalancerPutBack"),
		"internal/workloads/clusterip/transaction.go", `translate.KeepHosts(restored, there)`, `translate.KeepHosts(restored.DeepCopy(), there)`},
	{"no change opens what an annotation has closed", by("internal/workloads/clusterip", "TestAnnotationNotGrantedAnyMore"),
		"internal/workloads/translate/service.go", `return !strings.HasPrefix(e.Field, annotationsPath) && slices`, `return slices`},
	{"a tenant has load balancers made one after the other", by("internal/workloads/clusterip", "TestLoadBalancersWait"),
		"internal/workloads/clusterip/limits.go", `if wait := l.balancers.Take(`, `if wait := l.written.Take(`},
	{"servers ask for load balancers one after the other", by("internal/workloads/clusterip", "TestRefused"),
		"internal/workloads/clusterip/services.go", `	if err := s.limits.allow(n, service, nil, host); err != nil {`, `	if err := s.limits.allow(n, service, nil, host); false {`},
	{"the host is asked once to create what it has already", by("internal/workloads/clusterip", "TestPredecessorStays"),
		"internal/workloads/clusterip/services.go", `		if there {
			if placed`, `		if false {
			if placed`},
	{"the host is asked ever more seldom", by("internal/workloads/clusterip", "TestPredecessorStays"),
		"internal/workloads/clusterip/services.go", `gap*3/2`, `gap`},
	{"servers write so many bytes of Services of a tenant", by("internal/workloads/clusterip", "TestWritesWait"),
		"internal/workloads/clusterip/limits.go", `l.written.Take(now, n, translate.ServiceBytes(wanted))`, `l.written.Take(now, n, min(translate.ServiceBytes(wanted), 0))`},
	{"servers write so many bytes of changed Services of a tenant", by("internal/workloads/clusterip", "TestWritesWait"),
		"internal/workloads/clusterip/services.go", `	if err := s.limits.allow(n, service, before, host); err != nil {`, `	if err := s.limits.allow(n, service, before, host); false {`},
	{"what the host chooses for health checks is what a space has", by("internal/workloads/clusterip", "TestCreateLoadBalancer"),
		"internal/workloads/clusterip/services.go", `	service.Spec.HealthCheckNodePort = chosen.Spec.HealthCheckNodePort
`, ``},
	{"a load balancer that a Tenant does not grant is not on the host", by("internal/workloads/sync", "TestLoadBalancers$"),
		"internal/workloads/sync/services.go", `	if errs := rules.CheckService(service); len(errs) > 0 {
		return s.refuseService(ctx, service, errs.ToAggregate().Error())
	}
	if wanted`, `	if errs := rules.CheckService(service); false && len(errs) > 0 {
		return s.refuseService(ctx, service, errs.ToAggregate().Error())
	}
	if wanted`},
	{"load balancers change one after the other", by("internal/workloads/sync", "TestLoadBalancers$"),
		"internal/workloads/sync/services.go", `ServiceTypeLoadBalancer && s.queue.after(i, s.routing`, `ServiceTypeLoadBalancer && false && s.queue.after(i, s.routing`},
	{"a space has so many addresses of a load balancer", by("internal/workloads/sync", "TestLoadBalancers$"),
		"internal/workloads/sync/services.go", `Ingress[:min(len(host.Status.LoadBalancer.Ingress), maxAddresses)]`, `Ingress`},
	{"a space has so many addresses of an Ingress", by("internal/workloads/sync", "TestIngresses$"),
		"internal/workloads/sync/ingresses.go", `	at.Ingress = at.Ingress[:min(len(at.Ingress), maxAddresses)]
`, ``},
	{"certificates are for names of the tenant", by("internal/workloads/translate", "TestCertificate"),
		"internal/workloads/translate/certificate.go", `		if !v1alpha1.HasHostName(r.HostNames, plainName(name)) {`, `		if !v1alpha1.HasHostName(r.HostNames, "a.acme.example.com") {`},
	{"common names are names", by("internal/workloads/translate", "TestCertificate"),
		"internal/workloads/translate/certificate.go", `isHostName(common) {`, `false {`},
	{"what is no certificate is not copied", by("internal/workloads/translate", "TestCertificate"),
		"internal/workloads/translate/certificate.go", `err != nil || block.Type != certificateBlock {`, `err != nil {`},
	{"the host follows no name of a tenant", by("internal/workloads/translate", "TestService$"),
		"internal/workloads/translate/service.go", `service.Spec.ExternalName, names.NoHost`, `service.Spec.ExternalName, service.Spec.ExternalName`},
	{"what a Tenant does not grant is not on the host", by("internal/workloads/sync", "TestIngresses$"),
		"internal/workloads/sync/ingresses.go", `	if why != "" {`, `	if false {`},
	{"an Ingress of a Tenant without names is in its space", by("internal/workloads/sync", "TestIngresses$"),
		"internal/workloads/sync/ingresses.go", `	if !rules.HasIngresses() || there == nil && ingress`, `	if there == nil && ingress`},
	{"a tenant has so many Ingresses", by("internal/workloads/sync", "TestManyIngresses"),
		"internal/workloads/sync/ingresses.go", `kindIn{k, n.String()}, maxIngresses, on`, `kindIn{k, n.String()}, 2*maxIngresses, on`},
}
