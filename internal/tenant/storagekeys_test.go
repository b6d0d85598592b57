package tenant

import (
	"strings"
	"testing"
)

func TestKeys(t *testing.T) {
	for _, tc := range []struct {
		name             Name
		key, cache, etcd string
	}{
		{System, "/pods/ns/p", "/pods/s/ns/p", "/pods/ns/p"},
		{System, "/pods/acme/p", "/pods/s/acme/p", "/pods/acme/p"},
		{"acme", "/pods/ns/p", "/pods/t/acme/ns/p", "/pods/acme/ns/p"},
		{"acme", "/pods/", "/pods/t/acme/", "/pods/acme/"},
		{System, "/pods/", "/pods/s/", "/pods/"},
		{"t", "/pods/s", "/pods/t/t/s", "/pods/t/s"},
		{"s", "/pods/t", "/pods/t/s/t", "/pods/s/t"},
	} {
		cache := CacheKey("/pods/", tc.name, tc.key)
		if cache != tc.cache {
			t.Errorf("CacheKey(%q, %q) = %q, want %q", tc.name, tc.key, cache, tc.cache)
		}
		etcd, name, ok := EtcdKey("/pods/", cache)
		if etcd != tc.etcd || name != tc.name.Scope() || !ok {
			t.Errorf("EtcdKey(%q) = %q, %q, %v, want %q, %q", cache, etcd, name, ok, tc.etcd, tc.name)
		}
	}
	if key, of, ok := EtcdKey("/pods/", CachePrefix("/pods/", All)); key != "/pods/" || of != All || !ok {
		t.Errorf("EtcdKey of all tenants' spaces = %q, %q, %v", key, of, ok)
	}
	if key, name, ok := EtcdKey("/pods/", CachePrefix("/pods/", Everything)); key != "/pods/" || name != "" || ok {
		t.Errorf("EtcdKey of the whole resource = %q, %q, %v", key, name, ok)
	}
	for _, other := range []string{"/pods/acme/ns/p", "s/ns/p", "t/acme/ns/p", ""} {
		if key, name, ok := EtcdKey("/pods/", other); key != other || name != "" || ok {
			t.Errorf("EtcdKey of %q, which is no cache key = %q, %q, %v", other, key, name, ok)
		}
	}
}

// FuzzKeys checks that no two spaces' keys meet in the cache and that the way
// to etcd and back loses nothing.
func FuzzKeys(f *testing.F) {
	f.Add("acme", "other", "ns/name")
	f.Add("s", "t", "t/s/x")
	f.Fuzz(func(t *testing.T, a, b, rest string) {
		first, err := Parse(a)
		if err != nil {
			t.Skip()
		}
		second, err := Parse(b)
		if err != nil || first == second {
			t.Skip()
		}
		key := "/r/" + rest
		cache := CacheKey("/r/", first, key)
		if strings.HasPrefix(cache, CachePrefix("/r/", second.Scope())) {
			t.Fatalf("key %q of %q lies in the range of %q", cache, first, second)
		}
		if _, name, ok := EtcdKey("/r/", cache); !ok || name != first.Scope() {
			t.Fatalf("EtcdKey(%q) belongs to %q, want %q", cache, name, first)
		}
	})
}
