package standalone

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"

	configv1alpha1 "github.com/tenantry/tenantry/api/config/v1alpha1"
	"github.com/tenantry/tenantry/internal/atomicfile"
	"github.com/tenantry/tenantry/internal/etcd"
	"github.com/tenantry/tenantry/internal/kubeconfig"
	"github.com/tenantry/tenantry/internal/kubecontrollers"
	"github.com/tenantry/tenantry/internal/manager"
	"github.com/tenantry/tenantry/internal/pki"
	"github.com/tenantry/tenantry/internal/server"
	"github.com/tenantry/tenantry/internal/server/authentication"
	"github.com/tenantry/tenantry/internal/server/egress"
	"github.com/tenantry/tenantry/internal/server/flowcontrol"
	"github.com/tenantry/tenantry/internal/server/metrics"
	"github.com/tenantry/tenantry/internal/server/storage"
	"github.com/tenantry/tenantry/internal/server/usage"
	"github.com/tenantry/tenantry/internal/statedir"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Options say where the state is and how the process is reached.
type Options struct {
	// Dir holds all state. It is created if it is missing.
	Dir string
	// BindAddress and Port are where the API server listens.
	BindAddress string
	Port        int
	// AdvertiseAddress is the IP address by which pods reach the API server. By
	// default it is BindAddress or, if that is a loopback address or all of them, that
	// of the default route. Without any, pods do not find the server.
	AdvertiseAddress string
	// TLSNames are further host names and IP addresses by which clients reach the
	// server. Its certificate carries them.
	TLSNames []string
	// EtcdListenClientURL, if not empty, is an address for etcd clients, without
	// authentication: http://IP:PORT or unix:///PATH.
	EtcdListenClientURL string
	// EtcdQuotaBackendBytes is the size of etcd's database, in bytes, from which on
	// nothing is written but deletions: etcd.MinQuotaBackendBytes or more. 0 is
	// etcd.DefaultQuotaBackendBytes, less is no quota.
	EtcdQuotaBackendBytes int64
	// UnsafeNoFsync trades durability for speed. For tests alone.
	UnsafeNoFsync bool
	// DefaultTenant is the tenant of users whose credentials carry none.
	DefaultTenant string
	// Authentication says where further users come from. Nil is the default. Its
	// --client-ca-file is a bundle besides the client authority of Dir, and may
	// not issue users of the system tenant.
	Authentication *authentication.Options
	// Authorization says how it is decided what users may do. Nil is the default.
	Authorization *kubeoptions.BuiltInAuthorizationOptions
	// AuditPolicyFile and AuditLogPath are as in kube-apiserver.
	AuditPolicyFile string
	AuditLogPath    string
	// AdmissionConfigFile configures admission plugins, as in kube-apiserver.
	AdmissionConfigFile string
	// Manager configures the operator. Nil is the default.
	Manager *configv1alpha1.ManagerConfiguration
	// FlowControl says how tenants share the server. Nil is the default.
	FlowControl *flowcontrol.Options
	// Egress is how webhooks of tenants are reached. Nil is the default.
	Egress *egress.Options
	// Usage says how much detail the metrics of tenants have. Nil is the default.
	Usage *usage.Options
	// QuotaSettle is how long a tenant must be quiet before its use is recounted, by
	// default a little more than requests can take. For tests alone.
	QuotaSettle time.Duration
	// RenewPeriod is how often the process looks whether its certificates are about to
	// expire, by default twice a day.
	RenewPeriod time.Duration
	// ObjectCountPeriod is how often objects are counted for estimates of what
	// lists cost, upstream's minute by default. For tests alone.
	ObjectCountPeriod time.Duration
	// WrapStorage, if not nil, changes what makes the storage of a resource. For tests
	// alone.
	WrapStorage func(storage.RawFunc) storage.RawFunc
}

// NewAuthentication returns the defaults of Options.Authentication.
func NewAuthentication() *authentication.Options {
	options := authentication.NewOptions(kubeoptions.NewBuiltInAuthenticationOptions().
		WithAnonymous().WithBootstrapToken().WithClientCert().WithOIDC().WithRequestHeader().WithTokenFile().WithWebHook())
	return &options
}

// NewAuthorization returns the defaults of Options.Authorization.
func NewAuthorization() *kubeoptions.BuiltInAuthorizationOptions {
	return server.NewOptions().Kube.Authorization
}

// Running is what callers get to know when everything is ready.
type Running struct {
	// Address is the host and port at which the API server is reached.
	Address string
	// AdminKubeconfig is the file with the credentials of a system administrator.
	AdminKubeconfig string
	// Keys sign the certificates of further users.
	Keys *pki.PKI
	// Etcd is a client of the store of all objects. It lives as long as Run.
	Etcd *clientv3.Client
}

// Run holds the directory and runs everything in it until ctx ends. It calls
// ready once, when requests are answered and the admin's kubeconfig is written;
// an error of ready ends it. When the storage fails, Run returns at once and leaves
// the rest as it is, directory included: what waits for the storage would wait for
// ever. The process must end then.
func Run(ctx context.Context, o Options, ready func(Running) error) error {
	if err := o.validate(); err != nil {
		return err
	}
	address, err := o.checkAddress()
	if err != nil {
		return err
	}
	dir, err := statedir.Acquire(o.Dir)
	if err != nil {
		return err
	}
	keys, err := pki.Ensure(dir.PKI(), append(slices.Clone(o.TLSNames), o.BindAddress)...)
	if err != nil {
		dir.Release()
		return statedir.Explain(dir.PKI(), err)
	}
	store, err := etcd.Start(ctx, etcd.Options{
		Dir: dir.Etcd(), ListenClientURL: o.EtcdListenClientURL, QuotaBackendBytes: o.EtcdQuotaBackendBytes, UnsafeNoFsync: o.UnsafeNoFsync,
	})
	if err != nil {
		dir.Release()
		return err
	}
	ended := make(chan error, 1)
	go func() {
		err := o.runOn(ctx, store, keys, func() error {
			if err := writeAdmin(dir.AdminKubeconfig(), address, keys); err != nil {
				return err
			}
			return ready(Running{Address: address, AdminKubeconfig: dir.AdminKubeconfig(), Keys: keys, Etcd: store.Client()})
		})
		store.Stop()
		dir.Release()
		ended <- err
	}()
	select {
	case err := <-ended:
		return err
	case err := <-store.Failed():
		return err
	}
}

// runOn runs the server and the controllers on a store until ctx ends.
func (o Options) runOn(ctx context.Context, store *etcd.Server, keys *pki.PKI, ready func() error) error {
	s, err := o.newServer(ctx, keys, store)
	if err != nil {
		return err
	}
	renewing, stop := context.WithCancel(ctx)
	defer stop()
	go o.renew(renewing, keys)
	return o.serve(ctx, s, ready)
}

// renewPeriod is much less than what a certificate has left when it is renewed.
const renewPeriod = 12 * time.Hour

// renew keeps the certificates of the process good for as long as it runs. What fails is
// tried again in the next period.
func (o Options) renew(ctx context.Context, keys *pki.PKI) {
	wait.UntilWithContext(ctx, func(context.Context) {
		if err := keys.Renew(); err != nil {
			klog.ErrorS(err, "Renewing the certificates of the server", "dir", o.Dir)
		}
	}, cmp.Or(o.RenewPeriod, renewPeriod))
}

// serviceRange has a million addresses: the Services of all spaces share it.
const serviceRange = "10.96.0.0/12"

// validate names the flag whose value cannot work, before anything is made.
func (o Options) validate() error {
	if quota := o.EtcdQuotaBackendBytes; quota > 0 && quota < etcd.MinQuotaBackendBytes {
		return fmt.Errorf("--etcd-quota-backend-bytes is %d, and must be at least %d, or 0 for the default, or negative for no quota", quota, etcd.MinQuotaBackendBytes)
	}
	for _, name := range o.TLSNames {
		if err := checkTLSName(name); err != nil {
			return fmt.Errorf("--tls-san: %w", err)
		}
	}
	return nil
}

func checkTLSName(name string) error {
	if ip := net.ParseIP(name); ip != nil {
		if ip.IsUnspecified() {
			return fmt.Errorf("%q stands for all addresses; name each by which clients reach the server", name)
		}
		return nil
	}
	check := validation.IsDNS1123Subdomain
	if strings.HasPrefix(name, "*") {
		check = validation.IsWildcardDNS1123Subdomain
	}
	if len(check(strings.ToLower(name))) > 0 {
		return fmt.Errorf("%q is neither a host name nor an IP address", name)
	}
	return nil
}

// checkAddress finds out early, and in one line, whether the port is free. It
// returns the address for clients on this machine.
func (o Options) checkAddress() (string, error) {
	ip := net.ParseIP(o.BindAddress)
	if ip == nil {
		return "", fmt.Errorf("--bind-address: %q is not an IP address", o.BindAddress)
	}
	port := strconv.Itoa(o.Port)
	listener, err := net.Listen("tcp", net.JoinHostPort(o.BindAddress, port))
	if err != nil {
		return "", fmt.Errorf("--secure-port: %w", err)
	}
	if err := listener.Close(); err != nil {
		return "", err
	}
	if ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port), nil
	}
	return net.JoinHostPort(o.BindAddress, port), nil
}

func (o Options) newServer(ctx context.Context, keys *pki.PKI, store *etcd.Server) (*server.Server, error) {
	options := server.NewOptions()
	options.DefaultTenant = o.DefaultTenant
	options.EtcdClient = store.Client
	options.RawStorage = store.Storage
	if o.WrapStorage != nil {
		options.RawStorage = o.WrapStorage(options.RawStorage)
	}
	options.RootCAFile = keys.ServerCAFile()
	kube := options.Kube
	store.Transport(&kube.Etcd.StorageConfig.Transport)
	kube.ServiceClusterIPRanges = serviceRange
	kube.SecureServing.BindPort = o.Port
	kube.SecureServing.BindAddress = net.ParseIP(o.BindAddress)
	if err := o.advertise(kube); err != nil {
		return nil, err
	}
	kube.SecureServing.ServerCert.CertKey.CertFile, kube.SecureServing.ServerCert.CertKey.KeyFile = keys.Serving()
	o.applyAuthentication(options, keys)
	if o.Authorization != nil {
		kube.Authorization = o.Authorization
	}
	options.Signing.CertFile, options.Signing.KeyFile = keys.ClientCAFile(), keys.ClientCAKeyFile()
	kube.ServiceAccountSigningKeyFile = keys.ServiceAccountKey()
	kube.ProxyClientCertFile, kube.ProxyClientKeyFile = keys.FrontProxyClient()
	kube.Admission.GenericAdmission.ConfigFile = o.AdmissionConfigFile
	kube.Audit.PolicyFile = o.AuditPolicyFile
	kube.Audit.LogOptions.Path = o.AuditLogPath
	if o.ObjectCountPeriod > 0 {
		kube.Etcd.StorageConfig.CountMetricPollPeriod = o.ObjectCountPeriod
	}
	options.QuotaSettle = o.QuotaSettle
	if o.Manager != nil {
		options.Publishable = o.Manager.Publishable
	}
	if o.FlowControl != nil {
		options.FlowControl = *o.FlowControl
	}
	if o.Egress != nil {
		options.Egress = *o.Egress
	}
	if o.Usage != nil {
		options.Usage = *o.Usage
	}
	completed, err := options.Complete(ctx)
	if err != nil {
		return nil, err
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return nil, utilerrors.NewAggregate(errs)
	}
	return server.New(ctx, completed)
}

// applyAuthentication lets the users in that this directory has keys for.
func (o Options) applyAuthentication(options *server.Options, keys *pki.PKI) {
	if o.Authentication != nil {
		options.Authentication = *o.Authentication
		options.Kube.Authentication = o.Authentication.Upstream.WithServiceAccounts()
	}
	upstream := options.Kube.Authentication
	upstream.ServiceAccounts.Issuers = []string{"https://kubernetes.default.svc"}
	upstream.ServiceAccounts.KeyFiles = []string{keys.ServiceAccountKey()}
	if upstream.ClientCert.ClientCA == "" {
		upstream.ClientCert.ClientCA = keys.ClientCAFile()
	} else {
		options.Authentication.SystemClientCAFile = keys.ClientCAFile()
	}
}

func writeAdmin(path, address string, keys *pki.PKI) error {
	admin, err := kubeconfig.New(keys, "https://"+address, kubeconfig.User{
		Tenant: tenant.System, Name: "admin", Groups: []string{"system:masters"},
	})
	if err != nil {
		return err
	}
	return statedir.Explain(filepath.Dir(path), atomicfile.Write(path, admin))
}

// serve runs the server, and the controllers once it is ready.
func (o Options) serve(ctx context.Context, s *server.Server, ready func() error) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.Run(groupCtx) })
	group.Go(func() error {
		if err := s.WaitUntilReady(groupCtx); err != nil {
			return ignoreCanceled(err)
		}
		group.Go(func() error { return ignoreCanceled(kubecontrollers.RunFor(groupCtx, s, false)) })
		reconciling.Show(manager.Metrics())
		group.Go(func() error {
			return manager.Run(groupCtx, s.LoopbackConfig(), manager.Options{
				DefaultTenant: tenant.Name(o.DefaultTenant), Config: o.Manager, ShowMetrics: operator.Show,
			})
		})
		return ready()
	})
	return group.Wait()
}

// operator and reconciling are the places of the operator's metrics among those of the
// process.
var operator, reconciling metrics.Replaceable

func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
