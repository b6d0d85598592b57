package main

// storageTable are lines of what is stored.
var storageTable = []mutant{
	{
		name:   "what clients write by a former key is not stored",
		file:   "internal/server/storage/storedkeys.go",
		before: `if _, ok := m[key[to]]; ok {`,
		after:  `if _, ok := m[key[to]]; false && ok {`,
		tests:  []string{"./internal/server/storage", "-run=TestFormerKeys"},
	},
	{
		name:   "conversion webhooks are reached without the server's credentials",
		file:   "internal/server/crd/start.go",
		before: `config.ExtraConfig.AuthResolverWrapper = s.Egress.ForTenant(n, config.ExtraConfig.AuthResolverWrapper)`,
		tests:  []string{"./test/isolation/attack", "--ginkgo.focus=A conversion webhook of a tenant is not reached"},
	},
	{
		name:   "resource versions of an earlier tenant are too old",
		file:   "internal/server/storage/born.go",
		before: `if version < born {`,
		after:  `if false && version < born {`,
		tests:  []string{"./internal/server/storage", "-run=TestEarlierLife"},
	},
	{
		name:   "so are tokens of its lists",
		file:   "internal/server/storage/born.go",
		before: `return s.bornBefore(ctx, c, at)`,
		after:  `_ = at; return nil`,
		tests:  []string{"./internal/server/storage", "-run=TestEarlierLife"},
	},
	{
		name: "watches begin in the life of their tenant",
		file: "internal/server/storage/space.go",
		before: `if err := s.inThisLife(ctx, c); err != nil {
		return errorWatch(err), nil`,
		after: `if err := s.inThisLife(ctx, c); false && err != nil {
		return errorWatch(err), nil`,
		tests: []string{"./internal/server/storage", "-run=TestEarlierLife"},
	},
	{
		name:   "a cache is not older than the tenant",
		file:   "internal/server/storage/born.go",
		before: `if err != nil || born == 0 {`,
		after:  `if true || err != nil || born == 0 {`,
		tests:  []string{"./internal/server/storage", "-run=TestCacheIsOfThisLife"},
	},
	{
		name:   "nor for one object",
		file:   "internal/server/storage/born.go",
		before: `if err == nil && version < born {`,
		after:  `if false && err == nil && version < born {`,
		tests:  []string{"./internal/server/storage", "-run=TestCacheIsOfThisLife"},
	},
	{
		name:   "a namespace itself is asked for, too",
		file:   "internal/server/storage/born.go",
		before: `return info.Name`,
		after:  `return ""`,
		tests:  []string{"./test/integration/users", "-ginkgo.focus=earlier namespace of the name"},
	},
	{
		name:   "the server says since when a name is a tenant's",
		file:   "internal/server/config.go",
		before: `options.Closed, options.Fence, options.Born, options.Ledger = s.closed, s.fence, s.born, p.ledger`,
		after:  `options.Closed, options.Fence, options.Ledger = s.closed, s.fence, p.ledger`,
		tests:  []string{"./test/integration/storage", "-ginkgo.focus=earlier tenant of the name"},
	},
	{
		name:   "deletions are recorded in every etcd",
		file:   "internal/server/registry/tenant/deletions.go",
		before: `_, err = clients[i].Put(ctx, d.key(name)`,
		after:  `_, err = clients[0].Put(ctx, d.key(name)`,
		tests:  []string{"./internal/server/registry/tenant", "-run=TestBorn"},
	},
	{
		name:   "a creator's watch of a namespace shows no other of the name",
		file:   "internal/server/storage/space.go",
		before: `err == nil && noted && s.resource == namespaceResource {`,
		after:  `false && err == nil && noted && s.resource == namespaceResource { _ = uid`,
		tests:  []string{"./internal/server/storage", "-run=TestWatchOfOneNamespace"},
	},
	{
		name: "lists that have ended return nothing",
		file: "internal/server/storage/space.go",
		before: `	if err := ended(ctx); err != nil {
		return err
	}
	accessor`,
		after: `	if err := ended(ctx); false && err != nil {
		return err
	}
	accessor`,
		tests: []string{"./internal/server/storage", "-run=TestReadsThatWait"},
	},
	{
		name: "reads of one object that have ended return nothing",
		file: "internal/server/storage/space.go",
		before: `	if err := ended(ctx); err != nil {
		return err
	}
	if s.isDefault`,
		after: `	if err := ended(ctx); false && err != nil {
		return err
	}
	if s.isDefault`,
		tests: []string{"./internal/server/storage", "-run=TestReadsThatWait"},
	},
	{
		name:   "reads end with their namespace",
		file:   "internal/server/filters/namespace.go",
		before: `if reads || isLong(req, info) {`,
		after:  `if isLong(req, info) {`,
		tests:  []string{"./internal/server/filters", "-run=TestLives"},
	},
	{
		name:   "what expires is bounded",
		file:   "internal/server/storage/space.go",
		before: `if err := s.expires(n, obj, ttl); err != nil {`,
		after:  `if err := s.expires(n, obj, ttl); false && err != nil {`,
		tests:  []string{"./internal/server/storage", "-run=TestExpiringWrites"},
	},
	{
		name:   "so are its updates",
		file:   "internal/server/storage/space.go",
		before: `return output, ttl, s.expires(n, output, *ttl)`,
		after:  `return output, ttl, nil`,
		tests:  []string{"./internal/server/storage", "-run=TestExpiringWrites"},
	},
	{
		name:   "selectors of requests are bounded",
		file:   "internal/server/storage/attributes.go",
		before: `if requirements > maxRequirements {`,
		after:  `if false && requirements > maxRequirements {`,
		tests:  []string{"./internal/server/storage", "-run=TestLongSelectors"},
	},
	{
		name:   "headers are bounded",
		file:   "internal/server/filters/tenant.go",
		before: `if err := checkHeaders(req.Header); err != nil {`,
		after:  `if err := checkHeaders(req.Header); false && err != nil {`,
		tests:  []string{"./internal/server/filters", "-run=TestHeaders"},
	},
	{
		name:   "only watches last in a space",
		file:   "internal/server/flowcontrol/longrunning.go",
		before: `return info.Verb == "watch"`,
		after:  `return upstream(req, info)`,
		tests:  []string{"./internal/server/flowcontrol", "-run=TestLongRunning"},
	},
	{
		name:   "the server takes that for long",
		file:   "internal/server/base.go",
		before: `generic.LongRunningFunc = flowcontrol.LongRunning(generic.LongRunningFunc)`,
		tests:  []string{"./test/isolation/attack", "--ginkgo.focus=A request named like one that lasts"},
	},
	{
		name:   "impersonation is authorized in turn",
		file:   "internal/server/flowcontrol/impersonation.go",
		before: `if !strings.HasPrefix(a.GetVerb(), "impersonate") || !n.IsSpace() {`,
		after:  `if true || !strings.HasPrefix(a.GetVerb(), "impersonate") || !n.IsSpace() {`,
		tests:  []string{"./internal/server/flowcontrol", "-run=TestInTurn"},
	},
	{
		name:   "selectors of scales are bounded",
		file:   "internal/kubecontrollers/scales.go",
		before: `terms > maxSelectorTerms {`,
		after:  `false && terms > maxSelectorTerms {`,
		tests:  []string{"./internal/kubecontrollers", "-run=TestScales"},
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
		before: `if err := setTenant(output, n); err != nil || ttl == nil {`,
		after:  `if err := error(nil); err != nil || ttl == nil {`,
		tests:  []string{"./internal/server/storage"},
	},
	{
		name:   "the second lock below the cache",
		file:   "internal/server/storage/etcdkeys.go",
		before: `if owner.Scope() != by {`,
		after:  `if false && owner.Scope() != by {`,
		tests:  []string{"./internal/server/storage"},
	},
	{
		name:   "a watch does not go on from before what a cache has dropped",
		file:   "internal/server/storage/history.go",
		before: `version > 0 && version < h.droppedTo.Load()`,
		after:  `version < 0`,
		tests:  []string{"./internal/server/storage", "-run=TestDroppedHistory"},
	},
	{
		name:   "a watch cache drops its history before its watch ends",
		file:   "internal/server/storage/history.go",
		before: `for w.beginDrop(); w.dropping; {`,
		after:  `for w.dropping {`,
		tests:  []string{"./internal/server/storage", "-run=TestHistoriesOfFailedCaches"},
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
		name:   "what cannot be converted goes with its space alone",
		file:   "internal/server/storage/foreign.go",
		before: `if err != nil && c.terminating != nil && c.terminating(owner) {`,
		after:  `if err != nil && c.terminating != nil {`,
		tests:  []string{"./internal/server/storage", "-run=TestDecodeAsIs"},
	},
	{
		name:   "history is compacted",
		file:   "internal/etcdstore/compaction.go",
		before: `<= allowedGrowth(status.DbSizeQuota) {`,
		after:  `<= 99*allowedGrowth(status.DbSizeQuota) {`,
		tests:  []string{"./internal/etcdstore"},
	},
	{
		name:   "bytes of a table",
		file:   "internal/server/storage/tables.go",
		before: `most < 0 && len(items) > 1`,
		after:  `false && len(items) > 1`,
		tests:  []string{"./internal/server/storage", "-run=TestTables"},
	},
	{
		name:   "tables without pages are not cut",
		file:   "internal/server/storage/tables.go",
		before: `int64(n) >= opts.Predicate.Limit {`,
		after:  `opts.Predicate.Limit > 0 && int64(n) >= opts.Predicate.Limit {`,
		tests:  []string{"./internal/server/storage", "-run=TestTables"},
	},
	{
		name:   "tables with whole objects",
		file:   "internal/server/storage/tables.go",
		before: `	if whole {`,
		after:  `	if false && whole {`,
		tests:  []string{"./internal/server/storage", "-run=TestTables"},
	},
	{
		name:   "tables of built-in resources",
		file:   "internal/server/storage/tables.go",
		before: `	return builtInMeasure`,
		after:  `	return metadataMeasure`,
		tests:  []string{"./internal/server/storage", "-run=TestTablesOfBuiltIn"},
	},
	{
		name:   "bytes of the events of a table",
		file:   "internal/server/storage/tables.go",
		before: `err == nil && size > maxTableEvent`,
		after:  `err == nil && false && size > maxTableEvent`,
		tests:  []string{"./internal/server/storage", "-run=TestWatchesAsTables"},
	},
	{
		name:   "characters that are longer in JSON",
		file:   "internal/server/storage/tables.go",
		before: `size += unicode - 1`,
		after:  `size += 0 * unicode`,
		tests:  []string{"./internal/server/storage", "-run=TestJSONBytes"},
	},
	{
		name:   "limits of lists that are negative",
		file:   "internal/server/storage/listlimit.go",
		before: `if opts.Predicate.Limit <= 0 {`,
		after:  `if opts.Predicate.Limit == 0 {`,
		tests:  []string{"./internal/server/storage", "-run=TestListsAreLimited"},
	},
	{
		name: "lists of metrics are bounded",
		file: "internal/server/storage/tables.go",
		before: `			return metricsMeasure
`,
		after: `			return nil
`,
		tests: []string{"./internal/server/storage", "-run=TestTables$"},
	},
	{
		name:   "objects as large as etcd takes",
		file:   "internal/etcdstore/fence.go",
		before: `if size := len(op.ValueBytes()); size > maxValue && !t.reserve {`,
		after:  `if size := len(op.ValueBytes()); false && size > maxValue && !t.reserve {`,
		tests:  []string{"./internal/etcdstore", "-run=TestLargeValues"},
	},
	{
		name:   "purges of definitions end",
		file:   "internal/server/crd/purge.go",
		before: `context.WithTimeout(ctx, purgeTime)`,
		after:  `context.WithTimeout(ctx, 100*purgeTime)`,
		tests:  []string{"./internal/server/crd", "-run=TestPurgeIsFair"},
	},
	{
		name:   "the watch of a cache ends before the cache",
		file:   "internal/server/storage/history.go",
		before: `h.endWatch()`,
		tests:  []string{"./internal/server/storage", "-timeout=60s", "-run=TestStopOfBusyCache"},
	},
}
