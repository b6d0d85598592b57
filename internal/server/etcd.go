package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	"go.etcd.io/etcd/client/pkg/v3/logutil"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/tracing"

	"github.com/tenantry/tenantry/internal/etcdstore"
)

// etcdClients connect to each etcd once, when first needed. Resources may be
// stored in different ones (--etcd-servers-overrides).
type etcdClients struct {
	// embedded, if set, is the only etcd.
	embedded func() *clientv3.Client

	mu   sync.Mutex
	made map[string]*clientv3.Client
	// bounded are those whose history is bounded in bytes.
	bounded sets.Set[*clientv3.Client]
}

func (c *etcdClients) connect(config storagebackend.TransportConfig) (*clientv3.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	servers := strings.Join(config.ServerList, ",")
	if client, ok := c.made[servers]; ok {
		return client, nil
	}
	var client *clientv3.Client
	var err error
	if c.embedded != nil {
		client = c.embedded()
	} else if client, err = dial(config); err != nil {
		return nil, err
	}
	if c.made == nil {
		c.made = make(map[string]*clientv3.Client)
	}
	c.made[servers] = client
	return client, nil
}

// connectAll connects to every etcd of configs.
func (c *etcdClients) connectAll(configs []storagebackend.Config) ([]*clientv3.Client, error) {
	var clients []*clientv3.Client
	for _, config := range configs {
		client, err := c.connect(config.Transport)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(clients, client) {
			clients = append(clients, client)
		}
	}
	return clients, nil
}

// claimTimeout is what an etcd gets to answer a server that starts.
const claimTimeout = 20 * time.Second

// claim makes the prefix of every etcd of configs that of a claimant, before anything is
// written there.
func (c *etcdClients) claim(ctx context.Context, configs []storagebackend.Config, claimant string) error {
	clients, err := c.connectAll(configs)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	for _, client := range clients {
		if err := etcdstore.Claim(ctx, client, configs[0].Prefix, claimant); err != nil {
			return fmt.Errorf("--etcd-claim: %w (%s)", err, strings.Join(client.Endpoints(), ", "))
		}
	}
	return nil
}

// Clients of etcd are as upstream's (k8s.io/apiserver/pkg/storage/storagebackend/factory),
// which does not export how it makes them.
const (
	etcdDialTimeout      = 20 * time.Second
	etcdKeepalive        = 30 * time.Second
	etcdKeepaliveTimeout = 10 * time.Second
)

// etcdMetrics are those of requests to etcd, grpc_client_*. Upstream's health checks have
// registered them, and are not exported; who registers the same again gets them.
var etcdMetrics = sync.OnceValue(func() *grpcprom.ClientMetrics {
	own := grpcprom.NewClientMetrics()
	var registered prometheus.AlreadyRegisteredError
	if err := legacyregistry.Registerer().Register(own); errors.As(err, &registered) {
		if shared, ok := registered.ExistingCollector.(*grpcprom.ClientMetrics); ok {
			return shared
		}
	}
	return own
})

// observed are the options of a connection whose requests are counted and traced, each
// try by itself. Without tracing there is a provider that does nothing.
func observed(tracer trace.TracerProvider) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(etcdMetrics().UnaryClientInterceptor()),
		grpc.WithChainStreamInterceptor(etcdMetrics().StreamClientInterceptor()),
		grpc.WithStatsHandler(otelgrpc.NewClientHandler(
			otelgrpc.WithMessageEvents(otelgrpc.ReceivedEvents, otelgrpc.SentEvents),
			otelgrpc.WithPropagators(tracing.Propagators()),
			otelgrpc.WithTracerProvider(tracer),
		)),
	}
}

func dial(config storagebackend.TransportConfig, options ...grpc.DialOption) (*clientv3.Client, error) {
	options = append(options, observed(config.TracerProvider)...)
	etcd := clientv3.Config{
		Endpoints: config.ServerList, DialTimeout: etcdDialTimeout, DialOptions: options,
		DialKeepAliveTime: etcdKeepalive, DialKeepAliveTimeout: etcdKeepaliveTimeout, Logger: etcdLogger(),
	}
	if config.CertFile != "" || config.KeyFile != "" || config.TrustedCAFile != "" {
		tls, err := transport.TLSInfo{
			CertFile: config.CertFile, KeyFile: config.KeyFile, TrustedCAFile: config.TrustedCAFile,
		}.ClientConfig()
		if err != nil {
			return nil, fmt.Errorf("reading etcd credentials: %w", err)
		}
		etcd.TLS = tls
	}
	if config.EgressLookup != nil {
		through, err := config.EgressLookup(egressselector.Etcd.AsNetworkContext())
		if err != nil {
			return nil, err
		}
		if through != nil {
			etcd.DialOptions = append(etcd.DialOptions, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
				return through(ctx, "tcp", address)
			}))
		}
	}
	return clientv3.New(etcd)
}

// etcdLogger is one for all clients: each would make its own, which takes memory.
var etcdLogger = sync.OnceValue(func() *zap.Logger {
	logger, err := logutil.CreateDefaultZapLogger(zap.InfoLevel)
	if err != nil {
		return zap.NewNop()
	}
	return logger.Named("etcd-client")
})

// storage makes the storage of one resource. Upstream's factory would make the client
// itself, with no way to fence what it writes.
func (c *etcdClients) storage(config storagebackend.ConfigForResource, newFunc, newListFunc func() runtime.Object, resourcePrefix string) (storage.Interface, factory.DestroyFunc, error) {
	if config.Type != "" && config.Type != storagebackend.StorageTypeETCD3 {
		return nil, nil, fmt.Errorf("--storage-backend: unknown storage type %q", config.Type)
	}
	client, err := dial(config.Transport, grpc.WithBlock()) //nolint:staticcheck // as upstream waits for etcd
	if err != nil {
		return nil, nil, err
	}
	var compactor etcd3.Compactor
	if config.CompactionInterval > 0 {
		shared, err := c.connect(config.Transport)
		if err != nil {
			_ = client.Close()
			return nil, nil, err
		}
		compactor = etcd3.StartCompactorPerEndpoint(shared, config.CompactionInterval) // one for all
		c.boundHistory(shared)
	}
	return etcdstore.New(client, compactor, config, newFunc, newListFunc, resourcePrefix, func() { _ = client.Close() })
}

// boundHistory bounds the history of an etcd, once, for as long as the process lives, as upstream's compactor does.
func (c *etcdClients) boundHistory(client *clientv3.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bounded.Has(client) {
		return
	}
	c.bounded = c.bounded.Union(sets.New(client))
	go etcdstore.BoundHistory(context.Background(), client)
}

// shared makes storage as storage does, of servers that are never run: on one client of each etcd, which it does not
// compact.
func (c *etcdClients) shared(config storagebackend.ConfigForResource, newFunc, newListFunc func() runtime.Object, resourcePrefix string) (storage.Interface, factory.DestroyFunc, error) {
	client, err := c.connect(config.Transport)
	if err != nil {
		return nil, nil, err
	}
	return etcdstore.New(client, nil, config, newFunc, newListFunc, resourcePrefix, func() {})
}
