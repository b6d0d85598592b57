package main

// searchTable are lines of what a search shows.
var searchTable = []mutant{
	{"who has not logged in searches nothing", by("internal/server/authorization", "TestBoundary"),
		"internal/server/authorization/boundary.go", `if a.IsResourceRequest() || !slices.Contains(a.GetUser().GetGroups(), user.AllAuthenticated) {`, `if a.IsResourceRequest() {`},
	{"system users search no tenant's space without a right", by("internal/server/authorization", "TestBoundary"),
		"internal/server/authorization/boundary.go", `case in == userTenant.Scope() && isSearch(a):`, `case in != tenant.All && isSearch(a):`},
	{"rights are no older than the request", by("internal/search", "TestNoOldRights"),
		"internal/search/exact.go", `current.follow(ctx, revision)`, `current.follow(ctx, min(revision, 0))`},
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
	{"rights that name too much are refused", by("internal/search/rights", "TestTooLarge"),
		"internal/search/rights/size.go", `c.bytes > maxBytes {`, `c.bytes > 1<<40 {`},
	{"pairs that are written out count", by("internal/search/rights", "TestManyGroups"),
		"internal/search/rights/size.go", `range groups[min(len(groups), ListedGroups):] {`, `range groups[:0] {`},
	{"names are collected while somebody waits", by("internal/search/rights", "TestNothingGoesOn"),
		"internal/search/rights/size.go", `c.err != nil || c.ctx.Err() != nil`, `c.err != nil`},
	{"nobody waits for a revision that is to come", by("internal/search", "TestRevisionsToCome"),
		"internal/search/exact.go", `if a.minRevision > revision {`, `if false && a.minRevision > revision {`},
	{"objects are confirmed while somebody waits", by("internal/search", "TestNothingIsConfirmedForNobody"),
		"internal/search/exact.go", `return ctx.Err() != nil || !slices`, `return !slices`},
	{"a page has an end in bytes", by("internal/search/index", "TestLargePages"),
		"internal/search/index/select.go", `q.size > cmp.Or(q.s.Bytes, MaxPage) {`, `false && q.size > cmp.Or(q.s.Bytes, MaxPage) {`},
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
		"internal/search/index/conditions.go", `if !slices.Contains(others, f.Property) {`, `if false && !slices.Contains(others, f.Property) {`},
	{"what is compared and related is no property to ask for", by("internal/search/index", "TestValues"),
		"internal/search/index/snapshot.go", `|| !possible || !isAskedFor(property) {`, `|| !possible {`},
	{"the form in which numbers are compared is no property to filter by", by("internal/search/index", "TestProperties"),
		"internal/search/index/conditions.go", `		case strings.HasSuffix(f.Property, orderedSuffix):
			return nil, false
`, ``},
	{"Secrets have no properties", by("internal/search/properties", "TestSecrets"),
		"internal/search/properties/properties.go", `if resource == secrets {`, `if false && resource == secrets {`},
	{"paths that look at a field more than once are left out", by("internal/search/properties", "TestColumns"),
		"internal/search/properties/columns.go", `	default: // everything below, unions, and what is a program
		return false`, `	default: // everything below, unions, and what is a program
		return true`},
	{"annotations are no columns", by("internal/search/properties", "TestColumns"),
		"internal/search/properties/columns.go", `	case "metadata":
		return nil, errMetadata
`, ``},
	{"an object that cannot be printed ends nothing", by("internal/search/properties", "TestPanics"),
		"internal/search/properties/properties.go", `cause := recover(); cause != nil {`, `cause := any(nil); cause != nil {`},
	{"requests in GraphQL are bounded before they are validated", by("internal/search/graphql", "TestRefusals"),
		"internal/search/graphql/request.go", `if err := bound(document); err != nil {`, `if err := bound(document); false && err != nil {`},
	{"an answer has no more items than it may, however often it shows them", by("internal/search/graphql", "TestRefusals"),
		"internal/search/graphql/execute.go", `e.items > MaxItems {`, `false && e.items > MaxItems {`},
	{"pages of other sites post nothing", by("internal/search", "TestGraphQLRequests"),
		"internal/search/graphql.go", `contentType != "application/json" {`, `contentType == "-" {`},
	{"pages of other sites open no web socket", by("internal/search", "TestSocketCredentials"),
		"internal/search/socket.go", `Subprotocols: []string{protocol}}`, `Subprotocols: []string{protocol}, InsecureSkipVerify: true}`},
	{"web sockets without credentials are closed", by("internal/search", "TestSocketCredentials"),
		"internal/search/connection.go", `if answer := c.look(ctx); answer.status != http.StatusOK {`, `if answer := c.look(ctx); answer.status == http.StatusTeapot {`},
	{"connections of a tenant are bounded", by("internal/search", "TestManySubscriptions"),
		"internal/search/socket.go", `if connections > maxConnections {`, `if false && connections > maxConnections {`},
	{"subscriptions of a tenant are bounded", by("internal/search", "TestManySubscriptions"),
		"internal/search/watch.go", `if of >= maxWatches {`, `if false && of >= maxWatches {`},
	{"the authorizer is asked about related objects", by("internal/search", "TestRelations"),
		"internal/search/related.go", `			r.show(&relative.row)
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
		"internal/search/exact.go", `v.revision < needed {`, `v.revision < min(needed, 0) {`},
	{"a corrupt file is made anew", by("internal/search/index", "TestCorruptFile"),
		"internal/search/index/postgres.go", `case sqlite3.SQLITE_CORRUPT, `, `case `},
	{"what cannot be decrypted now fails the index", by("internal/search", "TestSealed"),
		"internal/search/session.go", `	if errors.Is(err, storage.ErrSealed) {
		return err
	}
`, ``},
	{"names that databases change are stored in another form", by("internal/search/index", "TestOddText"),
		"internal/search/index/signature.go", `if query.Text(name) == name {`, `if true || query.Text(name) == name {`},
	{"a process takes over only what it has followed", by("internal/search", "TestTakeover"),
		"internal/search/writing.go", `s.listed == 0 || p.All() < s.listed {`, `s.listed == 0 {`},
	{"the service answers servers alone", by("internal/search", "TestWhoMayAsk"),
		"internal/search/remote.go", `AuthenticateRequest(req); err != nil || !ok {`, `AuthenticateRequest(req); false && (err != nil || !ok) {`},
	{"what the service answers is confirmed", by("internal/search", "TestRemoteAnswersAreConfirmed"),
		"internal/search/remote.go", `if s.confirm(ctx, func`, `if true || s.confirm(ctx, func`},
	{"system users leave places to tenants", by("internal/search", "TestTurns"),
		"internal/search/limits.go", `wanted = append(wanted, t.systems)`, `_ = t.systems`},
	{"what a query repeats counts as often", by("internal/search/graphql", "TestLargeAnswers"),
		"internal/search/graphql/writer.go", `case w.Len()+len(text) > w.limit:`, `case false:`},
	{"no more is read for an answer than it may have", by("internal/search/index", "TestBudget"),
		"internal/search/index/select.go", `b.left < 0 {`, `false {`},
	{"an answer has no more in JSON than it may have", by("internal/search", "TestLargeAnswers"),
		"internal/search/answer.go", `len(text) > maxAnswer:`, `false:`},
	{"what waits for clients of a tenant is bounded in bytes", by("internal/search", "TestRoom"),
		"internal/search/connection.go", `int64(min(len(m.Payload), maxAnswer))`, `int64(0)`},
	{"a watch that is behind has not reached what etcd has", by("internal/server/storage", "TestStreamThatIsBehind"),
		"internal/server/storage/stream.go", `reached = event.Kv.ModRevision`, `_ = reached`},
	{"an index of another past is built anew", by("internal/server/storage", "TestHad"),
		"internal/server/storage/stream.go", `.Sum() == sum, nil`, `.Sum() != "", nil`},
	{"nothing is in the index that is newer than the rights", by("internal/search", "TestReadAgain"),
		"internal/search/session.go", `if s.newest > s.told.get() {`, `if false && s.newest > s.told.get() {`},
	{"a search waits for the changes of its space", by("internal/search", "TestOthersDoNotWait"),
		"internal/search/writing.go", `s.queue.missing(space); first > 0 {`, `s.queue.missing(space); first < 0 {`},
	{"what is being written is not there yet", by("internal/search", "TestMissing"),
		"internal/search/queue.go", `range [][]*job{l.taken, l.jobs} {`, `range [][]*job{l.jobs} {`},
	{"tenants take turns by what they have taken", by("internal/search", "TestLanes"),
		"internal/search/queue.go", `return r[i].spent < r[j].spent`, `return r[i].name < r[j].name`},
	{"what waits for the index is bounded in bytes", by("internal/search", "TestShedding"),
		"internal/search/queue.go", `q.size > queueBytes {
		q.shed()`, `false {
		q.shed()`},
	{"an object that the database refuses is told of", by("internal/search", "TestSetAside"),
		"internal/search/view.go", `if v.snapshot.Aside == 0 {`, `if v.snapshot.Aside >= 0 {`},
	{"an object that may not be seen is not told of", by("internal/search/index", "TestRefused"),
		"internal/search/index/aside.go", `if visibleRanges[home] || `, `if true || visibleRanges[home] || `},
	{"what the service shows in GraphQL it names", by("internal/search", "TestRemoteGraphQLIsConfirmed"),
		"internal/search/remote.go", `if !said[shownIn(object)] {`, `if false && !said[shownIn(object)] {`},
	{"nothing else is in an answer in GraphQL", by("internal/search/graphql", "TestCheck"),
		"internal/search/graphql/check.go", `if err != nil || f == nil {
			c.fail(errForeign)
			return
		}`, `if err != nil || f == nil {
			var other any
			c.fail(c.decoder.Decode(&other))
			c.value(key)
			c.raw([]byte(":"))
			c.value(other)
			continue
		}`},
	{"messages by web socket are read at a rate", by("internal/search", "TestMessageRate", "-timeout=30s"),
		"internal/search/connection.go", ` || c.room.messages.Wait(ctx) != nil {`, ` {`},
	{"a connection ends whose credentials nobody can confirm", by("internal/search", "TestBusyServers", "-timeout=30s"),
		"internal/search/renewal.go", `case left <= 0:`, `case false:`},
	{"queries by web socket have a seat", by("internal/search", "TestSeats"),
		"internal/search/operation.go", `return op.request != nil && op.request.IsSubscription()`, `return true`},
	{"a request that ends one search service ends no other", by("internal/search", "TestRemoteFailures"),
		"internal/search/remote.go", `asked == nil || brokenOff ||`, `asked == nil || brokenOff && false ||`},
	{"few labels of an object are searched", by("internal/search/index", "TestManyLabels"),
		"internal/search/index/row.go", `[:min(len(m), maxLabels)]`, ``},
	{"no name in an object ends the index", by("internal/search/index", "TestOddLinks"),
		"internal/search/index/row.go", `storedName(r.Links[i].To)`, `r.Links[i].To`},
	{"anonymous users search nothing", bySpec("test/integration/search", "is for those who log in"),
		"internal/server/chain.go", `search.RequireUser(withTenants.Authentication.Authenticator)`, `withTenants.Authentication.Authenticator`},
}
