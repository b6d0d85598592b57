package standalone

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
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
	"github.com/tenantry/tenantry/internal/server/metrics"
	"github.com/tenantry/tenantry/internal/server/storage"
	"github.com/tenantry/tenantry/internal/statedir"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/sync"
)

// Options say where the state is and how the process is reached.
type Options struct {
	// Dir holds all state. It is created if it is missing.
	Dir string
	// PKIDir, if not empty, has keys and certificates that somebody else keeps, see
	// pki.Load. The server makes no kubeconfig then: it has not the key of the authority of
	// system users.
	PKIDir string
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
	// Server are the options of the API server. Run sets those that follow from the others
	// and from what Dir holds. Its --client-ca-file is a bundle besides the client
	// authority of Dir, and may not issue users of the system tenant.
	Server *server.Options
	// Workloads say how pods of spaces run on the host cluster of Server.Host. Without that they
	// do not.
	Workloads sync.Options
	// Syncer is whether this process makes what is on that cluster. Otherwise another one does.
	Syncer bool
	// Manager configures the manager. Nil is the default.
	Manager *configv1alpha1.ManagerConfiguration
	// RenewPeriod is how often the process looks whether its certificates are about to
	// expire, by default twice a day.
	RenewPeriod time.Duration
	// Waiting, if not nil, is told what a start waits for that takes long. By default that is logged.
	Waiting func(message string)
	// WrapStorage, if not nil, changes what makes the storage of a resource. For tests
	// alone.
	WrapStorage func(storage.RawFunc) storage.RawFunc
}

// NewOptions returns the defaults, but for Dir and Port. There are no options of service
// accounts, whose key is in Dir.
func NewOptions() Options {
	s := server.NewOptions()
	s.Authentication = authentication.NewOptions(kubeoptions.NewBuiltInAuthenticationOptions().
		WithAnonymous().WithBootstrapToken().WithClientCert().WithOIDC().WithRequestHeader().WithTokenFile().WithWebHook())
	return Options{BindAddress: "127.0.0.1", Server: s, Syncer: true, Workloads: sync.Options{MaxNamespaces: sync.DefaultMaxNamespaces}}
}

// Running is what callers get to know when everything is ready.
type Running struct {
	// Address is the host and port at which the API server is reached.
	Address string
	// AdminKubeconfig is the file with the credentials of a system administrator. It is
	// empty with Options.PKIDir.
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
	var err error
	if o.Workloads.APIAddress, err = o.podsAPI(); err != nil {
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
	if o.Server.Search != nil {
		o.Server.Search.Dir = dir.Search()
	}
	keys, err := o.keys(dir.PKI())
	if err != nil {
		dir.Release()
		return err
	}
	store, err := etcd.Start(ctx, etcd.Options{
		Dir: dir.Etcd(), ListenClientURL: o.EtcdListenClientURL, QuotaBackendBytes: o.EtcdQuotaBackendBytes, UnsafeNoFsync: o.UnsafeNoFsync, Waiting: o.Waiting,
	})
	if err != nil {
		dir.Release()
		return err
	}
	ended := make(chan error, 1)
	go func() {
		err := o.runOn(ctx, store, keys, func() error {
			running := Running{Address: address, Keys: keys, Etcd: store.Client()}
			if o.PKIDir == "" {
				running.AdminKubeconfig = dir.AdminKubeconfig()
				if err := writeAdmin(running.AdminKubeconfig, address, keys); err != nil {
					return err
				}
			}
			return ready(running)
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

// keys returns those in dir, which are made there, or those of PKIDir.
func (o Options) keys(dir string) (*pki.PKI, error) {
	if o.PKIDir != "" {
		return pki.Load(o.PKIDir)
	}
	keys, err := pki.Ensure(dir, o.certifiedHosts()...)
	return keys, statedir.Explain(dir, err)
}

// runOn runs the server and the controllers on a store until ctx ends.
func (o Options) runOn(ctx context.Context, store *etcd.Server, keys *pki.PKI, ready func() error) error {
	s, err := o.newServer(ctx, keys, store)
	if err != nil {
		return err
	}
	renewing, stop := context.WithCancel(ctx)
	defer stop()
	if o.PKIDir == "" {
		go o.renew(renewing, keys)
	}
	return Serve(ctx, s,
		func(ctx context.Context) error { return o.syncWorkloads(ctx, s) },
		func(ctx context.Context) error { return kubecontrollers.Run(ctx, s) },
		func(ctx context.Context) error {
			reconciling.Show(manager.Metrics())
			return manager.Run(ctx, s.LoopbackConfig(), manager.Options{
				DefaultTenant: tenant.Name(o.Server.DefaultTenant), Config: o.Manager, ShowMetrics: managing.Show,
				KeystoneConfig: o.Server.Authentication.KeystoneConfig,
			})
		},
		func(context.Context) error { return ready() })
}

// hostPeriod is after how long it is tried again to run pods on the host cluster.
const hostPeriod = 5 * time.Second

// syncs reports whether this process makes what is on a host cluster.
func (o Options) syncs() bool { return o.Server.Host.IsSet() && o.Syncer }

// syncWorkloads runs pods of spaces on the host cluster, if there is one, until ctx ends. What keeps it from that
// keeps nobody from the API.
func (o Options) syncWorkloads(ctx context.Context, s *server.Server) error {
	if !o.syncs() {
		return nil
	}
	options := o.Workloads
	options.Spaces, options.Informers, options.Connects = s.LoopbackConfig(), s.Informers(), true
	var err error
	if options.Host, err = o.Server.Host.Config(); err != nil {
		return err
	}
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := sync.Run(ctx, options); err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "Pods do not run on the host cluster; trying again")
		}
	}, hostPeriod)
	return nil
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

// validate names the flag whose value cannot work, before anything is made.
func (o Options) validate() error {
	if quota := o.EtcdQuotaBackendBytes; quota > 0 && quota < etcd.MinQuotaBackendBytes {
		return fmt.Errorf("--etcd-quota-backend-bytes is %d, and must be at least %d, or 0 for the default, or negative for no quota", quota, etcd.MinQuotaBackendBytes)
	}
	if quota := o.EtcdQuotaBackendBytes; quota > etcd.MaxQuotaBackendBytes {
		return fmt.Errorf("--etcd-quota-backend-bytes is %d, and must be at most %d, or negative for no quota", quota, etcd.MaxQuotaBackendBytes)
	}
	if o.syncs() {
		if _, err := o.Server.Host.Config(); err != nil {
			return err
		}
		if err := o.Workloads.Validate(); err != nil {
			return err
		}
	}
	for _, name := range o.TLSNames {
		if err := checkTLSName(name); err != nil {
			return fmt.Errorf("--tls-san: %w", err)
		}
	}
	switch {
	case o.PKIDir == "":
		return nil
	case len(o.TLSNames) > 0:
		return errors.New("--tls-san is for a certificate that this process makes: with --pki-dir, leave it out and have the name in server.crt there")
	case o.Server.Authentication.Upstream.ClientCert.ClientCA != "":
		return errors.New("--client-ca-file cannot be used with --pki-dir: add its authorities to client-ca.crt there")
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
	if err := server.CheckBindAddress(ip); err != nil {
		return "", err
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
	options, kube := o.Server, o.Server.Kube
	options.WorkloadsAPIAddress = o.Workloads.APIAddress
	options.EtcdClient = store.Client
	options.RawStorage = store.Storage
	if o.WrapStorage != nil {
		options.RawStorage = o.WrapStorage(options.RawStorage)
	}
	store.Transport(&kube.Etcd.StorageConfig.Transport)
	kube.SecureServing.BindPort = o.Port
	kube.SecureServing.BindAddress = net.ParseIP(o.BindAddress)
	if err := o.advertise(kube); err != nil {
		return nil, err
	}
	use(keys, options)
	if o.Manager != nil {
		options.Publishable = o.Manager.Publishable
	}
	return NewServer(ctx, options)
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

// managing and reconciling are the places of the manager's metrics among those of the
// process.
var managing, reconciling metrics.Replaceable
