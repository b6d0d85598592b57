package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	configv1alpha1 "github.com/tenantry/tenantry/api/config/v1alpha1"
	"github.com/tenantry/tenantry/internal/etcd"
	"github.com/tenantry/tenantry/internal/process"
	"github.com/tenantry/tenantry/internal/search"
	"github.com/tenantry/tenantry/internal/standalone"
)

// auditBackups is how many full audit logs "up" keeps: whoever sends requests adds to
// them, on the disk of etcd.
const auditBackups = 10

// up is what the command is given.
type up struct {
	standalone.Options
	tuning        process.Options
	logs          logFlags
	managerConfig string
	searches      bool
	search        search.Options
}

func newUpCommand() *cobra.Command {
	u := &up{Options: standalone.NewOptions(), tuning: process.NewOptions()}
	u.Dir, u.Port = ".tenantry", 6443
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
		RunE: u.run,
	}
	u.addFlags(cmd.Flags())
	u.addServerFlags(cmd.Flags())
	return cmd
}

// run runs everything until ctx ends.
func (u *up) run(cmd *cobra.Command, _ []string) error {
	ctx := cmd.Context()
	if err := checkPartners(cmd.Flags()); err != nil {
		return err
	}
	if err := u.tuning.Validate(); err != nil {
		return err
	}
	u.tuning.Apply(ctx)
	if u.RenewPeriod <= 0 {
		return fmt.Errorf("--certificate-check-period is %s, and must be positive", u.RenewPeriod)
	}
	var err error
	if u.Manager, err = configv1alpha1.LoadManagerConfiguration(u.managerConfig); err != nil {
		return fmt.Errorf("--manager-config: %w", err)
	}
	if u.searches {
		u.Server.Search = &u.search
	}
	// Nothing is logged before the process serves, unless -v asks for it: who waits is told what for.
	u.Waiting = func(message string) { fmt.Fprintf(cmd.ErrOrStderr(), "tenantry: %s\n", message) }
	return standalone.Run(ctx, u.Options, func(r standalone.Running) error {
		u.logs.errorsUntil(ctx)
		if r.AdminKubeconfig == "" {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "Tenantry is ready at https://%s\n", r.Address)
			return err
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), welcome, r.Address, r.AdminKubeconfig, os.Args[0], u.Dir)
		return err
	})
}

func (u *up) addFlags(fs *pflag.FlagSet) {
	u.tuning.AddFlags(fs)
	fs.StringVar(&u.Dir, "dir", u.Dir, "Directory of all state.")
	fs.StringVar(&u.PKIDir, "pki-dir", "",
		"Directory of keys and certificates that somebody else keeps and renews, such as one of mounted Secrets, instead of DIR/pki: "+
			"{server-ca,system-ca}.crt, {server,client-ca,front-proxy-client}.{crt,key}, service-account.key, and service-account.pub "+
			"for further keys that verify tokens. System users are those of system-ca, whose key is not there: no admin.kubeconfig is written.")
	fs.IntVar(&u.Port, "secure-port", u.Port, "Port of the API server.")
	fs.StringVar(&u.BindAddress, "bind-address", u.BindAddress, "IP address of the API server.")
	fs.StringVar(&u.AdvertiseAddress, "advertise-address", "",
		"IP address by which pods reach the API server. By default --bind-address or, if that is a loopback address or all of them, "+
			"that of the default route. Without a route there is none.")
	fs.StringArrayVar(&u.TLSNames, "tls-san", nil,
		"Further host name or IP address by which clients reach the API server, for its certificate. Can be repeated.")
	fs.StringVar(&u.EtcdListenClientURL, "etcd-listen-client-url", "",
		"Address at which etcd listens for other clients of this machine, http://IP:PORT with a loopback address or unix:///PATH, without authentication. None by default.")
	fs.Int64Var(&u.EtcdQuotaBackendBytes, "etcd-quota-backend-bytes", etcd.DefaultQuotaBackendBytes,
		fmt.Sprintf("Size of etcd's database, in bytes, from which on only deletions are written, until less is in use. "+
			"At least %d; 0 is the default, a negative number no quota.", etcd.MinQuotaBackendBytes))
	fs.StringVar(&u.managerConfig, "manager-config", "",
		"Configuration file of the manager, a ManagerConfiguration of config.tenantry.io/v1alpha1. Built-in defaults if empty.")
	fs.DurationVar(&u.RenewPeriod, "certificate-check-period", 12*time.Hour,
		"How often to look whether a certificate of the server has less than a third of its time left, and to renew it.")
	u.logs.add(fs)
}

func (u *up) addServerFlags(fs *pflag.FlagSet) {
	kube, users := u.Server.Kube, &u.Server.Authentication
	fs.StringVar(&u.Server.DefaultTenant, "default-tenant", "", "Tenant of users whose credentials carry none. It is created if it is missing.")
	fs.StringVar(&kube.Admission.GenericAdmission.ConfigFile, "admission-control-config-file", "",
		"File with the configuration of admission plugins, such as SpacePolicy.")
	users.Upstream.AddFlags(fs)
	users.AddFlags(fs)
	users.Upstream.WithServiceAccounts() // after its flags: most are the keys of DIR/pki
	accounts := users.Upstream.ServiceAccounts
	fs.DurationVar(&accounts.MaxExpiration, "service-account-max-token-expiration", 0,
		"The longest that tokens of service accounts are issued for, an hour at least. Requests for more get this. 0 is no limit.")
	fs.BoolVar(&accounts.ExtendExpiration, "service-account-extend-token-expiration", true,
		"Tokens of pods that ask for an hour are good for a year, whatever --service-account-max-token-expiration is.")
	fs.Lookup("client-ca-file").Usage = "Bundle of further authorities that sign certificates of tenants' users. " +
		"Unlike DIR/pki/client-ca, they cannot make system users."
	fs.Lookup("token-auth-file").Usage = "File of bearer tokens: token,user,uid[,\"groups\"[,other]][,,tenant]. " +
		"It is read again when it changes."
	fs.StringVar(&kube.Etcd.EncryptionProviderConfigFilepath, "encryption-provider-config", "",
		"File of the keys by which objects are encrypted in etcd, an EncryptionConfiguration. Nothing is encrypted without it.")
	fs.BoolVar(&kube.Etcd.EncryptionProviderConfigAutomaticReload, "encryption-provider-config-automatic-reload", false,
		"Read that file again when it changes.")
	kube.Authorization.AddFlags(fs)
	fs.Lookup("authorization-policy-file").Usage = "File of ABAC policies, one in a line, for the mode ABAC. " +
		"Their spec may have a tenant and a space beside upstream's fields."
	fs.StringVar(&kube.Audit.PolicyFile, "audit-policy-file", "",
		"Audit policy, where Tenant.spec.auditPolicy does not say otherwise. Without it and --audit-log-path nothing is logged of any tenant.")
	kube.Audit.LogOptions.MaxBackups = auditBackups
	fs.StringVar(&kube.Audit.LogOptions.Path, "audit-log-path", "",
		fmt.Sprintf("File for audit events, - for standard output. At 100 MB it is renamed and a new one begun; %d old ones are kept.", auditBackups))
	fs.StringVar(&kube.Audit.WebhookOptions.ConfigFile, "audit-webhook-config-file", "",
		"Kubeconfig of a webhook that audit events are sent to, in batches.")
	fs.BoolVar(&u.searches, "search", false,
		"Answer searches over all resources of a space (tenantry find), by an index of the metadata of all objects in DIR/search. A start goes on with it, or compares it with what there is.")
	fs.StringSliceVar(&u.search.Annotations, "search-annotations", nil, "Annotations that are searched and shown, by their keys. By default there are none: many hold copies of whole objects.")
	u.Server.Host.AddFlags(fs,
		"Kubeconfig of a host cluster that runs the pods of spaces, for its ServiceAccount syncer (config/workloads). Without it, or --host-in-cluster, pods do not run, and stay pending.")
	fs.BoolVar(&u.Syncer, "syncer", u.Syncer,
		"Run the syncer in this process. Without it, \"tenantry syncer\" is needed as well; give this process the ServiceAccount connect then.")
	u.Workloads.AddFlags(fs)
	fs.Var(&u.search.Properties, "search-property", searchPropertyHelp)
	fs.Int64Var(&u.search.Objects, "search-max-objects", search.DefaultObjects, searchObjectsHelp)
	u.Server.AddSearchFlags(fs)
	u.Server.AddHostFlags(fs)
	u.Server.AddCacheFlags(fs)
	u.Server.FlowControl.AddFlags(fs)
	u.Server.Egress.AddFlags(fs)
	u.Server.Usage.AddFlags(fs)
}

const welcome = `Tenantry is ready at https://%[1]s

  export KUBECONFIG=%[2]s
  kubectl create -f - <<< '{"apiVersion": "v1", "kind": "Tenant", "metadata": {"name": "acme"}}'
  kubectl wait --for=condition=Ready tenant/acme
  %[3]s kubeconfig acme --dir %[4]s > acme.kubeconfig
  kubectl --kubeconfig acme.kubeconfig get namespaces
`
