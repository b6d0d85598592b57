package tenant

import "strings"

// The watch cache is keyed differently from etcd, because the etcd keys are ambiguous as
// prefixes: /registry/pods/foo/ holds both the system namespace foo and the tenant foo. In
// the cache each space is one contiguous range, and so are all tenant spaces together:
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

// CacheID identifies the watch caches of a resource: of Everything or, if a space has defined the resource, of that
// space.
type CacheID struct {
	Resource string // as schema.GroupResource prints it
	Of       Scope
}

// CachePrefix returns the cache range of s below a resource prefix that ends in a slash.
func CachePrefix(resourcePrefix string, s Scope) string {
	switch s {
	case Everything:
		return resourcePrefix
	case All:
		return resourcePrefix + tenantPartition
	case System.Scope():
		return resourcePrefix + systemPartition
	default:
		return resourcePrefix + tenantPartition + string(s) + "/"
	}
}

// CacheKey maps an ordinary key below resourcePrefix to its cache key in the
// space of n.
func CacheKey(resourcePrefix string, n Name, key string) string {
	return CachePrefix(resourcePrefix, n.Scope()) + strings.TrimPrefix(key, resourcePrefix)
}

// EtcdKey maps a cache key below resourcePrefix to its key in etcd, relative to
// the server's --etcd-prefix, and reports the space it belongs to: System, a
// tenant, or All for a range over all tenants. It reports false for the whole
// resource (which is the same in both) and for a key that is no cache key.
func EtcdKey(resourcePrefix, cacheKey string) (key string, of Scope, ok bool) {
	rest, found := strings.CutPrefix(cacheKey, resourcePrefix)
	if !found {
		return cacheKey, "", false
	}
	if system, found := strings.CutPrefix(rest, systemPartition); found {
		return resourcePrefix + system, System.Scope(), true
	}
	ofTenants, found := strings.CutPrefix(rest, tenantPartition)
	if !found {
		return cacheKey, "", false
	}
	name, _, _ := strings.Cut(ofTenants, "/")
	if name == "" {
		return resourcePrefix, All, true
	}
	return resourcePrefix + ofTenants, Name(name).Scope(), true
}
