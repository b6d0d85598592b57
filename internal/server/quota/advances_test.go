package quota

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/server/storage"
)

// sized returns the change of an object of some bytes, created or deleted.
func sized(created bool, bytes int64) storage.Change {
	c := change("default", !created, created)
	c.Size = func(runtime.Object) (int64, error) { return bytes, nil }
	return c
}

// TestAdvances checks how often a quota is written, and that what is used is never less than what is stored.
func TestAdvances(t *testing.T) {
	const kilobyte = 1 << 10
	for name, tc := range map[string]struct {
		limit string
		more  corev1.ResourceList // other limits
		// writes of the quota for a hundred objects of so many bytes, and of all that are deleted then.
		bytes                 int64
		writes, writesDeleted int
	}{
		"small objects":            {limit: "1Gi", bytes: kilobyte, writes: 4, writesDeleted: 2},
		"objects of some size":     {limit: "1Gi", bytes: 100 * kilobyte, writes: 52, writesDeleted: 99},
		"large objects":            {limit: "1Gi", bytes: 200 * kilobyte, writes: 100, writesDeleted: 100},
		"a small limit":            {limit: "2Mi", bytes: kilobyte, writes: 100, writesDeleted: 100},
		"a limit of another thing": {limit: "1Gi", more: list(widgets, "1k"), bytes: kilobyte, writes: 100, writesDeleted: 100},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limits := list(string(v1alpha1.ResourceStoredBytes), tc.limit)
				used := list(string(v1alpha1.ResourceStoredBytes), "0")
				for name, limit := range tc.more {
					limits[name], used[name] = limit, list("x", "0")["x"]
				}
				s := &fakeStore{quota: newQuota("1", limits, limits, used)}
				l := newTestLedger(t, s, s.quota.DeepCopy())
				var stored int64
				each := func(created bool) (writes int) {
					before := s.written()
					for range 100 {
						entry, err := l.Charge(t.Context(), sized(created, tc.bytes))
						if err != nil {
							t.Fatal(err)
						}
						if created {
							stored += tc.bytes
						} else {
							stored -= tc.bytes
						}
						if used := s.bytes(); used < stored || used > stored+advanceBytes+tc.bytes {
							t.Fatalf("%d bytes are used, and %d stored", used, stored)
						}
						entry.Settle(storage.Written)
					}
					return s.written() - before
				}
				if writes := each(true); writes != tc.writes {
					t.Errorf("%d writes of the quota for what is created, want %d", writes, tc.writes)
				}
				time.Sleep(SettleTime / settleWindows)
				synctest.Wait()
				if used := s.bytes(); used != stored {
					t.Errorf("after a window, %d bytes are used, and %d stored", used, stored)
				}
				if writes := each(false); writes != tc.writesDeleted {
					t.Errorf("%d writes of the quota for what is deleted, want %d", writes, tc.writesDeleted)
				}
				time.Sleep(2 * SettleTime / settleWindows)
				synctest.Wait()
				if used := s.bytes(); used != 0 || len(l.accounts.advances.of) > 0 {
					t.Errorf("in the end, %d bytes are used, and there are %d advances", used, len(l.accounts.advances.of))
				}
			})
		})
	}
}

func (s *fakeStore) written() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

func (s *fakeStore) bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	used := s.quota.Status.Used[v1alpha1.ResourceStoredBytes]
	return used.Value()
}
