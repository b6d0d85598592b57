// Package quota holds every tenant to its quota: one ResourceQuota for all that is
// in a space, in all its namespaces and in none.
//
// The quota is the ResourceQuota v1alpha1.TenantQuota in the namespace "default" of
// the space, kept there by the operator and changed by nobody in the space (Protect).
// Its status is the account. Upstream's evaluators say what an object uses, and
// upstream's admission evaluator, asked tenant by tenant, checks and charges what
// waits at the same time in one write (accessor).
//
// A Ledger stands around each write in a space. It charges before the write and
// gives back after one that failed or that freed something, so that used is never
// less than what is stored, whatever servers race. What can be lost, by a crash or
// when etcd does not answer, is given back later: the recount repairs it once a
// tenant has been quiet for so long that nothing can be under way (recounter).
//
// Quotas of namespaces are upstream's, in spaces as in the system space. Here they
// are asked at the same place, after the tenant's.
package quota
