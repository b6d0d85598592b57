// Package eviction evicts pods by the budgets of their own space.
//
// It decides nothing: that is upstream's EvictionREST, which reads and writes
// PodDisruptionBudgets by a client without the context of the request that it
// serves. Here each eviction has an EvictionREST whose client has that context.
package eviction
