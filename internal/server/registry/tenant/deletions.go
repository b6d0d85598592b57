package tenant

import (
	"context"
	"fmt"
	"path"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/klog/v2"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"
)

// deletionsPrefix is where etcd remembers which tenants were deleted: one key of
// the tenant's name, with the time. It is beside the objects, so that no space has
// a key of it.
const deletionsPrefix = "/tenantry/deleted-tenants"

// Deletions remembers the names of deleted tenants for as long as there is etcd. A
// certificate cannot be revoked; it must not work for a tenant that is given the
// name of another one later.
type Deletions struct {
	// Client connects to etcd.
	Client func() (*clientv3.Client, error)
	// Prefix is that of the objects in etcd, /registry by default. Servers with another
	// one have tenants of their own.
	Prefix string
}

// key is where the deletion of a tenant is remembered. Names have no slashes, so that no
// two prefixes make one key.
func (d *Deletions) key(name string) string {
	prefix := path.Join("/", d.Prefix)
	if prefix == kubeoptions.DefaultEtcdPathPrefix {
		return path.Join(deletionsPrefix, name)
	}
	return path.Join(deletionsPrefix+"-of", prefix, name)
}

func (d *Deletions) record(ctx context.Context, name string) error {
	client, err := d.Client()
	if err == nil {
		_, err = client.Put(ctx, d.key(name), time.Now().UTC().Format(time.RFC3339))
	}
	if err != nil {
		return fmt.Errorf("recording the deletion of tenant %q: %w", name, err)
	}
	return nil
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
