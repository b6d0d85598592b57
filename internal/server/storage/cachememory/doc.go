// Package cachememory bounds what memory the objects of tenants take, above all in watch caches.
//
// A Budget counts by tenant, in bytes of memory:
//
//	what                                          counts as                              by
//	custom resources                              all, in each version's cache           Cache, Write
//	definitions, expressions of policies          what the server makes of them          Cache, Write
//	parameters of policies, converters of types   all, for each plugin that has them     Copy
//	other objects in caches                       what is beyond three times their bytes Cache, Write
//	all that is stored                            three times its bytes, for all alone   SetStored
//	lists that are decoded or copied for requests all, until the request ends            List
//
// A tenant may have so much of the first four, and all tenants together so much of everything but lists. What all may
// have is shared by a dynamic threshold: a tenant may have as much as is left with it. When nothing is left, each has
// some headroom beyond what it has, for its controllers to go on. Lists may take half of either at once.
//
// A write is counted from its admission on (Write), until the caches have it (Cache.Passed), as caches may be behind. A
// definition counts as often as it has caches, each as the fullest of them.
//
// A Cache takes what was written, which was admitted before: it counts with the other caches of its definition, and by
// keys in etcd. A Copy is asked for and may be refused while it is read, counts for itself, and has what is read anew
// beside what it had.
//
// It knows nothing of etcd's keys, of requests but whose they are and whether they are of the status, and of spaces but
// their names: it says no, and storage does what follows.
package cachememory
