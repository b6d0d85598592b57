package storage

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/tenant"
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
	keys := &etcdKeys{Interface: store, resourcePrefix: "/pods/", counts: counts, counted: counted{resource: "pods"}}
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
	counts.set(counted{resource: "widgets.example.com", only: "z"}, map[tenant.Name]int64{"z": 40})
	counts.set(counted{resource: "gadgets.example.com", only: "z"}, map[tenant.Name]int64{"z": 50})
	counts.forget(counted{resource: "gadgets.example.com", only: "z"})

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
			if got != tc.want || known != tc.known {
				t.Errorf("In(%q, %q) = %d, %v, want %d, %v", tc.space, tc.resource, got, known, tc.want, tc.known)
			}
		})
	}
}
