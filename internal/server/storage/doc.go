// Package storage is where tenancy enters the API server's storage: one
// decorator, installed for every resource, built-in and custom alike. There is
// one store, one watch cache and one etcd watch per resource for all spaces.
//
// These enclose upstream's watch cache:
//
//	registry.Store           ordinary keys, tenant in the context
//	  limitedLists           how much one list or table may have
//	    Space                context -> cache key, annotation, continue token
//	      withHistory        410 for watches from before what was dropped
//	        watch cache      each space is one contiguous range
//	          history        mirrors what the cache keeps of the past, and drops it
//	            etcdKeys     cache key -> etcd key
//	              etcd3 store
//
// Above the cache the space comes from the request's context alone; below it,
// from the key alone. Neither knows a default: without a tenant a call fails.
//
// Of what the cache itself reads, history bounds what the cache keeps of the past, and the package cachememory
// what the objects of a space take in it.
package storage
