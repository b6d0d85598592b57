package main

// hostTable are lines of the operator of a host cluster.
var hostTable = []mutant{
	{"a Tenant in a control plane is a host's by its mark alone", by("internal/controller/hosttenant", "TestReconcile"),
		"internal/controller/hosttenant/mirror.go", `return t.UID != "" && found.Annotations[v1alpha1.HostTenantAnnotation] == string(t.UID)`, `return true`},
	{"the mark is that of the Tenant of the host", by("internal/controller/hosttenant", "TestReconcile"),
		"internal/controller/hosttenant/mirror.go", `== string(t.UID)`, `!= ""`},
	{"what somebody has made meanwhile is looked at", by("internal/controller/hosttenant", "TestCreationRaces"),
		"internal/controller/hosttenant/mirror.go", `	if !isOurs(w.tenant, found) {`, `	if false {`},
	{"a Tenant of others stays when that of the host is deleted", by("internal/controller/hosttenant", "TestReconcile"),
		"internal/controller/hosttenant/deletion.go", `case !isOurs(w.tenant, found):`, `case false:`},
	{"a Tenant of the host stays until its space is gone", by("internal/controller/hosttenant", "TestReconcile"),
		"internal/controller/hosttenant/deletion.go", `	return errWaiting
}`, `	return nil
}`},
	{"a Tenant is abandoned only if its ControlPlane is gone", by("internal/controller/hosttenant", "TestReconcile"),
		"internal/controller/hosttenant/deletion.go", `	if !is || p.reason`, `	if is && p.reason`},
	{"the system is nobody's tenant", by("internal/controller/hosttenant", "TestReconcile"),
		"internal/controller/hosttenant/reconciler.go", `	if isReserved(w.tenant.Name) {`, `	if false {`},
	{"ControlPlanes of other namespaces are not looked for", by("internal/controller/hosttenant", "TestReconcile"),
		"internal/controller/hosttenant/reconciler.go", `	if !slices.Contains(r.Namespaces, w.ref.Namespace) {`, `	if false {`},
	{"a default stays", by("internal/controller/hosttenant", "TestDefaultIsRecordedFirst"),
		"internal/controller/hosttenant/reconciler.go", `	if isDefault {
		return r.record(ctx, w)
	}`, ``},
	{"the default is in one namespace", by("internal/controller/hosttenant", "TestDefault$"),
		"internal/controller/hosttenant/defaults.go", `client.InNamespace(d.Namespace)`, `client.InNamespace("")`},
	{"labels of ours are not the host's to set", by("internal/controller/hosttenant", "TestMirroredLabels"),
		"internal/controller/hosttenant/names.go", `if domain != ownDomain && !strings.HasSuffix(domain, "."+ownDomain) {`, `if domain != "" {`},
	{"annotations are not the host's to set", by("internal/controller/hosttenant", "TestReconcile|TestDesired"),
		"internal/controller/hosttenant/mirror.go", `	t.Spec.DeepCopyInto(&wanted.Spec)`, `	maps.Copy(wanted.Annotations, t.Annotations)
	t.Spec.DeepCopyInto(&wanted.Spec)`},
	{"a Secret of others is not written", by("internal/controller/hosttenant", "TestSecretOfOthers"),
		"internal/controller/hosttenant/kubeconfig.go", `	case !isKubeconfigOf(w.tenant, found):`, `	case false:`},
	{"a Secret of others is not emptied", by("internal/controller/hosttenant", "TestSecretOfOthers"),
		"internal/controller/hosttenant/kubeconfig.go", `apierrors.IsNotFound(err) || err == nil && !isKubeconfigOf(w.tenant, found):`, `apierrors.IsNotFound(err):`},
	{"a Secret with a kubeconfig goes with its Tenant", by("internal/controller/hosttenant", "TestKubeconfig"),
		"internal/controller/hosttenant/kubeconfig.go", `WithUID(w.tenant.UID)`, `WithUID(w.cp.UID)`},
	{"a server leads the operator nowhere", by("internal/controller/hosttenant", "TestRedirectsAreNotFollowed"),
		"internal/controller/hosttenant/guard.go", `	if response.StatusCode/100 == 3 {`, `	if false {`},
	{"an answer of a server has a bound", by("internal/controller/hosttenant", "TestAnswersAreBounded"),
		"internal/controller/hosttenant/guard.go", `b.left < 0 {`, `false {`},
	{"the certificate of an earlier tenant is not handed on", by("internal/controller/hosttenant", "TestKubeconfig"),
		"internal/controller/hosttenant/kubeconfig.go", `	if current.Annotations[spaceAnnotation] != string(w.mirror.UID) {`, `	if false {`},
	{"a kubeconfig that somebody has edited is made anew", by("internal/controller/controlplane", "TestAdmin"),
		"internal/kubeconfig/renew.go", `err == nil && isPlain(current) &&`, `err == nil &&`},
	{"a control plane does not say where a tenant is", by("internal/controller/hosttenant", "TestOwnConditions"),
		"internal/controller/hosttenant/status.go", `	if w.cp != nil || status.ControlPlaneRef != nil {`, `	if false {`},
	{"servers that are slow have a share of the workers", by("internal/controller/hosttenant", "TestShareOfWorkers"),
		"internal/controller/hosttenant/sharing.go", `s.next.RoundTrip(request.WithContext(ctx))`, `s.next.RoundTrip(request)`},
	{"the end of an answer counts, too", by("internal/controller/hosttenant", "TestShareOfWorkers"),
		"internal/controller/hosttenant/sharing.go", `		err = readAll(response, s.of.String())
`, ``},
	{"an answer about one Tenant has a bound", by("internal/controller/hosttenant", "TestTenantsAreBounded"),
		"internal/controller/hosttenant/sharing.go", `left: tenantBytes}`, `left: 1 << 40}`},
	{"one request finds out whether servers answer", by("internal/controller/hosttenant", "TestProbes"),
		"internal/controller/hosttenant/breaker.go", `case b.probing || time.Now()`, `case time.Now()`},
	{"a list of a control plane ends", by("internal/controller/hosttenant", "TestAnswersEnd"),
		"internal/controller/hosttenant/guard.go", `	ends := time.AfterFunc(limit, cancel)`, `	ends := time.AfterFunc(1000*limit, cancel)`},
	{"events of a control plane have a rate", by("internal/controller/hosttenant", "TestPace|TestEventsArePaced"),
		"internal/controller/hosttenant/pace.go", `	if delay == 0 {`, `	if delay < 1<<62 {`},
	{"a change of the host counts once", by("internal/controller/hosttenant", "TestPace"),
		"internal/controller/hosttenant/pace.go", `p.known[t.Name] != is {`, `true {`},
	{"servers that are busy are no news", by("internal/controller/hosttenant", "TestBusy"),
		"internal/controller/hosttenant/reconciler.go", `	case errors.Is(err, errBusy): // which is no news
		return reconcile.Result{RequeueAfter: wait.Jitter(busyPeriod, 1)}, nil
`, ``},
}
