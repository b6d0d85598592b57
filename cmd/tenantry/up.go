package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/tenantry/tenantry/internal/atomicfile"
	"github.com/tenantry/tenantry/internal/etcd"
	"github.com/tenantry/tenantry/internal/kubeconfig"
	"github.com/tenantry/tenantry/internal/manager"
	"github.com/tenantry/tenantry/internal/pki"
	"github.com/tenantry/tenantry/internal/server"
	"github.com/tenantry/tenantry/internal/statedir"
	"github.com/tenantry/tenantry/internal/tenant"
)

// upOptions are the flags of up.
type upOptions struct {
	dir           string
	port          int
	bindAddress   string
	etcdListenURL string
	defaultTenant string
	tokenAuthFile string
	auditPolicy   string
	auditLog      string
}

func newUpCommand() *cobra.Command {
	o := upOptions{dir: ".tenantry", port: 6443, bindAddress: "127.0.0.1"}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run everything in one process",
		Long: `Runs etcd, the API server and the controllers in one process and keeps all
state below one directory. The first start makes keys and certificates.

Two kinds of files are of interest to others:

  DIR/admin.kubeconfig             a system administrator
  DIR/pki/client-ca.{crt,key}      signs certificates of tenants' users`,
		Example: `  # Start, in another terminal create a tenant and work in its space
  tenantry up
  export KUBECONFIG=.tenantry/admin.kubeconfig
  kubectl create -f - <<< '{"apiVersion": "v1", "kind": "Tenant", "metadata": {"name": "acme"}}'
  kubectl wait --for=condition=Ready tenant/acme
  tenantry kubeconfig acme > acme.kubeconfig
  kubectl --kubeconfig acme.kubeconfig get namespaces`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(genericapiserver.SetupSignalContext(), cmd.OutOrStdout())
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.dir, "dir", o.dir, "Directory of all state.")
	fs.IntVar(&o.port, "secure-port", o.port, "Port of the API server.")
	fs.StringVar(&o.bindAddress, "bind-address", o.bindAddress, "IP address of the API server.")
	fs.StringVar(&o.etcdListenURL, "etcd-listen-client-url", "",
		"Address at which etcd listens for other clients, http://IP:PORT or unix:///PATH, without authentication. None by default.")
	fs.StringVar(&o.defaultTenant, "default-tenant", "", "Tenant of users whose credentials carry none. It is created if it is missing.")
	fs.StringVar(&o.tokenAuthFile, "token-auth-file", "", "File of bearer tokens: token,user,uid[,\"groups\"[,other]][,,tenant].")
	fs.StringVar(&o.auditPolicy, "audit-policy-file", "", "Audit policy.")
	fs.StringVar(&o.auditLog, "audit-log-path", "", "File for audit events, - for standard output.")
	addLogFlags(fs)
	return cmd
}

func (o *upOptions) run(ctx context.Context, out io.Writer) error {
	address, err := o.checkAddress()
	if err != nil {
		return err
	}
	dir, err := statedir.Acquire(o.dir)
	if err != nil {
		return err
	}
	defer dir.Release()
	keys, err := pki.Ensure(dir.PKI(), o.bindAddress)
	if err != nil {
		return err
	}
	store, err := etcd.Start(ctx, etcd.Options{Dir: dir.Etcd(), ListenClientURL: o.etcdListenURL})
	if err != nil {
		return err
	}
	defer store.Stop()
	s, err := o.newServer(ctx, keys, store)
	if err != nil {
		return err
	}
	admin, err := kubeconfig.New(keys, "https://"+address, kubeconfig.User{
		Tenant: tenant.System, Name: "admin", Groups: []string{"system:masters"},
	})
	if err != nil {
		return err
	}
	return o.serve(ctx, s, store, func() error {
		if err := atomicfile.Write(dir.AdminKubeconfig(), admin); err != nil {
			return err
		}
		_, err := fmt.Fprintf(out, welcome, address, dir.AdminKubeconfig(), os.Args[0], o.dir)
		return err
	})
}

const welcome = `Tenantry is ready at https://%[1]s

  export KUBECONFIG=%[2]s
  kubectl create -f - <<< '{"apiVersion": "v1", "kind": "Tenant", "metadata": {"name": "acme"}}'
  kubectl wait --for=condition=Ready tenant/acme
  %[3]s kubeconfig acme --dir %[4]s > acme.kubeconfig
  kubectl --kubeconfig acme.kubeconfig get namespaces
`

// checkAddress finds out early, and in one line, whether the port is free.
func (o *upOptions) checkAddress() (string, error) {
	if net.ParseIP(o.bindAddress) == nil {
		return "", fmt.Errorf("--bind-address: %q is not an IP address", o.bindAddress)
	}
	address := net.JoinHostPort(o.bindAddress, strconv.Itoa(o.port))
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return "", fmt.Errorf("--secure-port: %w", err)
	}
	if err := listener.Close(); err != nil {
		return "", err
	}
	if ip := net.ParseIP(o.bindAddress); ip.IsUnspecified() {
		address = net.JoinHostPort("127.0.0.1", strconv.Itoa(o.port))
	}
	return address, nil
}

func (o *upOptions) newServer(ctx context.Context, keys *pki.PKI, store *etcd.Server) (*server.Server, error) {
	options := server.NewOptions()
	options.DefaultTenant = o.defaultTenant
	options.EtcdClient = store.Client
	options.RootCAFile = keys.ServerCAFile()
	kube := options.Kube
	store.Transport(&kube.Etcd.StorageConfig.Transport)
	kube.SecureServing.BindPort = o.port
	kube.SecureServing.BindAddress = net.ParseIP(o.bindAddress)
	kube.SecureServing.ServerCert.CertKey.CertFile, kube.SecureServing.ServerCert.CertKey.KeyFile = keys.Serving()
	kube.Authentication.ClientCert.ClientCA = keys.ClientCAFile()
	kube.Authentication.TokenFile.TokenFile = o.tokenAuthFile
	kube.Authentication.ServiceAccounts.Issuers = []string{"https://kubernetes.default.svc"}
	kube.Authentication.ServiceAccounts.KeyFiles = []string{keys.ServiceAccountKey()}
	kube.ServiceAccountSigningKeyFile = keys.ServiceAccountKey()
	kube.ProxyClientCertFile, kube.ProxyClientKeyFile = keys.FrontProxyClient()
	kube.Audit.PolicyFile = o.auditPolicy
	kube.Audit.LogOptions.Path = o.auditLog
	completed, err := options.Complete(ctx)
	if err != nil {
		return nil, err
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return server.New(ctx, completed)
}

// serve runs the server, and the controllers once it is ready.
func (o *upOptions) serve(ctx context.Context, s *server.Server, store *etcd.Server, ready func() error) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.Run(groupCtx) })
	group.Go(func() error {
		select {
		case err := <-store.Failed():
			return fmt.Errorf("etcd: %w", err)
		case <-groupCtx.Done():
			return nil
		}
	})
	group.Go(func() error {
		if err := s.WaitUntilReady(groupCtx); err != nil {
			return ignoreCanceled(err)
		}
		group.Go(func() error { return ignoreCanceled(s.RunControllers(groupCtx, false)) })
		group.Go(func() error {
			return manager.Run(groupCtx, s.LoopbackConfig(), manager.Options{DefaultTenant: tenant.Name(o.defaultTenant)})
		})
		return ready()
	})
	return group.Wait()
}

func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
