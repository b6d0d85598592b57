// Package quota holds every tenant to its quota: one ResourceQuota for all that is
// in a space, in all its namespaces and in none.
//
// The quota is the ResourceQuota v1alpha1.TenantQuota in the namespace "default" of
// the space, kept there by the manager and changed by nobody in the space (Protect).
// Its status is the account. Quotas of namespaces are upstream's, in spaces as in the
// system space. Upstream's evaluators say what an object uses, and upstream's admission
// evaluator checks and charges (accessor): one for the tenants' quotas, and one for those
// of namespaces.
//
// # A write in a space
//
//	request          Plugin (admission)   Ledger                     etcd
//	   │                    │
//	   ├─ dry run? ────────►│ fits the tenant's and the namespace's quotas, or 403.
//	   │                    │ Nothing is charged. Any other request passes.
//	   │
//	storage.Space ─ Tracks ──────────────►│ does any quota limit it? (memory)
//	   │
//	   ├─ Charge ────────────────────────►│ 1 the namespace: does it fit? (memory)
//	   │                                  │   all tenants: is there memory for it? (cachememory.MayStore)
//	   │                    one write for │ 2 the tenant: fits, ──────► used += added
//	   │                      all waiting │ 3 the namespace: fits, ───► used += added
//	   │                                  │   or 2 is given back ─────► used -= added
//	   │
//	   ├─ write ───────────────────────────────────────────────────────► object
//	   │
//	   └─ Settle ────────────────────────►│
//	        Written                       │ give back what it freed ──► used -= freed
//	        Dropped (refused, conflict)   │ give back the charge ─────► used -= added
//	        Unknown (no answer)           │ leave it to the recount
//
// An update is charged at each attempt, and the attempt before it is dropped. A deletion
// is charged nothing. What the platform observes and publishes is added without asking
// whether it fits. What is given back to a quota while it is being written waits, and is
// one write.
//
// A charge is a difference (charge): it is added to what etcd says is used, in one
// transaction, which fails with a conflict if that does not fit any more. Upstream then
// decides anew. So servers that race for the last unit do not both get it.
//
// Once a limit is counted, used is never less than what is stored, whatever servers race: a
// charge comes before its write, and a refund after it. A refund goes to the quota that was
// charged, by its UID. If that was deleted and there is another of its name, of the next
// tenant even, the refund is dropped: what the other uses was counted in etcd.
//
// # In advance
//
// Most tenants are limited in their stored bytes alone, and each write would be two. So a quota that is often written
// for bytes, and is far from its limit, is charged 128 KiB in advance: for ten seconds, this server takes what is added
// from them and puts back what is freed, in memory (advances). The write of step 2 and of Settle is left out.
//
// # What a crash leaves
//
//	after 2 or 3, before the write   too much is used: what was charged
//	after the write, before Settle   too much is used: what was freed
//	in a window of an advance        too much is used: what is left of it
//
// The tenant's quota is recounted after its last change, in any server, and after a
// start (recounter). A count that finds too much corrects it when the quota did not change
// for longer than a request takes, twice.
//
// # What stays approximate
//
//   - Until the recount, a crash, an etcd that does not answer and a refund that was
//     dropped leave too much used. While a tenant is never quiet for that long, it stays.
//   - What is new in a quota is counted while requests go on: in a tenant's own quota first, in
//     those of namespaces in turns of tenants. What they write meanwhile may
//     be counted or not; the recount corrects both.
//   - A dry run does not know the size of an object (stored-bytes), and looks at creations
//     alone.
//   - A namespace's quota is not recounted here but by upstream's controller, which knows no
//     custom resources. It gets back nothing for what was written when etcd did not answer.
//     If it is created while something is written, it gets nothing back of that.
//   - Without a ledger, and in the system space, namespaces' quotas are charged in admission,
//     as upstream does: refunds are upstream's controller's.
//
// The package must not let a request in a space pass that it cannot charge, and must keep
// nothing for an idle tenant.
package quota
