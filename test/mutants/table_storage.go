package main

// storageTable are lines of what is stored.
var storageTable = []mutant{
	{"what clients write by a former key is not stored", by("internal/server/storage", "TestFormerKeys"),
		"internal/server/storage/storedkeys.go", `if _, ok := m[key[to]]; ok {`, `if _, ok := m[key[to]]; false && ok {`},
	{"conversion webhooks are reached without the server's credentials", bySpec("test/isolation/attack", "A conversion webhook of a tenant is not reached"),
		"internal/server/crd/start.go", `config.ExtraConfig.AuthResolverWrapper = s.Egress.ForTenant(n, config.ExtraConfig.AuthResolverWrapper)`, ``},
	{"resource versions of an earlier tenant are too old", by("internal/server/storage", "TestEarlierLife"),
		"internal/server/storage/oldest.go", `if version < oldest {`, `if false && version < oldest {`},
	{"so are tokens of its lists", by("internal/server/storage", "TestEarlierLife"),
		"internal/server/storage/oldest.go", `return s.requireRevision(ctx, c, at)`, `_ = at; return nil`},
	{"watches begin in the life of their tenant", by("internal/server/storage", "TestEarlierLife"),
		"internal/server/storage/collection.go", `if err := s.checkRevision(ctx, c); err != nil {
		return errorWatch(err), nil`, `if err := s.checkRevision(ctx, c); false && err != nil {
		return errorWatch(err), nil`},
	{"a cache is not older than the tenant", by("internal/server/storage", "TestCacheIsOfThisLife"),
		"internal/server/storage/oldest.go", `if err != nil || oldest == 0 {`, `if true || err != nil || oldest == 0 {`},
	{"nor for one object", by("internal/server/storage", "TestCacheIsOfThisLife"),
		"internal/server/storage/oldest.go", `if err == nil && version < oldest {`, `if false && err == nil && version < oldest {`},
	{"a namespace itself is asked for, too", bySpec("test/integration/users", "earlier namespace of the name"),
		"internal/server/storage/oldest.go", `return info.Name`, `return ""`},
	{"an update creates nothing in a space that takes no new objects", by("internal/server/storage", "TestClosedSpace"),
		"internal/server/storage/space.go", `		if before == nil {`, `		if false {`},
	{"the server says since when a name is a tenant's", bySpec("test/integration/storage", "earlier tenant of the name"),
		"internal/server/config.go", `options.Closed, options.Fence, options.OldestRevision, options.Ledger = s.closed, s.fence, s.oldestRevision, p.ledger`, `options.Closed, options.Fence, options.Ledger = s.closed, s.fence, p.ledger`},
	{"deletions are recorded in every etcd", by("internal/server/registry/tenant", "TestBorn"),
		"internal/server/registry/tenant/deletions.go", `_, err = clients[i].Put(ctx, d.key(name)`, `_, err = clients[0].Put(ctx, d.key(name)`},
	{"a creator's watch of a namespace shows no other of the name", by("internal/server/storage", "TestWatchOfOneNamespace"),
		"internal/server/storage/collection.go", `err == nil && noted && s.resource == namespaceResource {`, `false && err == nil && noted && s.resource == namespaceResource { _ = uid`},
	{"lists that have ended return nothing", by("internal/server/storage", "TestReadsThatWait"),
		"internal/server/storage/collection.go", `	if err := ended(ctx); err != nil {
		return err
	}
	accessor`, `	if err := ended(ctx); false && err != nil {
		return err
	}
	accessor`},
	{"reads of one object that have ended return nothing", by("internal/server/storage", "TestReadsThatWait"),
		"internal/server/storage/space.go", `	if err := ended(ctx); err != nil {
		return err
	}
	if s.isDefault`, `	if err := ended(ctx); false && err != nil {
		return err
	}
	if s.isDefault`},
	{"reads end with their namespace", by("internal/server/filters", "TestLives"),
		"internal/server/filters/namespace.go", `if reads || isLong(req, info) {`, `if isLong(req, info) {`},
	{"what expires is bounded", by("internal/server/storage", "TestExpiringWrites"),
		"internal/server/storage/space.go", `if err := s.expires(ctx, n, obj, ttl); err != nil {`, `if err := s.expires(ctx, n, obj, ttl); false && err != nil {`},
	{"so are its updates", by("internal/server/storage", "TestExpiringWrites"),
		"internal/server/storage/space.go", `return output, ttl, s.expires(ctx, n, output, *ttl)`, `return output, ttl, nil`},
	{"selectors of requests are bounded", by("internal/server/storage", "TestLongSelectors"),
		"internal/server/storage/attributes.go", `if requirements > maxRequirements {`, `if false && requirements > maxRequirements {`},
	{"headers are bounded", by("internal/server/filters", "TestHeaders"),
		"internal/server/filters/tenant.go", `if err := checkHeaders(req.Header); err != nil {`, `if err := checkHeaders(req.Header); false && err != nil {`},
	{"only watches last in a space", by("internal/server/flowcontrol", "TestLongRunning"),
		"internal/server/flowcontrol/longrunning.go", `return info.Verb == "watch"`, `return upstream(req, info)`},
	{"the server takes that for long", bySpec("test/isolation/attack", "A request named like one that lasts"),
		"internal/server/base.go", `generic.LongRunningFunc = flowcontrol.LongRunning(generic.LongRunningFunc)`, ``},
	{"impersonation is authorized in turn", by("internal/server/flowcontrol", "TestInTurn"),
		"internal/server/flowcontrol/impersonation.go", `if !strings.HasPrefix(a.GetVerb(), "impersonate") || !n.IsSpace() {`, `if true || !strings.HasPrefix(a.GetVerb(), "impersonate") || !n.IsSpace() {`},
	{"selectors of scales are bounded", by("internal/kubecontrollers", "TestScales"),
		"internal/kubecontrollers/scales.go", `terms > maxSelectorTerms {`, `false && terms > maxSelectorTerms {`},
	{"deletions that outlive their tenant", by("internal/server/storage", "TestEndedRequests"),
		"internal/server/storage/space.go", `return ctx.Err() // the tenant`, `return nil // the tenant`},
	{"updates that outlive their tenant", by("internal/server/storage", "TestEndedRequests"),
		"internal/server/storage/space.go", `if err := ctx.Err(); err != nil { // the tenant`, `if err := ctx.Err(); false && err != nil { // the tenant`},
	{"the tenant of a stored object is the server's", by("internal/server/storage", ""),
		"internal/server/storage/space.go", `if err := setTenant(output, n); err != nil || ttl == nil {`, `if err := error(nil); err != nil || ttl == nil {`},
	{"the second lock below the cache", by("internal/server/storage", ""),
		"internal/server/storage/etcdkeys.go", `if owner.Scope() != by {`, `if false && owner.Scope() != by {`},
	{"a watch does not go on from before what a cache has dropped", by("internal/server/storage", "TestDroppedHistory"),
		"internal/server/storage/history.go", `version > 0 && version < h.droppedTo.Load()`, `version < 0`},
	{"a watch cache drops its history before its watch ends", by("internal/server/storage", "TestHistoriesOfFailedCaches"),
		"internal/server/storage/historywatch.go", `for w.beginDrop(); w.dropping; {`, `for w.dropping {`},
	{"ambiguous ranges of etcd are narrowed", by("internal/server/storage", ""),
		"internal/server/storage/etcdkeys.go", `p.Field = and(p.Field, fields.OneTermEqualSelector(dispatchField, string(of)))`, ``},
	{"custom resources are stored for their own space alone", by("internal/server/storage", ""),
		"internal/server/storage/space.go", `case err != nil || s.only == "" || n == s.only:`, `case err != nil || s.only == "" || n != "":`},
	{"what a conversion webhook makes of the tenant, on the way to etcd", by("internal/server/storage", "TestConvertedTenant"),
		"internal/server/storage/conversion.go", `if converted := ownerIn(data); converted != owner {`, `if converted := ownerIn(data); false && converted != owner {`},
	{"what a conversion webhook makes of the tenant, on the way back", by("internal/server/storage", "TestConvertedTenant"),
		"internal/server/storage/foreign.go", `return decoded, kind, setTenant(decoded, owner)`, `return decoded, kind, nil`},
	{"what cannot be converted goes with its space alone", by("internal/server/storage", "TestDecodeAsIs"),
		"internal/server/storage/foreign.go", `if err != nil && c.terminating != nil && c.terminating(owner) {`, `if err != nil && c.terminating != nil {`},
	{"history is compacted", by("internal/etcdstore", ""),
		"internal/etcdstore/compaction.go", `<= allowedGrowth(status.DbSizeQuota) {`, `<= 99*allowedGrowth(status.DbSizeQuota) {`},
	{"bytes of a table", by("internal/server/storage", "TestTables"),
		"internal/server/storage/tables.go", `most < 0 && len(items) > 1`, `false && len(items) > 1`},
	{"tables without pages are not cut", by("internal/server/storage", "TestTables"),
		"internal/server/storage/tables.go", `int64(n) >= opts.Predicate.Limit {`, `opts.Predicate.Limit > 0 && int64(n) >= opts.Predicate.Limit {`},
	{"tables with whole objects", by("internal/server/storage", "TestTables"),
		"internal/server/storage/tables.go", `	if whole {`, `	if false && whole {`},
	{"tables of built-in resources", by("internal/server/storage", "TestTablesOfBuiltIn"),
		"internal/server/storage/tables.go", `	return builtInMeasure`, `	return metadataMeasure`},
	{"bytes of the events of a table", by("internal/server/storage", "TestWatchesAsTables"),
		"internal/server/storage/tables.go", `err == nil && size > maxTableEvent`, `err == nil && false && size > maxTableEvent`},
	{"characters that are longer in JSON", by("internal/server/storage", "TestJSONBytes"),
		"internal/server/storage/tables.go", `size += unicode - 1`, `size += 0 * unicode`},
	{"limits of lists that are negative", by("internal/server/storage", "TestListsAreLimited"),
		"internal/server/storage/listlimit.go", `if opts.Predicate.Limit <= 0 {`, `if opts.Predicate.Limit == 0 {`},
	{"lists of metrics are bounded", by("internal/server/storage", "TestTables$"),
		"internal/server/storage/tables.go", `			return metricsMeasure
`, `			return nil
`},
	{"objects as large as etcd takes", by("internal/etcdstore", "TestLargeValues"),
		"internal/etcdstore/fence.go", `if size := len(op.ValueBytes()); size > maxValue && !t.reserve {`, `if size := len(op.ValueBytes()); false && size > maxValue && !t.reserve {`},
	{"purges of definitions end", by("internal/server/crd", "TestPurgeIsFair"),
		"internal/server/crd/purge.go", `context.WithTimeout(ctx, purgeTime)`, `context.WithTimeout(ctx, 100*purgeTime)`},
	{"the watch of a cache ends before the cache", by("internal/server/storage", "TestStopOfBusyCache", "-timeout=60s"),
		"internal/server/storage/history.go", `h.endWatch()`, ``},
	{"definitions of spaces stay with their objects", by("internal/server/storage", "TestDefinitionsStay"),
		"internal/server/storage/removal.go", `if count > 0 {`, `if count < 0 {`},
	{"what no definition speaks of is counted", by("internal/server/storage", "TestRangesLearnWithoutDefinitions"),
		"internal/server/storage/ranges.go", `if err := r.learnStored(ctx); err != nil {`, `if err := error(nil); err != nil {`},
	{"custom resources have keys whatever their scope", by("internal/server/storage", "TestObjectsOfAnotherScope", "-timeout=100s"),
		"internal/server/storage/decorator.go", `		keyFunc = customKey(prefix)
`, ``},
	{"whether a definition is established is the server's to say", by("internal/server/crd", "TestKeepServed"),
		"internal/server/crd/prepare.go", `			keepServed(definition, served)
`, ``},
	{"what a tenant has written of events is not the next one's", by("internal/server/storage", "TestExpiringWrites"),
		"internal/server/storage/expiring.go", `return s.expiring.take(writer{n, uid}, size)`, `return s.expiring.take(writer{n, uid[:0]}, size)`},
	{"lists of a namespace by its name are of the one that was authorized", by("internal/server/storage", "TestReadOfOneNamespace"),
		"internal/server/storage/oldest.go", `slices.DeleteFunc(items, func(o runtime.Object) bool { return s.isAnother(ctx, o) })`, `slices.DeleteFunc(items, func(o runtime.Object) bool { return false && s.isAnother(ctx, o) })`},
	{"reads of a namespace are of the one that was authorized", by("internal/server/storage", "TestReadOfOneNamespace"),
		"internal/server/storage/space.go", `err == nil && s.isAnother(ctx, out)`, `false && err == nil && s.isAnother(ctx, out)`},
	{"which namespace a read of it was authorized for", by("internal/server/filters", "TestWithNamespace"),
		"internal/server/filters/namespace.go", `isNamespace(info) && uid != ""`, `false && isNamespace(info) && uid != ""`},
	{"resource versions of an earlier namespace of the system space are too old", by("internal/server/storage", "TestEarlierLife"),
		"internal/server/storage/oldest.go", `(c.space != tenant.System || s.namespaceAsked(ctx, c) == "")`, `true`},
	{"since when a namespace of the system space is there", by("internal/server/registry/tenant", "TestBorn"),
		"internal/server/registry/tenant/deletions.go", `if n == tenant.System {`, `if false {`},
	{"what is learned while a space is counted", by("internal/server/storage", "TestRangesLearnMeanwhile"),
		"internal/server/storage/ranges.go", `r.snapshot()[known:]); err != nil {
		return nil, err
	}
	return sums`, `r.snapshot()[len(r.snapshot()):]); err != nil {
		return nil, err
	}
	return sums`},
}
