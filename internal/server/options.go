package server

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	configv1alpha1 "github.com/tenantry/tenantry/api/config/v1alpha1"
	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/process/memory"
	"github.com/tenantry/tenantry/internal/search"
	"github.com/tenantry/tenantry/internal/server/admission"
	"github.com/tenantry/tenantry/internal/server/audit"
	"github.com/tenantry/tenantry/internal/server/authentication"
	"github.com/tenantry/tenantry/internal/server/egress"
	"github.com/tenantry/tenantry/internal/server/flowcontrol"
	tenantregistry "github.com/tenantry/tenantry/internal/server/registry/tenant"
	"github.com/tenantry/tenantry/internal/server/storage"
	"github.com/tenantry/tenantry/internal/server/usage"
	"github.com/tenantry/tenantry/internal/signing"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/hostclient"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// Options are the flags of the API server: upstream's, and those of tenancy.
type Options struct {
	asGiven

	// Kube are the options of kube-apiserver.
	Kube *options.ServerRunOptions
	// DefaultTenant is the tenant of users whose credentials carry none. Empty
	// (the default) refuses them.
	DefaultTenant string
	// Authentication says where users and their tenants come from. Its upstream
	// options are those of Kube.
	Authentication authentication.Options
	// TenantCacheTotalBytes is what all objects of all spaces may take together. Zero is no bound, and -1 half of what
	// the process may use.
	TenantCacheTotalBytes int64
	// Publishable are the resources of which objects can be published, as the manager's
	// configuration has them. Publishing others is answered with a warning.
	Publishable []string
	// HostTenantLimits is the file of a TenantLimitsConfiguration: the most that Tenants of a host
	// cluster may ask for. Without one there are no limits.
	HostTenantLimits string
	// Host are the credentials of the ServiceAccount by which the server connects to the pods of spaces on a
	// host cluster, which something else runs there. Without them (the default) pods do not run.
	Host hostclient.Credentials
	// WorkloadsAPIAddress is the IP address and port by which pods on that cluster reach the API, which the Service
	// kubernetes of every space shows. If it is empty, that has an address of the system space.
	WorkloadsAPIAddress string
	// Search, if set, has the server answer searches.
	Search *search.Options
	// SearchServers, if there are some, have searches answered by other processes.
	SearchServers search.RemoteOptions
	// SearchLimits bound the searches of a tenant.
	SearchLimits search.Limits
}

// asGiven are the options that nothing completes: the parts of the server get them as they are.
type asGiven struct {
	// RootCAFile is the bundle by which pods verify the server, published in
	// every namespace. Defaults to the serving certificate.
	RootCAFile string
	// FlowControl says how tenants share this server.
	FlowControl flowcontrol.Options
	// Egress is how webhooks of tenants are reached.
	Egress egress.Options
	// Usage says how much detail the metrics of tenants have.
	Usage usage.Options
	// Signing is the authority by which approved CertificateSigningRequests are signed.
	// Without files, none is.
	Signing signing.Config
	// WatchCacheHistoryBytes is what all watch caches may keep of the past. Zero is no bound.
	WatchCacheHistoryBytes int64
	// TenantCacheBytes is what the definitions, policies and custom resources of a space may take, in bytes of memory.
	// Zero is no bound but that of all.
	TenantCacheBytes int64
	// QuotaSettle is how long a tenant must be quiet before its use is recounted.
	// Zero is a little more than requests can take.
	QuotaSettle time.Duration
	// EtcdClaim names this control plane in the etcds that it stores in, see etcdstore.Claim:
	// the server does not start where another one is. Empty (the default) looks at nothing.
	EtcdClaim string
	// SearchOnly is for NewSearch: nothing has a cache, and nothing but searches is served.
	SearchOnly bool
	// EtcdClient connects to etcd for verifying the end of spaces. By default a
	// client with the flags' addresses and credentials.
	EtcdClient func() *clientv3.Client
	// RawStorage makes the storage of a resource. By default it is upstream's, by
	// clients with the flags' addresses and credentials.
	RawStorage storage.RawFunc
}

// NewOptions returns the defaults.
func NewOptions() *Options {
	kube := options.NewServerRunOptions()
	kube.Authorization.Modes = []string{"Node", "RBAC"}
	// Watches end with the server; without a grace period it waits a minute for them.
	kube.GenericServerRunOptions.ShutdownWatchTerminationGracePeriod = 5 * time.Second
	admission.Register(kube.Admission)
	audit.SetDefaults(kube.Audit)
	return &Options{
		asGiven: asGiven{FlowControl: flowcontrol.NewOptions(), Usage: usage.NewOptions(), Signing: signing.Config{Duration: 365 * 24 * time.Hour},
			WatchCacheHistoryBytes: 256 << 20, TenantCacheBytes: 512 << 20},
		Kube: kube, Authentication: authentication.NewOptions(kube.Authentication), Publishable: configv1alpha1.DefaultPublishable(), TenantCacheTotalBytes: -1,
		SearchLimits: search.DefaultLimits,
	}
}

// Flags returns the flags by section.
func (o *Options) Flags() cliflag.NamedFlagSets {
	sets := o.Kube.Flags()
	sets.FlagSet("auditing").Lookup("audit-policy-file").Usage += " It holds where Tenant.spec.auditPolicy does not say otherwise; without it, nothing is logged of any tenant."
	mode := sets.FlagSet("authorization").Lookup("authorization-mode")
	mode.Usage = strings.Replace(mode.Usage, "Defaults to AlwaysAllow if --authorization-config is not used. ", "Without effect if --authorization-config is used. ", 1)
	fs := sets.FlagSet("tenancy")
	fs.StringVar(&o.DefaultTenant, "default-tenant", o.DefaultTenant,
		"Tenant of users whose credentials carry no tenant. It is created if it is missing. "+
			"If empty, such users are refused.")
	fs.StringVar(&o.EtcdClaim, "etcd-claim", o.EtcdClaim,
		"Name of this control plane among all that store in the same etcd. The first server writes it below --etcd-prefix if nothing is there. "+
			"A server that finds another name, or what nobody has claimed, does not start. If empty, nothing is looked at.")
	fs.StringVar(&o.RootCAFile, "root-ca-file", o.RootCAFile,
		"Bundle by which pods verify the server. It is published as kube-root-ca.crt in every namespace. "+
			"Defaults to the serving certificate.")
	fs.StringVar(&o.Authentication.SystemClientCAFile, "system-client-ca-file", o.Authentication.SystemClientCAFile,
		"Bundle of the authorities that may issue client certificates of the system tenant (O=tenant:system, CN=system:...). "+
			"If it is set, those of --client-ca-file may not.")
	fs.StringSliceVar(&o.Publishable, "publishable-resources", o.Publishable,
		"Resources of which objects can be published, as \"resource\" or \"resource.group\": what publishable says in the configuration of \"tenantry manager\". "+
			"It decides about nothing but a warning to those who publish something else.")
	fs.StringVar(&o.Signing.CertFile, "cluster-signing-cert-file", o.Signing.CertFile,
		"Authority, one of --client-ca-file or --system-client-ca-file, by which approved CertificateSigningRequests are signed, in every space: "+
			"kubernetes.io/kube-apiserver-client for users of the space's own tenant. If empty, none is.")
	fs.StringVar(&o.Signing.KeyFile, "cluster-signing-key-file", o.Signing.KeyFile, "Key of --cluster-signing-cert-file.")
	fs.DurationVar(&o.Signing.Duration, "cluster-signing-duration", o.Signing.Duration,
		"For how long certificates are signed at most, and where spec.expirationSeconds does not say.")
	o.Host.AddFlags(fs, "Kubeconfig of the host cluster that runs the pods of spaces, for its ServiceAccount connect (config/workloads): by it logs are read, commands run in pods, and Services made. "+
		"What such a cluster must not get is refused in spaces. Without it, or --host-in-cluster, pods do not run, and stay pending. It needs \"tenantry syncer\" as well.")
	fs.StringVar(&o.WorkloadsAPIAddress, "workloads-api-address", o.WorkloadsAPIAddress,
		"IP address and port by which pods on the host cluster reach the API of their spaces, as \"tenantry syncer\" has it: the Service kubernetes of every space has it.")
	fs.StringSliceVar(&o.SearchServers.Servers, "search-servers", nil,
		"URLs of \"tenantry search\", https://HOST:PORT, which answer the searches of this server's users (tenantry find). They know it by --proxy-client-cert-file. Without one there are no searches.")
	fs.StringVar(&o.SearchServers.CAFile, "search-ca-file", "", "Bundle of the authorities of the certificates of --search-servers.")
	o.AddSearchFlags(fs)
	o.AddHostFlags(fs)
	o.AddCacheFlags(fs)
	o.Authentication.AddFlags(fs)
	o.FlowControl.AddFlags(fs)
	o.Egress.AddFlags(fs)
	o.Usage.AddFlags(fs)
	return sets
}

// AddHostFlags adds the flags for what the operator of a host cluster writes.
func (o *Options) AddHostFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.HostTenantLimits, "host-tenant-limits-config", o.HostTenantLimits,
		"File with the most that Tenants may ask for which the operator of a host cluster, the system user "+v1alpha1.HostOperator+", writes, "+
			"a TenantLimitsConfiguration of config.tenantry.io/v1alpha1. No limits if empty.")
}

// AddSearchFlags adds the limits of searches.
func (o *Options) AddSearchFlags(fs *pflag.FlagSet) {
	limits := &o.SearchLimits
	fs.IntVar(&limits.Rows, "search-max-items", limits.Rows, "How many objects are in one page of the answer to a search at most.")
	fs.DurationVar(&limits.Time, "search-timeout", limits.Time, "What a search takes at most, with all that it waits for, 1s to 1m. Then it is answered with 503.")
	fs.IntVar(&limits.Concurrency, "search-concurrency", limits.Concurrency,
		"How many searches of a tenant, or of one user of the system, run at once, 1 to 8. Others wait.")
	fs.Int64Var(&limits.SocketBytes, "search-socket-bytes", limits.SocketBytes,
		"Bytes of memory that subscriptions and unread answers by web socket hold at most, of all tenants together. Beyond it a connection of the tenant that holds the most is ended, or refused with 429.")
}

// AddCacheFlags adds the flags of watch caches that are not upstream's.
func (o *Options) AddCacheFlags(fs *pflag.FlagSet) {
	fs.Int64Var(&o.WatchCacheHistoryBytes, "watch-cache-history-bytes", o.WatchCacheHistoryBytes,
		"Bytes of memory that all watch caches may keep of what objects were, for clients that resume watches. "+
			"Beyond it, the cache that keeps the most drops it: watches that are open go on, and those who resume one list again. 0 is no limit.")
	fs.Int64Var(&o.TenantCacheBytes, "tenant-cache-bytes", o.TenantCacheBytes,
		"Bytes of memory that the definitions and policies of a tenant may take, with what policies read, and its custom resources in watch caches, in all versions of these, together with what other "+
			"objects take beyond three times their bytes. Beyond it, none of these is created or becomes larger. 0 is no limit but --tenant-cache-total-bytes.")
	fs.Int64Var(&o.TenantCacheTotalBytes, "tenant-cache-total-bytes", o.TenantCacheTotalBytes,
		"The same of all tenants together, and three times the bytes that they have stored. A tenant may take as much as is left, and when nothing is, a 64th more than it has. 0 is no limit, "+
			"-1 is half of the memory that the process may use: of GOMEMLIMIT, seven eighths of its container's limit, or the machine's memory, whichever is the least, and no limit where nothing says so.")
}

// CompletedOptions can be validated and run.
type CompletedOptions struct {
	asGiven

	kube options.CompletedOptions
	// authentication has the upstream options of kube.
	authentication  authentication.Options
	totalCacheBytes int64
	defaultTenant   tenant.Name
	publishable     []schema.GroupResource
	hostLimits      *v1alpha1.TenantLimits
	search          *search.Options
	// tokenKeys are those of service accounts, nil with an external signer.
	tokenKeys *authentication.TokenKeys
	// host is nil if pods do not run, and podsAPI is where they reach the server.
	host    *rest.Config
	podsAPI netip.AddrPort
}

// Complete fills in defaults that depend on other options.
func (o *Options) Complete(ctx context.Context) (CompletedOptions, error) {
	completed := CompletedOptions{asGiven: o.asGiven, totalCacheBytes: o.TenantCacheTotalBytes}
	if o.TenantCacheTotalBytes == -1 {
		completed.totalCacheBytes = memory.Available() / 2
	}
	if err := configv1alpha1.ValidatePublishable(o.Publishable); err != nil {
		return completed, fmt.Errorf("--publishable-resources: %w", err)
	}
	for _, name := range o.Publishable {
		completed.publishable = append(completed.publishable, schema.ParseGroupResource(name))
	}
	var err error
	if completed.hostLimits, err = tenantregistry.LoadHostLimits(ctx, o.HostTenantLimits); err != nil {
		return completed, fmt.Errorf("--host-tenant-limits-config: %w", err)
	}
	if completed.host, err = o.Host.Config(); err != nil {
		return completed, err
	}
	if completed.host != nil {
		o.Kube.AllowPrivileged = true // each Tenant's Pod Security level decides
		if completed.podsAPI, err = translate.ParseAPI(o.WorkloadsAPIAddress); err != nil {
			return completed, fmt.Errorf("--workloads-api-address: %w", err)
		}
	} else if o.WorkloadsAPIAddress != "" {
		return completed, errors.New("--workloads-api-address is for --host-kubeconfig or --host-in-cluster, and both are missing")
	}
	if o.DefaultTenant != "" {
		name, err := tenant.Parse(o.DefaultTenant)
		if err != nil {
			return completed, fmt.Errorf("--default-tenant: %w", err)
		}
		if !name.IsSpace() {
			return completed, fmt.Errorf("--default-tenant: %q is reserved", name)
		}
		completed.defaultTenant = name
	}
	if err := checkModes(o.Kube.Authorization); err != nil {
		return completed, err
	}
	if err := o.checkFiles(); err != nil {
		return completed, err
	}
	if serving := o.Kube.SecureServing; serving.Listener == nil && serving.BindPort > 0 {
		if err := CheckBindAddress(serving.BindAddress); err != nil {
			return completed, err
		}
	}
	kube, err := o.Kube.Complete(ctx)
	if err != nil {
		return completed, err
	}
	completed.kube, completed.search, completed.authentication = kube, o.searches(), o.Authentication
	err = completed.readTokenKeys()
	completed.authentication.Upstream = completed.kube.Authentication
	return completed, err
}

// readTokenKeys has the keys of service accounts read again when their files change. Upstream, which
// reads them once, is given them as it is given those of an external signer.
func (o *CompletedOptions) readTokenKeys() error {
	accounts := o.kube.Authentication.ServiceAccounts
	if accounts == nil || len(accounts.KeyFiles) == 0 {
		return nil
	}
	var err error
	if o.tokenKeys, err = authentication.OpenTokenKeys(o.kube.ServiceAccountSigningKeyFile, accounts.KeyFiles); err != nil {
		return err
	}
	upstream, read := *o.kube.Authentication, *accounts // the given ones stay as they are
	read.KeyFiles, read.ExternalPublicKeysGetter = nil, o.tokenKeys
	upstream.ServiceAccounts = &read
	o.kube.Authentication = &upstream
	return nil
}

// searches returns the options of searches, nil if there are none.
func (o *Options) searches() *search.Options {
	remote := o.SearchServers
	if o.Search == nil && !remote.Enabled() && remote.CAFile == "" {
		return nil
	}
	remote.CertFile, remote.KeyFile = o.Kube.ProxyClientCertFile, o.Kube.ProxyClientKeyFile
	options := search.Options{}
	if o.Search != nil {
		options = *o.Search
	}
	if o.Search == nil {
		options.Remote = remote
	}
	options.Limits = o.SearchLimits
	return &options
}

// leastCacheBytes is the least bound of what objects take in watch caches: that of usual ones is some kilobytes each.
const leastCacheBytes = 16 << 20

// Validate reports what is wrong with the options.
func (o CompletedOptions) Validate() []error {
	trusted := []string{o.authentication.SystemClientCAFile}
	if clients := o.authentication.Upstream.ClientCert; clients != nil {
		trusted = append(trusted, clients.ClientCA)
	}
	errs := slices.Concat(o.kube.Validate(), o.authentication.Validate(), o.FlowControl.Validate(), o.Usage.Validate(), o.Signing.Validate(trusted...))
	if o.WatchCacheHistoryBytes < 0 {
		errs = append(errs, fmt.Errorf("--watch-cache-history-bytes: %d is negative", o.WatchCacheHistoryBytes))
	}
	if o.TenantCacheBytes != 0 && o.TenantCacheBytes < leastCacheBytes {
		errs = append(errs, fmt.Errorf("--tenant-cache-bytes: %d is less than %d, of which an object has an eighth; 0 is no limit but --tenant-cache-total-bytes", o.TenantCacheBytes, leastCacheBytes))
	}
	if total := o.totalCacheBytes; total != 0 && total < leastCacheBytes {
		errs = append(errs, fmt.Errorf("--tenant-cache-total-bytes: %d is less than %d; 0 is no limit, and -1 half of the process's memory", total, leastCacheBytes))
	}
	if o.search != nil {
		errs = append(errs, o.search.Validate()...)
	}
	for _, err := range []error{validateNodes(o.kube.Authorization, o.kube.Admission), admission.ValidateSpaces(o.kube.Admission)} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return append(errs, validateFeatures()...)
}
