package tenant

import "strings"

// The watch cache is keyed differently from etcd, because the seed's etcd keys
// are ambiguous as prefixes: /registry/pods/foo/ holds both the system
// namespace foo and the tenant foo. In the cache each space is one contiguous
// range, and so are all tenant spaces together:
//
//	etcd                        cache
//	/pods/ns/name               /pods/s/ns/name
//	/pods/acme/ns/name          /pods/t/acme/ns/name
//
// "/pods/" is the resource prefix; namespaces and names are never rewritten.
const (
	systemPartition = "s/"
	tenantPartition = "t/"
)

// CachePrefix returns the cache range of the space of n below a resource prefix
// that ends in a slash; for All, the range of all tenant spaces.
func CachePrefix(resourcePrefix string, n Name) string {
	switch n {
	case System:
		return resourcePrefix + systemPartition
	case All:
		return resourcePrefix + tenantPartition
	default:
		return resourcePrefix + tenantPartition + string(n) + "/"
	}
}

// CacheKey maps an ordinary key below resourcePrefix to its cache key in the
// space of n.
func CacheKey(resourcePrefix string, n Name, key string) string {
	return CachePrefix(resourcePrefix, n) + strings.TrimPrefix(key, resourcePrefix)
}

// EtcdKey maps a cache key below resourcePrefix to its key in etcd, relative to
// the server's --etcd-prefix, and reports the space it belongs to: System, a
// tenant, or All for a range over all tenants. It reports false for the whole
// resource (which is the same in both) and for a key that is no cache key.
func EtcdKey(resourcePrefix, cacheKey string) (key string, n Name, ok bool) {
	rest, found := strings.CutPrefix(cacheKey, resourcePrefix)
	if !found {
		return cacheKey, "", false
	}
	if system, found := strings.CutPrefix(rest, systemPartition); found {
		return resourcePrefix + system, System, true
	}
	own, found := strings.CutPrefix(rest, tenantPartition)
	if !found {
		return cacheKey, "", false
	}
	name, _, _ := strings.Cut(own, "/")
	if name == "" {
		return resourcePrefix, All, true
	}
	return resourcePrefix + own, Name(name), true
}
