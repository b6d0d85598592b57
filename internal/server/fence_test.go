package server

import (
	"context"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tenantry/tenantry/internal/etcdstore"
	tenantregistry "github.com/tenantry/tenantry/internal/server/registry/tenant"
)

// BenchmarkCreate is what it takes this process to store an object, and the fence of it.
func BenchmarkCreate(b *testing.B) {
	codec := scheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion)
	backend := storagebackend.NewDefaultConfig("/registry", codec)
	backend.LeaseManagerConfig = etcd3.NewDefaultLeaseManagerConfig()
	client := clientv3.NewCtxClient(context.Background())
	client.KV = acknowledging{}
	store, destroy, err := etcdstore.New(client, nil, *backend.ForResource(schema.GroupResource{Resource: "configmaps"}),
		func() runtime.Object { return &corev1.ConfigMap{} }, func() runtime.Object { return &corev1.ConfigMapList{} }, "/configmaps", func() {})
	if err != nil {
		b.Fatal(err)
	}
	defer destroy()
	c := &stores{deletions: &tenantregistry.Deletions{Prefix: "/registry"}}
	uid := types.UID("2c5ea4c0-4067-11e9-8bad-9b1deb4d3b7d")
	for name, in := range map[string]func(context.Context) context.Context{
		"in a space": func(ctx context.Context) context.Context { return etcdstore.WithFence(ctx, c.fence("acme", uid)) },
		"in system":  func(ctx context.Context) context.Context { return ctx },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := store.Create(in(b.Context()), "/configmaps/acme/default/x", &corev1.ConfigMap{}, &corev1.ConfigMap{}, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// acknowledging is an etcd that does every transaction and stores nothing.
type acknowledging struct{ clientv3.KV }

func (acknowledging) Txn(context.Context) clientv3.Txn { return acknowledged{} }

type acknowledged struct{}

func (t acknowledged) If(...clientv3.Cmp) clientv3.Txn  { return t }
func (t acknowledged) Then(...clientv3.Op) clientv3.Txn { return t }
func (t acknowledged) Else(...clientv3.Op) clientv3.Txn { return t }
func (t acknowledged) Commit() (*clientv3.TxnResponse, error) {
	return &clientv3.TxnResponse{Header: &etcdserverpb.ResponseHeader{Revision: 1}, Succeeded: true}, nil
}
