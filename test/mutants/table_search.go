package main

// searchTable are lines of what a search shows.
var searchTable = []mutant{
	{"who has not logged in searches nothing", by("internal/server/authorization", "TestBoundary"),
		"internal/server/authorization/boundary.go", `slices.Contains(a.GetUser().GetGroups(), user.AllAuthenticated)
}`, `a != nil
}`},
	{"system users search no tenant's space without a right", by("internal/server/authorization", "TestBoundary"),
		"internal/server/authorization/boundary.go", `case in == userTenant.Scope() && isSearch(a):`, `case in != tenant.All && isSearch(a):`},
	{"rights are no older than the request", by("internal/search", "TestNoOldRights"),
		"internal/search/handler.go", `current.told.wait(ctx, revision)`, `current.told.wait(ctx, min(revision, 0))`},
	{"objects are no older than the rights", by("internal/search", "TestNoOldObjects"),
		"internal/search/handler.go", `needed := max(version.Revision, a.minRevision)`, `needed := a.minRevision`},
	{"what was made of rights that have changed is made again", by("internal/search", "TestRightsThatChange"),
		"internal/search/handler.go", `!stable || now != version {`, `!stable || false && now != version {`},
	{"the authorizer is asked about every object", by("internal/search", "TestAuthorizerConfirms"),
		"internal/search/handler.go", `if !allowed {`, `if false && !allowed {`},
	{"the tenant is the one that the request was admitted for", by("internal/search", "TestOtherLives"),
		"internal/search/handler.go", `uid != c.rights.UID(a.space) || `, `uid == "-" || `},
	{"users of suspended tenants search nothing", by("internal/search", "TestOtherLives"),
		"internal/search/handler.go", ` && c.rights.Suspended(a.space)`, ` && false && c.rights.Suspended(a.space)`},
	{"there is no answer before the index is complete", by("internal/search", "TestAnswers"),
		"internal/search/handler.go", `if current == nil {`, `if current == nil { return &Answer{}, nil }; if false {`},
	{"nobody gets a revision that was read before the question", by("internal/search", "TestRevisions"),
		"internal/search/reached.go", `		r.waiting = nil
		r.running = next != nil`, `		r.running = next != nil`},
	{"copies of whole objects are no annotations to search", by("internal/search", "TestOptions"),
		"internal/search/service.go", `if slices.Contains(o.Annotations, lastApplied) {`, `if false && slices.Contains(o.Annotations, lastApplied) {`},
	{"rights that name too much are refused", by("internal/search/rights", "TestTooLarge"),
		"internal/search/rights/size.go", `c.bytes > maxBytes {`, `c.bytes > 1<<40 {`},
	{"pairs that are written out count", by("internal/search/rights", "TestManyGroups"),
		"internal/search/rights/size.go", `range groups[min(len(groups), ListedGroups):] {`, `range groups[:0] {`},
	{"names are collected while somebody waits", by("internal/search/rights", "TestNothingGoesOn"),
		"internal/search/rights/size.go", `c.err != nil || c.ctx.Err() != nil`, `c.err != nil`},
	{"as many searches run as there is memory for", by("internal/search", "TestRunning"),
		"internal/search/handler.go", `case s.running <- struct{}{}:
		defer func() { <-s.running }()`, `default:`},
	{"nobody waits for a revision that is to come", by("internal/search", "TestRevisionsToCome"),
		"internal/search/handler.go", `if a.minRevision > revision {`, `if false && a.minRevision > revision {`},
	{"objects are confirmed while somebody waits", by("internal/search", "TestNothingIsConfirmedForNobody"),
		"internal/search/handler.go", `return ctx.Err() != nil || !slices`, `return !slices`},
	{"a page has an end in bytes", by("internal/search/index", "TestLargePages"),
		"internal/search/index/select.go", `if q.size > pageBytes {`, `if false && q.size > pageBytes {`},
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
		"internal/search/index/dialect.go", `escaped[i] = escape.Replace(part)`, `_, escaped[i] = escape, part`},
	{"of annotations, those that are allowed", by("internal/search/index", "TestNewRow"),
		"internal/search/index/row.go", `for _, key := range annotations {`, `for key := range accessor.GetAnnotations() {`},
	{"an object whose tenant is not that of its key is not in the stream", by("internal/server/storage", "TestStreamLooksAtTenants"),
		"internal/server/storage/stream.go", `if p.key(c.at.prefix) != c.Key {`, `if false && p.key(c.at.prefix) != c.Key {`},
	{"an index that is being built answers nothing", by("internal/search/index", "TestIncomplete"),
		"internal/search/index/index.go", `if !p.Complete {`, `if false && !p.Complete {`},
	{"an index that is emptied is not read as empty", by("internal/search/index", "TestEmptiedWhileRead"),
		"internal/search/index/index.go", `if x.postgres {
		// Who empties`, `if false && x.postgres {
		// Who empties`},
	{"one process writes", by("internal/search/index", "TestOneWrites"),
		"internal/search/index/write.go", `if err == nil && changed != 1 {`, `if false && changed != 1 {`},
	{"a database that has come back as it was before is noticed", by("internal/search/index", "TestOneWrites"),
		"internal/search/index/write.go", ` WHERE epoch = ? AND holder = ? AND revision = ?`, ` WHERE epoch = ? AND holder = ? AND revision <> - ?`},
	{"an answer of an earlier state of the database is none", by("internal/search", "TestDatabaseComesBack"),
		"internal/search/handler.go", `answer.Revision < needed {`, `answer.Revision < 0 {`},
	{"a corrupt file is made anew", by("internal/search/index", "TestCorruptFile"),
		"internal/search/index/postgres.go", `case sqlite3.SQLITE_CORRUPT, `, `case `},
	{"what cannot be decrypted now fails the index", by("internal/search", "TestSealed"),
		"internal/search/session.go", `		if errors.Is(err, storage.ErrSealed) {
			return nil, err
		}
		if err != nil {`, `		if err != nil {`},
	{"names that databases change are stored in another form", by("internal/search/index", "TestOddText"),
		"internal/search/index/signature.go", `if query.Text(name) == name {`, `if true || query.Text(name) == name {`},
	{"a process takes over only what it has followed", by("internal/search", "TestTakeover"),
		"internal/search/writing.go", `s.listed == 0 || p.Revision < s.listed {`, `s.listed == 0 {`},
	{"the service answers servers alone", by("internal/search", "TestWhoMayAsk"),
		"internal/search/remote.go", `AuthenticateRequest(req); err != nil || !ok {`, `AuthenticateRequest(req); false && (err != nil || !ok) {`},
	{"what the service answers is confirmed", by("internal/search", "TestRemoteAnswersAreConfirmed"),
		"internal/search/remote.go", `if s.confirm(ctx, func`, `if true || s.confirm(ctx, func`},
	{"system users leave places to tenants", by("internal/search", "TestTurns"),
		"internal/search/limits.go", `wanted = append(wanted, t.systems)`, `_ = t.systems`},
	{"anonymous users search nothing", bySpec("test/integration/search", "is for those who log in"),
		"internal/server/chain.go", `search.RequireUser(withTenants.Authentication.Authenticator)`, `withTenants.Authentication.Authenticator`},
}
