package main

// searchTable are lines of what a search shows.
var searchTable = []mutant{
	{"who has not logged in searches nothing", by("internal/server/authorization", "TestBoundary"),
		"internal/server/authorization/boundary.go", `if a.IsResourceRequest() || !slices.Contains(a.GetUser().GetGroups(), user.AllAuthenticated) {`, `if a.IsResourceRequest() {`},
	{"system users search no tenant's space without a right", by("internal/server/authorization", "TestBoundary"),
		"internal/server/authorization/boundary.go", `case in == userTenant.Scope() && isSearch(a):`, `case in != tenant.All && isSearch(a):`},
	{"rights are no older than the request", by("internal/search", "TestNoOldRights"),
		"internal/search/exact.go", `current.told.wait(ctx, revision)`, `current.told.wait(ctx, min(revision, 0))`},
	{"objects are no older than the rights", by("internal/search", "TestNoOldObjects"),
		"internal/search/exact.go", `needed := max(version.Revision, a.minRevision)`, `needed := a.minRevision`},
	{"what was made of rights that have changed is made again", by("internal/search", "TestRightsThatChange"),
		"internal/search/exact.go", `!stable || now != version {`, `!stable || false && now != version {`},
	{"the authorizer is asked about every object", by("internal/search", "TestAuthorizerConfirms"),
		"internal/search/exact.go", `if !allowed {`, `if false && !allowed {`},
	{"the tenant is the one that the request was admitted for", by("internal/search", "TestOtherLives"),
		"internal/search/exact.go", `uid != c.rights.UID(a.space) || `, `uid == "-" || `},
	{"users of suspended tenants search nothing", by("internal/search", "TestOtherLives"),
		"internal/search/exact.go", ` && c.rights.Suspended(a.space)`, ` && false && c.rights.Suspended(a.space)`},
	{"there is no answer before the index is complete", by("internal/search", "TestAnswers"),
		"internal/search/handler.go", `if current == nil {`, `if current == nil { return nil }; if false {`},
	{"nobody gets a revision that was read before the question", by("internal/search", "TestRevisions"),
		"internal/search/reached.go", `		r.waiting = nil
		r.running = next != nil`, `		r.running = next != nil`},
	{"copies of whole objects are no annotations to search", by("internal/search", "TestOptions"),
		"internal/search/service.go", `if slices.Contains(o.Annotations, lastApplied) {`, `if false && slices.Contains(o.Annotations, lastApplied) {`},
	{"names of a rule are the only ones", by("internal/search/rights", "TestRBAC"),
		"internal/search/rights/compile.go", `if len(rule.ResourceNames) == 0 {
		all.add(mask)`, `if true || len(rule.ResourceNames) == 0 {
		all.add(mask)`},
	{"only lists count", by("internal/search/rights", "TestRBAC"),
		"internal/search/rights/compile.go", `if rbacv1helpers.VerbMatches(rule, "list") {`, `if rbacv1helpers.VerbMatches(rule, "list") || true {`},
	{"spaces have no resources of the platform", by("internal/search/rights", "TestRBAC"),
		"internal/search/rights/compile.go", `if n.IsSpace() {
			usable = nil`, `if false && n.IsSpace() {
			usable = nil`},
	{"a webhook before RBAC could deny what that allows", by("internal/search/rights", "TestModes"),
		"internal/search/rights/compile.go", `default: // a webhook, or what is not known here
			if !enumerated {`, `default: // a webhook, or what is not known here
			if false && !enumerated {`},
	{"users of other tenants have policies alone", by("internal/search/rights", "TestSpaces"),
		"internal/search/rights/compile.go", `	case foreign:`, `	case foreign && false:`},
	{"a User that is being deleted has no rights in its namespaces", by("internal/search/rights", "TestCreators"),
		"internal/search/rights/compile.go", `len(ending) > 0 {`, `false && len(ending) > 0 {`},
	{"definitions are those of the space", by("internal/search/rights", "TestDefinitions"),
		"internal/search/rights/compile.go", `shown := d.serves && (d.published || d.was && s.tenants[n].terminating)`, `shown := d.serves`},
	{"what is denied is not found", by("internal/search/index", "TestRights"),
		"internal/search/index/visible.go", `if f.s.Visible.Denied.Has(s.namespace) && `, `if false && f.s.Visible.Denied.Has(s.namespace) && `},
	{"an own object takes the place of a shared one", by("internal/search/index", "TestShared"),
		"internal/search/index/visible.go", `if space == Shared {
		where =`, `if false && space == Shared {
		where =`},
	{"what no object has finds nothing", by("internal/search/index", "TestFilters"),
		"internal/search/index/conditions.go", `		default:
			return nil, false
`, ``},
	{"characters of patterns stand for themselves", by("internal/search/index", "TestFilters"),
		"internal/search/index/dialect.go", `escaped[i] = escape.Replace(part)`, `escaped[i] = part`},
	{"of annotations, those that are allowed", by("internal/search/index", "TestNewRow"),
		"internal/search/index/row.go", `for _, key := range annotations {`, `for key := range accessor.GetAnnotations() {`},
	{"an object whose tenant is not that of its key is not in the stream", by("internal/server/storage", "TestStreamLooksAtTenants"),
		"internal/server/storage/stream.go", `if p.key(c.at.prefix) != c.Key {`, `if false && p.key(c.at.prefix) != c.Key {`},
	{"anonymous users search nothing", bySpec("test/integration/search", "is for those who log in"),
		"internal/server/chain.go", `search.RequireUser(withTenants.Authentication.Authenticator)`, `withTenants.Authentication.Authenticator`},
}
