package etcdstore_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tenantry/tenantry/internal/etcd"
	"github.com/tenantry/tenantry/internal/etcdstore"
)

// TestBoundHistory overwrites one object of a megabyte in an etcd of 64 MiB, which may grow by 8 MiB between
// compactions.
func TestBoundHistory(t *testing.T) {
	server, err := etcd.Start(t.Context(), etcd.Options{
		Dir: filepath.Join(t.TempDir(), "etcd"), QuotaBackendBytes: 64 << 20, UnsafeNoFsync: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	client := server.Client()
	bound := etcdstore.Bounder(client)
	look := func() {
		t.Helper()
		if err := bound(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// What is in use is known when etcd has committed a write, and falls when it has removed what is compacted.
	waitFor := func(inUse func(int64) bool) {
		t.Helper()
		if err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			if _, err := client.Put(ctx, "small", ""); err != nil {
				return false, err
			}
			status, err := client.Status(ctx, "")
			return err == nil && inUse(status.DbSizeInUse), err
		}); err != nil {
			t.Fatal(err)
		}
	}
	value := strings.Repeat("x", 1<<20)
	overwrite := func(times int) (revision int64) {
		t.Helper()
		for range times {
			response, err := client.Put(t.Context(), "large", value)
			if err != nil {
				t.Fatal(err)
			}
			revision = response.Header.Revision
		}
		return revision
	}
	kept := func(revision int64) bool {
		t.Helper()
		_, err := client.Get(t.Context(), "large", clientv3.WithRev(revision))
		if err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
			t.Fatal(err)
		}
		return err == nil
	}

	look()
	first := overwrite(4)
	look()
	if !kept(first) {
		t.Error("compacted although etcd has grown by half of what it may")
	}
	second := overwrite(8)
	waitFor(func(bytes int64) bool { return bytes > 12<<20 })
	look()
	if kept(first - 1) {
		t.Error("not compacted although etcd has grown by more than it may")
	}
	if !kept(second) || !kept(first) {
		t.Error("compacted what was written since the size was looked at before")
	}
	// Again and again: upstream's key has another version each time.
	previous := second
	for range 5 {
		last := overwrite(20)
		waitFor(func(int64) bool {
			look()
			return !kept(previous - 1)
		})
		waitFor(func(bytes int64) bool {
			look()
			return bytes < 30<<20
		})
		previous = last
	}
	status, err := client.Status(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if len(status.Errors) > 0 {
		t.Errorf("etcd refuses writes: %v", status.Errors)
	}
}
