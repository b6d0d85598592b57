package etcdstore

import (
	"sync"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
)

type compareMod = etcdserverpb.Compare_ModRevision

// New returns the storage of one resource, as factory.Create does, with a client that only
// this resource uses. New makes the client's KV compare fences and track latency. The
// function that destroys the storage calls closed last, once.
func New(client *clientv3.Client, compactor etcd3.Compactor, c storagebackend.ConfigForResource,
	newFunc, newListFunc func() apiruntime.Object, resourcePrefix string, closed func()) (storage.Interface, factory.DestroyFunc, error) {
	client.KV = fenced{etcd3.NewETCDLatencyTracker(client.KV)}
	stored := &kubernetes.Client{Client: client}
	stored.Kubernetes = stored

	transformer := c.Transformer
	if transformer == nil {
		transformer = identity.NewEncryptCheckTransformer()
	}
	versioner := storage.APIObjectVersioner{}
	store, err := etcd3.New(stored, compactor, c.Codec, newFunc, newListFunc, c.Prefix, resourcePrefix,
		c.GroupResource, transformer, c.LeaseManagerConfig, decoder{etcd3.NewDefaultDecoder(c.Codec, versioner)}, versioner)
	if err != nil {
		closed()
		return nil, func() {}, err
	}
	destroy := sync.OnceFunc(func() {
		store.Close()
		closed()
	})
	return store, destroy, nil
}
