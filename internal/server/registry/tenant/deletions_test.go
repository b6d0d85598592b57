package tenant

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/internal/etcd"
	"github.com/tenantry/tenantry/internal/tenant"
)

func TestWaitBeyondTheSecondOfADeletion(t *testing.T) {
	for name, tc := range map[string]struct {
		deleted string
		ends    bool // the context
		want    time.Duration
	}{
		"in this second":    {deleted: "2000-01-01T00:00:00Z", want: 600 * time.Millisecond},
		"in the last":       {deleted: "1999-12-31T23:59:59Z"},
		"by a clock ahead":  {deleted: "2000-01-01T00:10:00Z", want: time.Second},
		"nobody waits":      {deleted: "2000-01-01T00:00:00Z", ends: true},
		"no time is stored": {deleted: "yesterday"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // begins at 2000-01-01T00:00:00Z
				<-time.After(400 * time.Millisecond)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tc.ends {
					cancel()
				}
				began := time.Now()
				waitBeyond(ctx, tc.deleted)
				if waited := time.Since(began); waited != tc.want {
					t.Errorf("waited %v, want %v", waited, tc.want)
				}
			})
		})
	}
}

// Servers with different prefixes in one etcd have different tenants of one name.
func TestDeletionsOfServersWithTheirOwnPrefix(t *testing.T) {
	server, err := etcd.Start(t.Context(), etcd.Options{Dir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	of := func(prefix string) *Deletions {
		return &Deletions{
			Prefix:  prefix,
			Client:  func() (*clientv3.Client, error) { return server.Client(), nil },
			Clients: func() ([]*clientv3.Client, error) { return []*clientv3.Client{server.Client()}, nil },
		}
	}
	if err := of("/registry").record(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	if err := of("/a/b").record(t.Context(), "globex"); err != nil {
		t.Fatal(err)
	}
	type deletion struct{ prefix, name string }
	for deleted, want := range map[deletion]bool{
		{"/registry", "acme"}:   true,
		{"registry/", "acme"}:   true,
		{"/registry", "globex"}: false,
		{"/a/b", "globex"}:      true,
		{"/a/b", "acme"}:        false,
		{"/a", "globex"}:        false,
		{"/", "acme"}:           false,
	} {
		t.Run(deleted.prefix+" "+deleted.name, func(t *testing.T) {
			if got := of(deleted.prefix).knows(t.Context(), deleted.name); got != want {
				t.Errorf("knows the deletion: %v, want %v", got, want)
			}
		})
	}
	response, err := server.Client().Get(t.Context(), "/tenantry/deleted-tenants/acme")
	if err != nil || response.Count != 1 {
		t.Errorf("it is not where earlier servers look for it: %v", err)
	}
}

// twoEtcds returns clients of two etcds.
func twoEtcds(t *testing.T) (clients []*clientv3.Client) {
	t.Helper()
	for range 2 {
		server, err := etcd.Start(t.Context(), etcd.Options{Dir: t.TempDir(), UnsafeNoFsync: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Stop)
		clients = append(clients, server.Client())
	}
	return clients
}

// Resources may be stored in etcds of their own (--etcd-servers-overrides). What compares
// the keys of a fence is in the same etcd.
func TestFencesAreInEveryEtcd(t *testing.T) {
	clients := twoEtcds(t)
	d := &Deletions{
		Client:  func() (*clientv3.Client, error) { return clients[0], nil },
		Clients: func() ([]*clientv3.Client, error) { return clients, nil },
		Prefix:  "/registry",
	}
	fence := d.Fence("acme", "uid", nil)
	for key, put := range map[string]func(context.Context, tenant.Name, types.UID) error{
		fence.Closed(): d.close,
		fence.Ended():  d.end,
	} {
		if err := put(t.Context(), "acme", "uid"); err != nil {
			t.Fatal(err)
		}
		for i, client := range clients {
			response, err := client.Get(t.Context(), key)
			if err != nil || response.Count != 1 || response.Kvs[0].Lease == 0 {
				t.Errorf("%s is not in etcd %d for a time: %v, %v", key, i, response, err)
			}
		}
	}

	errUnreachable := errors.New("one cannot be reached")
	d.Clients = func() ([]*clientv3.Client, error) { return nil, errUnreachable }
	if err := d.close(t.Context(), "acme", "uid"); !errors.Is(err, errUnreachable) {
		t.Errorf("closed without every etcd: %v", err)
	}
}

// TestBorn checks that a tenant's and a namespace's names are known to have been others' before, in every etcd.
func TestBorn(t *testing.T) {
	clients := twoEtcds(t)
	d := &Deletions{Prefix: "/registry", Clients: func() ([]*clientv3.Client, error) { return clients, nil }}
	put := func(client *clientv3.Client, key string) int64 {
		response, err := client.Put(t.Context(), key, "")
		if err != nil {
			t.Fatal(err)
		}
		return response.Header.Revision
	}
	born := func(client *clientv3.Client, n tenant.Name, namespace string) int64 {
		found, err := d.OldestRevision(t.Context(), client, n, namespace)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	system := put(clients[0], "/registry/namespaces/acme") // is one of the system space
	if all, one, none := born(clients[0], tenant.System, ""), born(clients[0], tenant.System, "acme"), born(clients[0], tenant.System, "ns"); all != 0 || one != system || none != 0 {
		t.Errorf("in the system space: %d, in a namespace: %d, not %d, in none: %d", all, one, system, none)
	}
	created := put(clients[0], "/registry/namespaces/acme/ns")
	if all, one := born(clients[0], "acme", ""), born(clients[0], "acme", "ns"); all != 0 || one != created {
		t.Errorf("nobody before: %d; in a namespace: %d, not %d", all, one, created)
	}
	put(clients[0], "/registry/namespaces/acme/ns") // a change
	if one := born(clients[0], "acme", "ns"); one != created {
		t.Errorf("a namespace that has changed: %d, not %d", one, created)
	}
	for range 3 {
		put(clients[1], "/registry/events/acme/ns/e")
	}
	if err := d.record(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	for i, client := range clients {
		revision := put(client, "/registry/anything")
		if all, one := born(client, "acme", ""), born(client, "acme", "ns"); all != revision-1 || one != all {
			t.Errorf("etcd %d, after a deletion: %d, in a namespace: %d, not %d", i, all, one, revision-1)
		}
		if other := born(client, "globex", "ns"); other != 0 {
			t.Errorf("etcd %d, of another tenant: %d", i, other)
		}
	}
	created = put(clients[0], "/registry/namespaces/acme/later")
	if one := born(clients[0], "acme", "later"); one != created {
		t.Errorf("a namespace after it: %d, not %d", one, created)
	}
	closed, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	if _, err := d.OldestRevision(t.Context(), closed, "acme", ""); err == nil {
		t.Error("known without etcd")
	}
}
