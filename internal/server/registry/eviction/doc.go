// Package eviction evicts pods by the budgets of their own space.
//
// Upstream's EvictionREST decides, and reads and writes PodDisruptionBudgets with a client
// without the context of the request that it serves. Here each eviction has an EvictionREST
// whose client has that context.
package eviction
