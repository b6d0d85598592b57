package storage

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/until"
)

// sizing is a store whose keys upstream asks for.
type sizing struct {
	storage.Interface
	keys storage.KeysFunc
}

func (s *sizing) EnableResourceSizeEstimation(keys storage.KeysFunc) error {
	s.keys = keys
	return nil
}

func TestCounts(t *testing.T) {
	var cached []string
	add := func(prefix string, count int) {
		for i := range count {
			cached = append(cached, fmt.Sprintf("%sdefault/object-%05d", prefix, i))
		}
	}
	add("/pods/s/", 20)
	add("/pods/t/a-b/", 11)
	add("/pods/t/a/", 10_000)
	add("/pods/t/idle/", fewObjects)
	add("/pods/t/z/", 12)

	counts := &Counts{}
	store := &sizing{}
	keys := &etcdKeys{Interface: store, resourcePrefix: "/pods/", counts: counts, cacheID: tenant.CacheID{Resource: "pods", Of: tenant.Everything}, cached: &atomic.Pointer[cacher.Cacher]{}}
	if err := keys.EnableResourceSizeEstimation(func(context.Context) ([]string, error) { return cached, nil }); err != nil {
		t.Fatal(err)
	}
	if _, known := counts.In("a", "pods"); known {
		t.Error("pods are known before they were counted")
	}
	mapped, err := store.keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := mapped[20], "/pods/a-b/default/object-00000"; len(mapped) != len(cached) || got != want {
		t.Errorf("%d keys, the first of a tenant %q, want %d and %q", len(mapped), got, len(cached), want)
	}
	counts.set(tenant.CacheID{Resource: "widgets.example.com", Of: "z"}, map[tenant.Name]storage.Stats{"z": {ObjectCount: 40}})
	counts.set(tenant.CacheID{Resource: "gadgets.example.com", Of: "z"}, map[tenant.Name]storage.Stats{"z": {ObjectCount: 50}})
	counts.forget(tenant.CacheID{Resource: "gadgets.example.com", Of: "z"})

	tests := map[string]struct {
		space    tenant.Name
		resource string
		want     int64
		known    bool
	}{
		"system space":                    {tenant.System, "pods", 20, true},
		"large space":                     {"a", "pods", 10_000, true},
		"a name that begins like another": {"a-b", "pods", 11, true},
		"last space":                      {"z", "pods", 12, true},
		"few objects":                     {"idle", "pods", 0, true},
		"no objects":                      {"none", "pods", 0, true},
		"defined by the tenant":           {"z", "widgets.example.com", 40, true},
		"defined by another tenant":       {"a", "widgets.example.com", 0, false},
		"no longer defined":               {"z", "gadgets.example.com", 0, false},
		"no watch cache":                  {"a", "events", 0, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, known := counts.In(tc.space, tc.resource)
			if got.ObjectCount != tc.want || known != tc.known {
				t.Errorf("In(%q, %q) = %d, %v, want %d, %v", tc.space, tc.resource, got.ObjectCount, known, tc.want, tc.known)
			}
		})
	}
}

// TestSizesBySpace checks that the objects of one space do not change what is known of another's.
func TestSizesBySpace(t *testing.T) {
	b := newBackend(t)
	const large = 50_000
	for name, s := range map[string]*store{"configmaps": b.configMaps(t, true), "widgets.example.com": b.widgets(t, "", true)} {
		for _, n := range spaces[:2] {
			for i := range fewObjects + 1 {
				s.create(t, n, "foo", fmt.Sprint(i))
			}
		}
		bytesIn := func(n tenant.Name) int64 {
			if _, err := s.uncached.(*etcdKeys).Stats(t.Context()); err != nil {
				t.Fatal(err)
			}
			in, _ := b.counts.In(n, name)
			return in.EstimatedAverageObjectSizeBytes
		}
		until.True(t, "objects are measured", func() bool { return bytesIn(spaces[0]) > 0 && bytesIn(spaces[1]) > 0 })
		small := bytesIn(spaces[1])
		for i := range fewObjects + 1 {
			s.label(t, spaces[0], "foo", fmt.Sprint(i), strings.Repeat("x", large))
		}
		until.True(t, "large objects are measured", func() bool { return bytesIn(spaces[0]) >= large })
		if got := bytesIn(spaces[1]); got != small || got > 2000 {
			t.Errorf("%s: an object of %q has %d bytes, before %d", name, spaces[1], got, small)
		}
		if got := bytesIn(spaces[0]); got > 2*large {
			t.Errorf("%s: an object of %q has %d bytes", name, spaces[0], got)
		}
	}
}

// TestSizesFall checks that a few large objects are not forgotten as soon as none is measured.
func TestSizesFall(t *testing.T) {
	counts, what := &Counts{}, tenant.CacheID{Resource: "pods", Of: tenant.Everything}
	for _, step := range []struct{ measured, want int64 }{{1000, 1000}, {9000, 9000}, {0, 6750}, {6000, 6000}} {
		counts.set(what, map[tenant.Name]storage.Stats{"a": {ObjectCount: 20, EstimatedAverageObjectSizeBytes: step.measured}})
		if got, _ := counts.In("a", "pods"); got.EstimatedAverageObjectSizeBytes != step.want {
			t.Errorf("%d bytes after %d were measured, want %d", got.EstimatedAverageObjectSizeBytes, step.measured, step.want)
		}
	}
}
