package server

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	apiextensionsoptions "k8s.io/apiextensions-apiserver/pkg/cmd/server/options"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	upstreamaudit "k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"github.com/tenantry/tenantry/internal/etcdstore"
	"github.com/tenantry/tenantry/internal/server/filters"
	"github.com/tenantry/tenantry/internal/server/registry/accesspolicy"
	"github.com/tenantry/tenantry/internal/server/registry/keystonesync"
	"github.com/tenantry/tenantry/internal/server/registry/publishedobject"
	tenantregistry "github.com/tenantry/tenantry/internal/server/registry/tenant"
	"github.com/tenantry/tenantry/internal/server/registry/user"
	"github.com/tenantry/tenantry/internal/server/storage"
	"github.com/tenantry/tenantry/internal/tenant"
)

// stores is what is where in etcd, and the storage of what the server itself reads.
type stores struct {
	// connect connects to an etcd.
	connect func(storagebackend.TransportConfig) (*clientv3.Client, error)
	// spaces is what the storage of every resource has in common.
	spaces    storage.RESTOptionsGetter
	deletions *tenantregistry.Deletions
	tenants   *tenantregistry.Storage
	lookup    *tenantregistry.Lookup
	// reports are about published objects.
	reports *publishedobject.REST
	// users are the Users of all spaces.
	users *user.Index
}

// newStores creates the storage of Tenants and reports, which authentication,
// authorization and admission ask, and which is there before them. So their storage does
// not ask who may publish an object, as that of other resources does: admission alone does.
func newStores(ctx context.Context, opts CompletedOptions, b *base) (*stores, error) {
	// The types of Tenantry have no protobuf and are stored as JSON.
	for _, resource := range []schema.GroupResource{tenantregistry.Resource, accesspolicy.Resource, publishedobject.Resource, keystonesync.Resource, user.Resource} {
		b.storage.SetSerializer(resource, runtime.ContentTypeJSON, nil)
	}
	uncached, err := storage.Uncached(opts.kube.Etcd)
	if err != nil {
		return nil, fmt.Errorf("--watch-cache-sizes: %w", err)
	}
	etcd, configs := &etcdClients{embedded: opts.EtcdClient}, b.storage.Configs()
	if opts.EtcdClaim != "" {
		if err := etcd.claim(ctx, configs, opts.EtcdClaim); err != nil {
			return nil, err
		}
	}
	raw := opts.RawStorage
	switch {
	case raw == nil && opts.SearchOnly:
		raw = etcd.shared
	case raw == nil:
		raw = etcd.storage
	}
	custom := apiextensionsoptions.NewCRDRESTOptionsGetter(*opts.kube.Etcd, b.generic.ResourceTransformers, b.generic.StorageObjectCountTracker)
	s := &stores{
		connect: etcd.connect,
		spaces: storage.RESTOptionsGetter{
			Of: tenant.Everything, Raw: raw, Uncached: uncached, Uncaching: opts.SearchOnly, Ranges: &storage.Ranges{Client: etcd.connect, Custom: custom}, Counts: &storage.Counts{},
			Histories: storage.NewHistories(opts.WatchCacheHistoryBytes), CacheMemory: storage.NewCacheMemory(opts.TenantCacheBytes, opts.totalCacheBytes), Events: storage.NewEventBudget(),
		},
		deletions: &tenantregistry.Deletions{
			Client:  func() (*clientv3.Client, error) { return etcd.connect(b.storage.StorageConfig.Transport) },
			Clients: func() ([]*clientv3.Client, error) { return etcd.connectAll(configs) },
			Prefix:  b.storage.StorageConfig.Prefix,
		},
		users: user.NewIndex(),
	}
	options := s.over(b.generic.RESTOptionsGetter)
	if s.tenants, err = tenantregistry.NewStorage(legacyscheme.Scheme, options, s.spaces.Ranges, s.deletions, opts.hostLimits); err != nil {
		return nil, fmt.Errorf("creating the storage of tenants: %w", err)
	}
	s.lookup = tenantregistry.NewLookup(s.tenants)
	s.lookup.ServeMetrics()
	if s.reports, err = publishedobject.NewREST(legacyscheme.Scheme, options); err != nil {
		return nil, fmt.Errorf("creating the storage of reports about published objects: %w", err)
	}
	return s, nil
}

// over returns the storage of spaces over upstream's options.
func (s *stores) over(upstream generic.RESTOptionsGetter) *storage.RESTOptionsGetter {
	options := s.spaces
	options.RESTOptionsGetter = upstream
	return &options
}

// closed returns why the space of n takes no new objects, if it takes none. The
// tenant may have gone, or have been followed by another one of its name, while
// the request waited for a webhook.
func (s *stores) closed(ctx context.Context, n tenant.Name) error {
	return s.stillOpen(ctx, n, filters.Terminating)
}

// frozen returns why users of the space of n change nothing in it any more, if it is being emptied.
func (s *stores) frozen(ctx context.Context, n tenant.Name) error {
	return s.stillOpen(ctx, n, filters.Ending)
}

func (s *stores) stillOpen(ctx context.Context, n tenant.Name, refuse func(tenant.Name) error) error {
	state, exists, err := s.lookup.Get(ctx, n)
	switch {
	case err != nil:
		return apierrors.NewInternalError(err)
	case !exists || state.Terminating:
		return refuse(n)
	default:
		return ctx.Err()
	}
}

// fence returns what keeps requests for one tenant out of the space of the next one of
// its name, and makes them see what closed says of it.
func (s *stores) fence(n tenant.Name, uid types.UID) etcdstore.Fence {
	return s.deletions.Fence(n, uid, filters.Terminating)
}

// oldestRevision implements storage.OldestRevisionFunc. Who took no earlier tenant's name is known without etcd.
func (s *stores) oldestRevision(ctx context.Context, transport storagebackend.TransportConfig, n tenant.Name, namespace string) (int64, error) {
	state, _, err := s.lookup.Get(ctx, n)
	if err != nil || state.CredentialsNotBefore.IsZero() && namespace == "" {
		return 0, err
	}
	etcd, err := s.connect(transport)
	if err != nil {
		return 0, err
	}
	return s.deletions.OldestRevision(ctx, etcd, n, namespace)
}

// uid returns the UID of a tenant, empty if there is none.
func (s *stores) uid(ctx context.Context, n tenant.Name) (types.UID, error) {
	state, _, err := s.lookup.Get(ctx, n)
	return state.UID, err
}

// inService returns the UID of a tenant whose users may act in other spaces, and
// false for one that is unknown, suspended or being deleted.
func (s *stores) inService(ctx context.Context, n tenant.Name) (types.UID, bool) {
	state, exists, err := s.lookup.Get(ctx, n)
	return state.UID, err == nil && exists && !state.Terminating && !state.Suspended
}

// credentialsSince returns when a tenant took the name of an earlier one.
func (s *stores) credentialsSince(ctx context.Context, n tenant.Name) (time.Time, error) {
	state, _, err := s.lookup.Get(ctx, n)
	return state.CredentialsNotBefore, err
}

// auditTimeout is for how long an audit event waits for the storage of Tenants, which
// answers from memory once the server is ready.
const auditTimeout = 5 * time.Second

// auditPolicy returns the audit policy of a user's tenant, nil if it has none.
func (s *stores) auditPolicy(n tenant.Name) upstreamaudit.PolicyRuleEvaluator {
	ctx, cancel := context.WithTimeout(context.Background(), auditTimeout)
	defer cancel()
	state, _, err := s.lookup.Get(ctx, n)
	if err != nil {
		return nil // the server's holds
	}
	return state.AuditPolicy
}
