package tenant

import (
	"context"
	"fmt"
	"path"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"

	"github.com/tenantry/tenantry/internal/etcdstore"
	"github.com/tenantry/tenantry/internal/tenant"
)

// deletionsPrefix is where etcd remembers which tenants were deleted: one key of
// the tenant's name, with the time. It is beside the objects, so that no space has
// a key of it.
const deletionsPrefix = "/tenantry/deleted-tenants"

// Deletions remembers the names of deleted tenants for as long as there is etcd. A
// certificate cannot be revoked; it must not work for a tenant that is given the
// name of another one later.
type Deletions struct {
	// Client connects to the etcd that is asked for earlier tenants of a name.
	Client func() (*clientv3.Client, error)
	// Clients connect to each etcd that may hold objects of spaces; fences and deletions are in all.
	Clients func() ([]*clientv3.Client, error)
	// Prefix is that of the objects in etcd, /registry by default. Servers with another
	// one have tenants of their own.
	Prefix string

	once  sync.Once
	below string // the keys of all names
}

// key is where the deletion of a tenant is remembered. Names have no slashes, so that no
// two prefixes make one key.
func (d *Deletions) key(name string) string { return d.prefix() + name }

func (d *Deletions) prefix() string {
	d.once.Do(func() { // each write in a space asks
		d.below = deletionsPrefix + "/"
		if prefix := path.Join("/", d.Prefix); prefix != kubeoptions.DefaultEtcdPathPrefix {
			d.below = path.Join(deletionsPrefix+"-of", prefix) + "/"
		}
	})
	return d.below
}

// fenceTTL is for how many seconds etcd remembers the end of each single tenant. No
// request is as old.
const fenceTTL = 7 * 24 * 60 * 60

// Fence returns what keeps requests that were admitted to the space of a tenant from being
// done in that of the next one of its name: keys of the tenant's name and UID, below the
// key of the name. Refused makes the error.
func (d *Deletions) Fence(n tenant.Name, uid types.UID, refused func(tenant.Name) error) etcdstore.Fence {
	return fence{d, n, uid, refused}
}

// fence implements etcdstore.Fence. Each write has one, most ask for one key, and few for
// the error: so each is made when it is asked for.
type fence struct {
	deletions *Deletions
	name      tenant.Name
	uid       types.UID
	refused   func(tenant.Name) error
}

func (f fence) Closed() string { return f.deletions.fenceKey(f.name, f.uid, closedKey) }
func (f fence) Ended() string  { return f.deletions.fenceKey(f.name, f.uid, endedKey) }
func (f fence) Refused() error { return f.refused(f.name) }

const (
	closedKey = "/closed"
	endedKey  = "/ended"
)

func (d *Deletions) fenceKey(n tenant.Name, uid types.UID, what string) string {
	return d.prefix() + n.String() + "/" + string(uid) + what
}

// close keeps new objects out of the space of a tenant that is being deleted, for good:
// what is counted afterwards cannot become more.
func (d *Deletions) close(ctx context.Context, n tenant.Name, uid types.UID) error {
	return d.putFence(ctx, n, d.fenceKey(n, uid, closedKey))
}

// end keeps every change out of the space of a tenant that was found empty. Before, its
// objects must change to be deleted.
func (d *Deletions) end(ctx context.Context, n tenant.Name, uid types.UID) error {
	return d.putFence(ctx, n, d.fenceKey(n, uid, endedKey))
}

func (d *Deletions) putFence(ctx context.Context, n tenant.Name, key string) error {
	clients, err := d.Clients()
	for i := 0; i < len(clients) && err == nil; i++ {
		err = putLeased(ctx, clients[i], key)
	}
	if err != nil {
		return fmt.Errorf("closing the space of tenant %q: %w", n, err)
	}
	return nil
}

func putLeased(ctx context.Context, client *clientv3.Client, key string) error {
	lease, err := client.Grant(ctx, fenceTTL)
	if err == nil {
		_, err = client.Put(ctx, key, time.Now().UTC().Format(time.RFC3339), clientv3.WithLease(lease.ID))
	}
	return err
}

// record remembers the deletion of a tenant in every etcd, see OldestRevision.
func (d *Deletions) record(ctx context.Context, name string) error {
	clients, err := d.Clients()
	for i := 0; i < len(clients) && err == nil; i++ {
		_, err = clients[i].Put(ctx, d.key(name), time.Now().UTC().Format(time.RFC3339))
	}
	if err != nil {
		return fmt.Errorf("recording the deletion of tenant %q: %w", name, err)
	}
	return nil
}

// OldestRevision returns the revision of an etcd before which what is below the name of a tenant was that of an earlier
// tenant or, if there is a namespace, what is below its name that of an earlier one. It is zero if neither had a
// predecessor there. Where namespaces are in another etcd, nothing is known of them. The system space had no earlier
// tenant, but may have had earlier namespaces.
func (d *Deletions) OldestRevision(ctx context.Context, etcd *clientv3.Client, n tenant.Name, namespace string) (int64, error) {
	reads := []clientv3.Op{clientv3.OpGet(d.key(n.String()), clientv3.WithKeysOnly())}
	if namespace != "" {
		key := path.Join("/", d.Prefix, "namespaces", n.String(), namespace)
		if n == tenant.System {
			key = path.Join("/", d.Prefix, "namespaces", namespace)
		}
		reads = append(reads, clientv3.OpGet(key, clientv3.WithKeysOnly()))
	}
	response, err := etcd.Txn(ctx).Then(reads...).Commit()
	if err != nil {
		return 0, err
	}
	var born int64
	for _, kv := range response.Responses[0].GetResponseRange().Kvs { // the deletion, written again by each
		born = kv.ModRevision
	}
	for _, of := range response.Responses[1:] { // the namespace
		for _, kv := range of.GetResponseRange().Kvs {
			born = max(born, kv.CreateRevision)
		}
	}
	return born, nil
}

// knows reports whether there may have been a tenant of this name. If it was
// deleted in this very second, it returns in the next: credentials tell the second
// in which they were issued.
func (d *Deletions) knows(ctx context.Context, name string) bool {
	client, err := d.Client()
	if err == nil {
		var response *clientv3.GetResponse
		if response, err = client.Get(ctx, d.key(name)); err == nil {
			if len(response.Kvs) > 0 {
				waitBeyond(ctx, string(response.Kvs[0].Value))
			}
			return response.Count > 0
		}
	}
	klog.ErrorS(err, "Looking for an earlier tenant; older credentials are refused", "tenant", name)
	return true
}

// waitBeyond waits until the second of a deletion is over.
func waitBeyond(ctx context.Context, deleted string) {
	at, err := time.Parse(time.RFC3339, deleted)
	if err != nil {
		return
	}
	over := time.NewTimer(min(time.Until(at.Add(time.Second)), time.Second))
	defer over.Stop()
	select {
	case <-over.C:
	case <-ctx.Done():
	}
}
