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
		"internal/controller/hosttenant/deletion.go", `	if !is || p.Reason`, `	if is && p.Reason`},
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
	{"labels of ours are not the host's to set", by("internal/controller/hosttenant", "TestDesired"),
		"internal/controller/hosttenant/mirror.go", `Labels: tenant.WithoutOurs(t.Labels)`, `Labels: maps.Clone(t.Labels)`},
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
	{"an answer of a server is not YAML", by("internal/controller/hosttenant", "TestFormatsOfAnswers"),
		"internal/controller/hosttenant/guard.go", `!isRead(header) {`, `!isRead(header) && false {`},
	{"an answer of a server has a bound", by("internal/controller/hosttenant", "TestAnswersAreBounded"),
		"internal/controller/hosttenant/guard.go", `b.left < 0 {`, `false {`},
	{"the certificate of an earlier tenant is not handed on", by("internal/controller/hosttenant", "TestKubeconfig"),
		"internal/controller/hosttenant/kubeconfig.go", `	if current.Annotations[spaceAnnotation] != string(w.mirror.UID) {`, `	if false {`},
	{"a host asks for no more than its ControlPlane says", by("internal/server/registry/tenant", "TestHostLimits"),
		"internal/server/registry/tenant/strategy.go", `if s.hostLimits != nil && isHostOperator(ctx) {`, `if false && s.hostLimits != nil && isHostOperator(ctx) {`},
	{"a host asks for no nodes unless its ControlPlane says so", by("api/v1alpha1", "TestTenantLimits"),
		"api/v1alpha1/tenant_limits.go", `most := NodePlacement{Mode: NodePlacementDisabled}`, `most := NodePlacement{Mode: NodePlacementEnabled}`},
	{"no limit is more than a host may ask for", by("api/v1alpha1", "TestTenantLimits"),
		"api/v1alpha1/tenant_limits.go", `		case *n.wanted == 0:`, `		case false:`},
	{"a quota limits all that a host's must", by("api/v1alpha1", "TestTenantLimits"),
		"api/v1alpha1/tenant_limits.go", `		case !is:`, `		case !is && false:`},
	{"YAML of others that aliases make larger is not decoded", by("internal/controller/controlplane/configuration", "TestCheck"),
		"internal/controller/controlplane/configuration/configuration.go", `err := yamltext.Check(content)`, `err := yamltext.Check(nil)`},
	{"nor are kubeconfigs of webhooks", by("internal/controller/controlplane/configuration", "TestCheck"),
		"internal/controller/controlplane/configuration/files.go", `err := yamltext.Check(content)`, `err := yamltext.Check(nil)`},
	{"nor is what plugins are configured by", by("internal/controller/controlplane/configuration", "TestCheck"),
		"internal/controller/controlplane/configuration/admission.go", `err := yamltext.Check(content)`, `err := yamltext.Check(nil)`},
	{"nor are kubeconfigs in the place of the operator's", by("internal/controller/controlplane", "TestAdmin"),
		"internal/kubeconfig/renew.go", `if yamltext.Check(current) != nil {`, `if yamltext.Check(nil) != nil {`},
	{"an anchor is what an alias names", by("internal/yamltext", "TestCheck"),
		"internal/yamltext/yamltext.go", `if anchors[string(name)] {`, `if anchors["*"+string(name)] {`},
	{"expressions are few and short", by("internal/controller/controlplane/configuration", "TestCheck"),
		"internal/controller/controlplane/configuration/expressions.go", `if len(all) > mostExpressions || length > expressionBytes {`, `if len(all) < 0 {`},
	{"numbers that take hours to read are refused before", by("internal/controller/controlplane/configuration", "TestCheck"),
		"api/config/v1alpha1/read.go", `if slowNumber.MatchString(v) {`, `if v == "slow" {`},
	{"servers run no programs to log in to webhooks", by("internal/controller/controlplane/configuration", "TestCheck"),
		"internal/controller/controlplane/configuration/files.go", `if user.Exec != nil || user.AuthProvider != nil {`, `if user.AuthProvider != nil {`},
	{"users of webhooks are those of a file of the section", by("internal/controller/controlplane/configuration", "TestCheck"),
		"internal/controller/controlplane/configuration/admission.go", `	users, err := beside.absolute(c.KubeConfigFile)
	if err == nil {
		err = checkUsers(users, beside)
	}`, `	_, err = beside.absolute(c.KubeConfigFile)`},
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
	{"a control plane says little on the host", by("internal/controller/hosttenant", "TestLargeStatus"),
		"internal/controller/hosttenant/status.go", `len(content) > statusBytes {`, `false {`},
	{"messages of a control plane are cut", by("internal/controller/hosttenant", "TestLargeStatus"),
		"internal/controller/hosttenant/status.go", `conditions.Message(c.Message), observed`, `c.Message, observed`},
	{"reasons of a control plane are short", by("internal/controller/hosttenant", "TestLargeStatus"),
		"internal/controller/hosttenant/status.go", `c != nil && isShort(c) {`, `c != nil {`},
	{"servers that always conflict are asked less often", by("internal/controller/hosttenant", "TestConflicts"),
		"internal/controller/hosttenant/reconciler.go", `	if apierrors.IsConflict(err) {
		return r.again(request), nil`, `	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: conditions.ConflictPeriod}, nil`},
	{"a Tenant of another operator is not abandoned", by("internal/controller/hosttenant", "TestReconcile"),
		"internal/controller/hosttenant/deletion.go", `	if w.ref != nil && !slices.Contains(r.Namespaces, w.ref.Namespace) {`, `	if false {`},
	{"the end of an event of the audit log is not in a status", by("internal/controller/controlplane", "TestLastLine"),
		"internal/controller/controlplane/observe.go", `	if len(message) >= cutMessage {`, `	if false {`},
	{"the host is not read all the time for servers that conflict", by("internal/controller/hostpublish", "TestConflicts"),
		"internal/controller/hostpublish/reconciler.go", `	case apierrors.IsConflict(err):
		return r.again(request), nil`, `	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: conflictPeriod}, nil`},
	{"rights in a former namespace go", by("internal/controller/hostpublish", "TestRightsGo"),
		"internal/controller/hostpublish/rights.go", `object.GetNamespace() == namespace`, `object.GetNamespace() != ""`},
	{"rights go with the last copy", by("internal/controller/hostpublish", "TestRightsGo"),
		"internal/controller/hostpublish/reconciler.go", `		failures = append(failures, space.revoke(ctx))
`, ``},
	{"what a worker has asked for is quick to decode", by("internal/controller/hosttenant", "TestAnswersAreQuickToDecode"),
		"internal/controller/hosttenant/sharing.go", `		err = checkAnswer(of, content, objectQuantities)
`, ``},
	{"a list of a control plane is quick to decode", by("internal/controller/hosttenant", "TestAnswersAreQuickToDecode"),
		"internal/controller/hosttenant/answers.go", `			err = checkAnswer(c.of, content, answerQuantities)
`, ``},
	{"an event of a control plane is quick to decode", by("internal/controller/hosttenant", "TestAnswersAreQuickToDecode"),
		"internal/controller/hosttenant/answers.go", `			err = checkAnswer(c.of, event, objectQuantities)
`, ``},
	{"an event of a control plane has a bound", by("internal/controller/hosttenant", "TestAnswersAreBounded"),
		"internal/controller/hosttenant/answers.go", `of: of, most: tenantBytes}`, `of: of, most: 1 << 40}`},
	{"a Tenant in a list is bounded", by("internal/controller/hosttenant", "TestBare"),
		"internal/controller/hosttenant/answers.go", `		if n > objectQuantities {`, `		if n < 0 {`},
	{"quantities of an answer are compared quickly", by("internal/bounds", "TestAnswer"),
		"internal/bounds/numbers.go", `		if numberIn(text).incomparable() {
			return tooLong(fmt.Sprintf("the number of %q", key), text)
		}
		return nil
	}
	if !bytes`, `		if numberIn(text).slow() {
			return tooLong(fmt.Sprintf("the number of %q", key), text)
		}
		return nil
	}
	if !bytes`},
	{"null is a quantity, too", by("internal/bounds", "TestAnswer"),
		"internal/bounds/numbers.go", `case c == 'n' && (inside || isQuantity(key)):`, `case false:`},
	{"one request finds out whether servers answer", by("internal/controller/hosttenant", "TestProbes"),
		"internal/controller/hosttenant/breaker.go", `case b.probing || time.Now()`, `case time.Now()`},
	{"a list of a control plane ends", by("internal/controller/hosttenant", "TestAnswersEnd"),
		"internal/controller/hosttenant/guard.go", `	ends := time.AfterFunc(limit, cancel)`, `	ends := time.AfterFunc(1000*limit, cancel)`},
	{"events of a control plane have a rate", by("internal/controller/hosttenant", "TestPace|TestEventsArePaced"),
		"internal/controller/hosttenant/pace.go", `max(delay, p.limit.Reserve().Delay())`, `max(delay, 0*p.limit.Reserve().Delay())`},
	{"a change of the host counts once", by("internal/controller/hosttenant", "TestPace"),
		"internal/controller/hosttenant/pace.go", `p.known[t.Name] != is {`, `true {`},
	{"servers that are busy are no news", by("internal/controller/hosttenant", "TestBusy"),
		"internal/controller/hosttenant/reconciler.go", `case errors.Is(err, errBusy):`, `case false && errors.Is(err, errBusy):`},
	{"keys that somebody else may know are not used", by("internal/controller/controlplane", "TestKeysAreMadeOnce"),
		"internal/controller/controlplane/keys.go", `return secret.Data, r.checkMade(ctx, w.cp, secret)`, `return secret.Data, nil`},
	{"keys that no record names are not used", by("internal/controller/controlplane", "TestKeysAreMadeOnce"),
		"internal/controller/controlplane/made.go", `	case isRecorded(cp, secret), `, `	case cp.Status.CertificateAuthority != "" && !recordsKeys(cp), isRecorded(cp, secret), `},
	{"configuration that somebody has planted is not used", by("internal/controller/controlplane", "TestNothingPlantedIsUsed"),
		"internal/controller/controlplane/copies.go", `!slices.Contains(w.cp.Status.Copies, found)`, `false && !slices.Contains(w.cp.Status.Copies, found)`},
	{"what others put into copies is removed", by("internal/controller/controlplane", "TestNothingPlantedIsUsed"),
		"internal/controller/controlplane/keys.go", `return r.removeOthers(ctx, secret, data)`, `return nil`},
	{"what was copied cannot be tried by its digest", by("internal/controller/controlplane", "TestDigestsOfCopies"),
		"internal/controller/controlplane/copies.go", `hmac.New(sha256.New, secret)`, `hmac.New(sha256.New, secret[:0])`},
	{"keys are recorded before they are made", by("internal/controller/controlplane", "TestKeysAreRecordedFirst"),
		"internal/controller/controlplane/keys.go", `	if err := r.recordKeys(ctx, w, v1alpha1.ControlPlaneKeys{SecretName: name, Digest: digestOf(data)}); err != nil {`, `	if err := r.recordKeys(ctx, w, v1alpha1.ControlPlaneKeys{SecretName: name, Digest: digestOf(data)}); false && err != nil {`},
	{"users of tenants are issued by the keys of the status", by("internal/controller/hosttenant", "TestReadAccess"),
		"internal/controller/controlplane/access.go", `		if recordsKeys(cp) && !isRecorded(cp, secret) {`, `		if false {`},
	{"Secrets are published to their own ControlPlane", by("internal/controller/hostpublish", "TestPublished"),
		"internal/controller/controlplane/configuration.go", `return marks[ofLabel] == cp.Name && marks`, `return marks`},
	{"what the operator has made is not published", by("internal/controller/hostpublish", "TestPublished"),
		"internal/controller/controlplane/configuration.go", ` && marks[managedLabel] != FieldManager`, ``},
	{"what nobody has annotated is not published", by("internal/controller/hostpublish", "TestPublished"),
		"internal/controller/hostpublish/wanted.go", `		case !isPublished(object) || !isGiven(cp, k, object):`, `		case !isGiven(cp, k, object):`},
	{"Secrets are published by name alone", by("internal/controller/hostpublish", "TestPublished"),
		"internal/controller/hostpublish/wanted.go", `		case k.Resource == "secrets" && k.Group == "" || slices.Contains(byNameAlone, k.Group):`, `		case slices.Contains(byNameAlone, k.Group):`},
	{"what is not the host's is not written", by("internal/controller/hostpublish", "TestFollowing"),
		"internal/controller/hostpublish/space.go", `	case !isOurs(found):`, `	case false:`},
	{"what the host does not let the operator read is not deleted", by("internal/controller/hostpublish", "TestUnreadable"),
		"internal/controller/hostpublish/reconciler.go", `		if err == nil {
			readable`, `		if err == nil || isProblem(err) {
			readable`},
	{"annotations of ours are not copied from the host", by("internal/controller/hostpublish", "TestCopy"),
		"internal/controller/hostpublish/wanted.go", `annotations := tenant.WithoutOurs(object.GetAnnotations())`, `annotations := object.GetAnnotations()`},
	{"former keys of ours are ours", by("internal/tenant", "TestWithoutOurs"),
		"internal/tenant/keys.go", ` || of == formerDomain`, ``},
	{"the publisher writes in one namespace", by("internal/controller/hostpublish", "TestRights"),
		"internal/controller/hostpublish/space.go", `		if k.namespaced {
			within`, `		if k.namespaced && false {
			within`},
}
