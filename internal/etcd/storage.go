package etcd

import (
	"context"
	"runtime"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/proxy/grpcproxy/adapter"
	"google.golang.org/grpc"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	etcdfeature "k8s.io/apiserver/pkg/storage/feature"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/utils/clock"

	"github.com/tenantry/tenantry/internal/etcdstore"
)

// Storage returns upstream's storage of one resource on this server, as factory.Create does
// for a server behind a connection. It calls etcd's functions directly: a connection takes
// several times as long, and each resource would have one of its own, with goroutines and
// buffers.
func (s *Server) Storage(c storagebackend.ConfigForResource, newFunc, newListFunc func() apiruntime.Object, resourcePrefix string) (storage.Interface, factory.DestroyFunc, error) {
	shared := s.sharedClient(c.CompactionInterval)
	client := s.newClient()
	client.KV, client.Lease = shared.kv, shared.lease
	return etcdstore.New(client, shared.compactor, c, newFunc, newListFunc, resourcePrefix, func() {
		_ = client.Watcher.Close() // only reports what the watches ended with
	})
}

// sharedClient is what the storages of all resources have in common.
type sharedClient struct {
	kv        clientv3.KV
	lease     clientv3.Lease
	compactor etcd3.Compactor
	stop      func()
}

func (s *Server) sharedClient(compactionInterval time.Duration) *sharedClient {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared != nil {
		return s.shared
	}
	client := s.Client()
	compactor := etcd3.NewCompactor(client, compactionInterval, clock.RealClock{}, nil)
	ctx, cancel := context.WithCancel(context.Background())
	var history sync.WaitGroup
	if compactionInterval > 0 {
		history.Go(func() { etcdstore.BoundHistory(ctx, client) })
	}
	s.shared = &sharedClient{
		kv: localReads{client.KV}, lease: client.Lease,
		compactor: compactor,
		stop: func() { // and wait: a call that still runs when etcd closes its data panics
			cancel()
			history.Wait()
			compactor.Stop()
		},
	}
	// The storages would ask for the features of the addresses that their clients
	// connect to. These clients have none.
	etcdfeature.DefaultFeatureSupportChecker.CheckClient(client.Ctx(), direct{client}, storage.RequestWatchProgress)
	return s.shared
}

// localReads makes reads serializable: they return what this member has applied. The
// embedded etcd has one member, which answers a write when it is durable and applied, so
// every read sees all writes that were answered before. A linearizable read would
// wait for the entry that is just being written to disk.
type localReads struct{ clientv3.KV }

// Get implements clientv3.KV.
func (l localReads) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	return l.KV.Get(ctx, key, append(opts, clientv3.WithSerializable())...)
}

// GetStream implements clientv3.KV. The server in this process has no streams today;
// upstream's storage falls back to pages.
func (l localReads) GetStream(ctx context.Context, key string, opts ...clientv3.OpOption) (clientv3.GetStreamChan, error) {
	return l.KV.GetStream(ctx, key, append(opts, clientv3.WithSerializable())...)
}

// newClient returns a client that only watches. Each resource has its own: a
// request for progress goes to all watches of one client.
func (s *Server) newClient() *clientv3.Client {
	c := clientv3.NewCtxClient(context.Background(), clientv3.WithZapLogger(s.etcd.Server.Logger()))
	watch := adapter.WatchServerToWatchClient(v3rpc.NewWatchServer(s.etcd.Server))
	c.Watcher = watcher{clientv3.NewWatchFromWatchClient(readable{watch, s.etcd.Server.KV().Rev}, c)}
	return c
}

// readable delays events until serializable reads (localReads) return what the events
// report: etcd notifies watchers of a write just before it applies it. A controller that
// is notified that an object is being deleted, and reads the object as it was
// before, does nothing and does not look again.
type readable struct {
	etcdserverpb.WatchClient
	revision func() int64 // the last one that reads return
}

// Watch implements etcdserverpb.WatchClient.
func (r readable) Watch(ctx context.Context, opts ...grpc.CallOption) (etcdserverpb.Watch_WatchClient, error) {
	stream, err := r.WatchClient.Watch(ctx, opts...)
	return readableStream{stream, r.revision}, err
}

type readableStream struct {
	etcdserverpb.Watch_WatchClient
	revision func() int64
}

// Recv implements etcdserverpb.Watch_WatchClient.
func (s readableStream) Recv() (*etcdserverpb.WatchResponse, error) {
	response, err := s.Watch_WatchClient.Recv()
	if err != nil || len(response.Events) == 0 {
		return response, err
	}
	last := response.Events[len(response.Events)-1].Kv.ModRevision
	for s.revision() < last {
		runtime.Gosched() // it is a matter of microseconds
	}
	return response, nil
}

// direct has the server's name as its address, for upstream's feature checker.
type direct struct{ *clientv3.Client }

func (direct) Endpoints() []string { return []string{Endpoint} }

// watcher hides the values of a request's context. The client would print them to tell
// its streams apart, while other goroutines change them.
type watcher struct{ clientv3.Watcher }

func (w watcher) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	return w.Watcher.Watch(silentContext{ctx}, key, opts...)
}

type silentContext struct{ context.Context }

func (silentContext) String() string { return "etcd watch" }
