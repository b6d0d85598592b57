package etcdstore_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenantry/tenantry/internal/etcd"
	"github.com/tenantry/tenantry/internal/etcdstore"
)

func TestClaim(t *testing.T) {
	for name, tc := range map[string]struct {
		before map[string]string
		prefix string
		// want is part of the error, empty for none.
		want string
	}{
		"nothing":                    {nil, "/a/b", ""},
		"what is beside":             {map[string]string{"/a/c/tenantry.io/claim": "other", "/a/bc": "x", "/a/b": "x", "/tenantry/deleted-tenants-of/a/b/x": "y"}, "/a/b", ""},
		"its own":                    {map[string]string{"/a/b/tenantry.io/claim": "one", "/a/b/pods/default/x": "pod"}, "/a/b", ""},
		"another's":                  {map[string]string{"/a/b/tenantry.io/claim": "other"}, "/a/b", `/a/b is that of control plane "other" (key /a/b/tenantry.io/claim), and this is "one": choose another prefix`},
		"another's above":            {map[string]string{"/a/tenantry.io/claim": "other"}, "/a/b", `/a/b is below that of control plane "other" (key /a/tenantry.io/claim)`},
		"its own above":              {map[string]string{"/a/tenantry.io/claim": "one"}, "/a/b", `/a/b is below that of control plane "one"`},
		"another's above everything": {map[string]string{"/tenantry.io/claim": "other"}, "/a/b", "(key /tenantry.io/claim)"},
		"another's below":            {map[string]string{"/a/b/c/tenantry.io/claim": "other"}, "/a/b", `put "one" at the key /a/b/tenantry.io/claim`},
		"a cluster's":                {map[string]string{"/registry/pods/default/x": "pod"}, "/registry", "there are keys below /registry, and nobody has claimed them"},
		"a prefix that is not clean": {map[string]string{"/a/b/tenantry.io/claim": "other"}, "a//b/", `/a/b is that of control plane "other"`},
	} {
		t.Run(name, func(t *testing.T) {
			client := startEtcd(t)
			for key, value := range tc.before {
				if _, err := client.Put(t.Context(), key, value); err != nil {
					t.Fatal(err)
				}
			}
			before := everything(t, client)
			for range 2 { // servers start again
				err := etcdstore.Claim(t.Context(), client, tc.prefix, "one")
				switch {
				case tc.want == "" && err != nil:
					t.Fatal(err)
				case tc.want != "" && (!errors.Is(err, etcdstore.ErrClaimed) || !strings.Contains(err.Error(), tc.want)):
					t.Fatalf("got error %v, want %q", err, tc.want)
				}
			}
			if tc.want == "" {
				before["/a/b/tenantry.io/claim"] = "one"
			}
			if diff := cmp.Diff(before, everything(t, client)); diff != "" {
				t.Errorf("etcd (-want +got):\n%s", diff)
			}
		})
	}
}

// TestClaimAtOnce lets two at a time claim prefixes of which both cannot be: one of the other, or the same.
func TestClaimAtOnce(t *testing.T) {
	client := startEtcd(t)
	for _, prefixes := range [][2]string{{"/same", "/same"}, {"/above", "/above/below"}, {"/long/er/one", "/long"}} {
		var group sync.WaitGroup
		var errs [2]error
		for i, prefix := range prefixes {
			group.Go(func() { errs[i] = etcdstore.Claim(t.Context(), client, prefix, string(rune('a'+i))) })
		}
		group.Wait()
		if (errs[0] == nil) == (errs[1] == nil) {
			t.Errorf("%v: got %v and %v, want that one succeeds", prefixes, errs[0], errs[1])
		}
	}
}

// TestClaimWithin has a client that etcd lets in below its prefix alone.
func TestClaimWithin(t *testing.T) {
	client := startEtcd(t)
	ctx := t.Context()
	for _, step := range []func() error{
		func() error { _, err := client.UserAdd(ctx, "root", "root"); return err },
		func() error { _, err := client.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := client.RoleAdd(ctx, "one"); return err },
		func() error {
			_, err := client.RoleGrantPermission(ctx, "one", "/a/b/", clientv3.GetPrefixRangeEnd("/a/b/"), clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error { _, err := client.UserAdd(ctx, "one", "one"); return err },
		func() error { _, err := client.UserGrantRole(ctx, "one", "one"); return err },
		func() error { _, err := client.AuthEnable(ctx); return err },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	within, err := clientv3.New(clientv3.Config{Endpoints: client.Endpoints(), Username: "one", Password: "one"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = within.Close() })
	if err := etcdstore.Claim(ctx, within, "/a/b", "one"); err != nil {
		t.Error(err)
	}
	if err := etcdstore.Claim(ctx, within, "/a/b", "other"); !errors.Is(err, etcdstore.ErrClaimed) {
		t.Errorf("got error %v, want that it is claimed", err)
	}
	if err := etcdstore.Claim(ctx, within, "/a/b/c", "other"); !errors.Is(err, etcdstore.ErrClaimed) || !strings.Contains(err.Error(), "/a/b/c is below") {
		t.Errorf("got error %v, want that it is below one that is claimed", err)
	}
	if err := etcdstore.Claim(ctx, within, "/a/c", "one"); err == nil || !strings.Contains(err.Error(), "claiming the prefix /a/c of etcd: etcdserver: permission denied") {
		t.Errorf("got error %v, want that etcd does not permit it", err)
	}
}

// TestClaimWithoutEtcd says why nobody answers, and not only that the time is over.
func TestClaimWithoutEtcd(t *testing.T) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + filepath.Join(t.TempDir(), "nobody")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	err = etcdstore.Claim(ctx, client, "/a", "one")
	if err == nil || errors.Is(err, etcdstore.ErrClaimed) || !strings.Contains(err.Error(), "no such file or directory") {
		t.Errorf("got error %v", err)
	}
}

// startEtcd starts an empty etcd and returns a client of it.
func startEtcd(t *testing.T) *clientv3.Client {
	t.Helper()
	dir := t.TempDir()
	address := "unix://" + filepath.Join(dir, "s")
	server, err := etcd.Start(t.Context(), etcd.Options{Dir: filepath.Join(dir, "etcd"), ListenClientURL: address, UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{address}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// everything returns all that etcd holds.
func everything(t *testing.T, client *clientv3.Client) map[string]string {
	t.Helper()
	found, err := client.Get(t.Context(), "", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, kv := range found.Kvs {
		all[string(kv.Key)] = string(kv.Value)
	}
	return all
}
