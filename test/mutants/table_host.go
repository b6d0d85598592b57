package main

// hostTable are lines of the operator of a host cluster.
var hostTable = []mutant{
	{
		name:   "a Tenant in a control plane is a host's by its mark alone",
		file:   "internal/controller/hosttenant/mirror.go",
		before: `return t.UID != "" && found.Annotations[v1alpha1.HostTenantAnnotation] == string(t.UID)`,
		after:  `return true`,
		tests:  []string{"./internal/controller/hosttenant", "-run=TestReconcile"},
	},
	{
		name:   "the mark is that of the Tenant of the host",
		file:   "internal/controller/hosttenant/mirror.go",
		before: `== string(t.UID)`,
		after:  `!= ""`,
		tests:  []string{"./internal/controller/hosttenant", "-run=TestReconcile"},
	},
	{
		name:   "what somebody has made meanwhile is looked at",
		file:   "internal/controller/hosttenant/mirror.go",
		before: `	if !isOurs(w.tenant, found) {`,
		after:  `	if false {`,
		tests:  []string{"./internal/controller/hosttenant", "-run=TestCreationRaces"},
	},
	{
		name:   "a Tenant of others stays when that of the host is deleted",
		file:   "internal/controller/hosttenant/deletion.go",
		before: `case !isOurs(w.tenant, found):`,
		after:  `case false:`,
		tests:  []string{"./internal/controller/hosttenant", "-run=TestReconcile"},
	},
	{
		name: "a Tenant of the host stays until its space is gone",
		file: "internal/controller/hosttenant/deletion.go",
		before: `	return errWaiting
}`,
		after: `	return nil
}`,
		tests: []string{"./internal/controller/hosttenant", "-run=TestReconcile"},
	},
	{
		name:   "a Tenant is abandoned only if its ControlPlane is gone",
		file:   "internal/controller/hosttenant/deletion.go",
		before: `	if !is || p.reason`,
		after:  `	if is && p.reason`,
		tests:  []string{"./internal/controller/hosttenant", "-run=TestReconcile"},
	},
	{
		name:   "the system is nobody's tenant",
		file:   "internal/controller/hosttenant/reconciler.go",
		before: `	if isReserved(w.tenant.Name) {`,
		after:  `	if false {`,
		tests:  []string{"./internal/controller/hosttenant", "-run=TestReconcile"},
	},
	{
		name:   "ControlPlanes of other namespaces are not looked for",
		file:   "internal/controller/hosttenant/reconciler.go",
		before: `	if !slices.Contains(r.Namespaces, w.ref.Namespace) {`,
		after:  `	if false {`,
		tests:  []string{"./internal/controller/hosttenant", "-run=TestReconcile"},
	},
	{
		name: "a default stays",
		file: "internal/controller/hosttenant/reconciler.go",
		before: `	if isDefault {
		return r.record(ctx, w)
	}`,
		after: ``,
		tests: []string{"./internal/controller/hosttenant", "-run=TestDefaultIsRecordedFirst"},
	},
	{
		name:   "the default is in one namespace",
		file:   "internal/controller/hosttenant/defaults.go",
		before: `client.InNamespace(d.Namespace)`,
		after:  `client.InNamespace("")`,
		tests:  []string{"./internal/controller/hosttenant", "-run=TestDefault$"},
	},
	{
		name:   "labels of ours are not the host's to set",
		file:   "internal/controller/hosttenant/names.go",
		before: `if domain != ownDomain && !strings.HasSuffix(domain, "."+ownDomain) {`,
		after:  `if domain != "" {`,
		tests:  []string{"./internal/controller/hosttenant", "-run=TestMirroredLabels"},
	},
	{
		name:   "annotations are not the host's to set",
		file:   "internal/controller/hosttenant/mirror.go",
		before: `	t.Spec.DeepCopyInto(&wanted.Spec)`,
		after: `	maps.Copy(wanted.Annotations, t.Annotations)
	t.Spec.DeepCopyInto(&wanted.Spec)`,
		tests: []string{"./internal/controller/hosttenant", "-run=TestReconcile|TestDesired"},
	},
	{
		name:   "a Secret of others is not written",
		file:   "internal/controller/hosttenant/kubeconfig.go",
		before: `	case !isKubeconfigOf(w.tenant, found):`,
		after:  `	case false:`,
		tests:  []string{"./internal/controller/hosttenant", "-run=TestSecretOfOthers"},
	},
	{
		name:   "a Secret of others is not deleted",
		file:   "internal/controller/hosttenant/kubeconfig.go",
		before: `apierrors.IsNotFound(err) || err == nil && !isKubeconfigOf(w.tenant, found):`,
		after:  `apierrors.IsNotFound(err):`,
		tests:  []string{"./internal/controller/hosttenant", "-run=TestSecretOfOthers"},
	},
	{
		name:   "the certificate of an earlier tenant is not handed on",
		file:   "internal/controller/hosttenant/kubeconfig.go",
		before: `	if current.Annotations[spaceAnnotation] != string(w.mirror.UID) {`,
		after:  `	if false {`,
		tests:  []string{"./internal/controller/hosttenant", "-run=TestKubeconfig"},
	},
	{
		name:   "a kubeconfig that somebody has edited is made anew",
		file:   "internal/kubeconfig/renew.go",
		before: `|| !isPlain(current) ||`,
		after:  `||`,
		tests:  []string{"./internal/controller/controlplane", "-run=TestAdmin"},
	},
	{
		name:   "a control plane does not say where a tenant is",
		file:   "internal/controller/hosttenant/status.go",
		before: `	if w.cp != nil || status.ControlPlaneRef != nil {`,
		after:  `	if false {`,
		tests:  []string{"./internal/controller/hosttenant", "-run=TestOwnConditions"},
	},
}
