package main

// packages are those whose every condition is tried.
var packages = []fastPackage{
	{dir: "internal/tenant"},
	{dir: "internal/server/authentication/identity"},
	{dir: "internal/server/authentication/webtoken"},
	{dir: "internal/server/authentication/certificate"},
	{dir: "internal/server/egress"},
	{dir: "internal/server/filters", files: []string{"space.go", "tenant.go"}},
}

// equivalents are the mutants of packages that do the same as what they replace.
var equivalents = []equivalent{
	{"internal/server/authentication/certificate/authorities.go", "load", "never",
		"t != nil && same(t.clients, clients) && same(t.system, system)", 0, "it is read again, which takes longer"},
	{"internal/server/authentication/certificate/certificate.go", "userOf", "never", `subject.CommonName == ""`, 0, "upstream refuses it, too"},
	{"internal/server/authentication/certificate/certificate.go", "userOf", "never", "err != nil || !ok", 0, "upstream has no other reason"},
	{"internal/server/authentication/certificate/certificate.go", "userOf", "and/or", "err != nil || !ok", 0, "upstream has no other reason"},
	{"internal/server/authentication/webtoken/webtoken.go", "Parse", "never", "err != nil", 0, "what is not decoded has no claims"},
	{"internal/server/authentication/webtoken/webtoken.go", "Parse", "never", "err != nil", 1, "what is not decoded has no claims"},
	{"internal/server/egress/egress.go", "denied", "never", "err != nil", 0, "a machine always says which addresses it has"},
	{"internal/server/filters/space.go", "admitToSpace", "never", "err != nil", 2, "UserTenant knows what From has found"},
	{"internal/tenant/path.go", "splitFullPath", "never", "next < 0", 0, "one segment is left, and a full path needs two"},
	{"internal/tenant/path.go", "splitFullPath", "never", "!ok", 0, "nothing is left then, as where the path ends"},
}

// table are the lines on which a defense rests.
var table = []mutant{
	{
		name:   "the key of the tenant in impersonation, whatever its case",
		file:   "internal/server/authorization/boundary.go",
		before: `strings.EqualFold(a.GetSubresource(), tenant.UserExtraKey)`,
		after:  `a.GetSubresource() == tenant.UserExtraKey`,
		tests:  []string{"./internal/server/authorization", "-run=TestBoundary"},
	},
	{
		name:   "the boundary is decided before privileged groups",
		file:   "internal/server/authorization/boundary.go",
		before: `privileged := userTenant == tenant.System && isMaster(a.GetUser())`,
		after:  `privileged := isMaster(a.GetUser())`,
		tests:  []string{"./internal/server/authorization", "-run=TestBoundary"},
	},
	{
		name:   "as which tenant's user an expression asks",
		file:   "internal/server/admission/authorizer.go",
		before: `Authenticated: userTenant}`,
		after:  `Authenticated: tenant.System}`,
		tests:  []string{"./internal/server/admission", "-run=TestSpaceAuthorizer"},
	},
	{
		name:   "an expression asks as a user of a tenant",
		file:   "internal/server/admission/authorizer.go",
		before: `, Authenticated: userTenant}`,
		after:  `}`,
		tests:  []string{"./internal/server/admission", "-run=TestSpaceAuthorizer"},
	},
	{
		name:   "the system's configuration is not read for tenants' webhooks",
		file:   "internal/server/admission/ondemand.go",
		before: `built, err := p.build(nil,`,
		after:  `built, err := p.build(p.config,`,
		tests:  []string{"./internal/server/admission", "-run=TestSystemConfiguration"},
	},
	{
		name:   "admission webhooks are reached as tenants' webhooks are",
		file:   "internal/server/admission/ondemand.go",
		before: `webhookAuth: p.shared.Egress.ForTenants(p.webhookAuth)`,
		after:  `webhookAuth: p.webhookAuth`,
		tests:  []string{"./internal/server/admission", "-run=TestDeniedNetworks"},
	},
	{
		name:   "webhooks find services of their own space",
		file:   "internal/server/admission/ondemand.go",
		before: `services: view.ServicesIn{Flat: p.shared.services, Tenant: n}`,
		after:  `services: view.ServicesIn{Flat: p.shared.services, Tenant: tenant.System}`,
		tests:  []string{"./internal/server/admission", "-run=TestWebhookService"},
	},
	{
		name:   "conversion webhooks are reached without the server's credentials",
		file:   "internal/server/crd/start.go",
		before: `config.ExtraConfig.AuthResolverWrapper = s.Egress.ForTenants(config.ExtraConfig.AuthResolverWrapper)`,
		tests:  []string{"./test/isolation/attack", "--ginkgo.focus=A conversion webhook of a tenant is not reached"},
	},
	{
		name:   "requests that are older than their tenant",
		file:   "internal/server/filters/space.go",
		before: `ok && received.Before(found.CredentialsNotBefore)`,
		after:  `ok && false && received.Before(found.CredentialsNotBefore)`,
		tests:  []string{"./internal/server/filters", "-run=TestRequestsOfAnEarlierTenant"},
	},
	{
		name:   "deletions that outlive their tenant",
		file:   "internal/server/storage/space.go",
		before: `return ctx.Err() // the tenant`,
		after:  `return nil // the tenant`,
		tests:  []string{"./internal/server/storage", "-run=TestEndedRequests"},
	},
	{
		name:   "updates that outlive their tenant",
		file:   "internal/server/storage/space.go",
		before: `if err := ctx.Err(); err != nil { // the tenant`,
		after:  `if err := ctx.Err(); false && err != nil { // the tenant`,
		tests:  []string{"./internal/server/storage", "-run=TestEndedRequests"},
	},
	{
		name:   "the tenant of a stored object is the server's",
		file:   "internal/server/storage/space.go",
		before: `return output, ttl, setTenant(output, n)`,
		after:  `return output, ttl, nil`,
		tests:  []string{"./internal/server/storage"},
	},
	{
		name:   "the second lock below the cache",
		file:   "internal/server/storage/etcdkeys.go",
		before: `if owner.Scope() != by {`,
		after:  `if false && owner != n {`,
		tests:  []string{"./internal/server/storage"},
	},
	{
		name:   "ambiguous ranges of etcd are narrowed",
		file:   "internal/server/storage/etcdkeys.go",
		before: `p.Field = and(p.Field, fields.OneTermEqualSelector(dispatchField, string(of)))`,
		tests:  []string{"./internal/server/storage"},
	},
	{
		name:   "custom resources are stored for their own space alone",
		file:   "internal/server/storage/space.go",
		before: `case err != nil || s.only == "" || n == s.only:`,
		after:  `case err != nil || s.only == "" || n != "":`,
		tests:  []string{"./internal/server/storage"},
	},
	{
		name:   "what a conversion webhook makes of the tenant, on the way to etcd",
		file:   "internal/server/storage/conversion.go",
		before: `if converted := ownerIn(data); converted != owner {`,
		after:  `if converted := ownerIn(data); false && converted != owner {`,
		tests:  []string{"./internal/server/storage", "-run=TestConvertedTenant"},
	},
	{
		name:   "what a conversion webhook makes of the tenant, on the way back",
		file:   "internal/server/storage/foreign.go",
		before: `return decoded, kind, setTenant(decoded, owner)`,
		after:  `return decoded, kind, nil`,
		tests:  []string{"./internal/server/storage", "-run=TestConvertedTenant"},
	},
	{
		name:   "redirects of webhooks",
		file:   "internal/server/egress/answers.go",
		before: `response.StatusCode >= 300 &&`,
		after:  `response.StatusCode >= 400 &&`,
		tests:  []string{"./internal/server/egress"},
	},
	{
		name:   "webhooks that send without end",
		file:   "internal/server/egress/answers.go",
		before: `response.Body = &bounded{response.Body, maxAnswer + growth*max(0, req.ContentLength)}`,
		tests:  []string{"./internal/server/egress"},
	},
	{
		name:   "who may change the quota of a tenant",
		file:   "internal/server/quota/protect.go",
		before: `err == nil && user == tenant.System {`,
		after:  `err == nil && user != "" {`,
		tests:  []string{"./test/integration/quota", "--ginkgo.focus=cannot be changed or deleted in the space"},
	},
	{
		name:   "the garbage collector reads no store",
		file:   "internal/kubecontrollers/garbage.go",
		before: `return cache.NewStore(cache.MetaNamespaceKeyFunc)`,
		after:  `return i.SharedIndexInformer.GetStore()`,
		tests:  []string{"./internal/kubecontrollers", "-run=TestGarbageCollectorReadsNoStore"},
	},
}
