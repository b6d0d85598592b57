package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"

	"github.com/tenantry/tenantry/internal/kubeconfig"
	"github.com/tenantry/tenantry/internal/pki"
	"github.com/tenantry/tenantry/internal/statedir"
	"github.com/tenantry/tenantry/internal/tenant"
)

// kubeconfigFlags say who signs the certificate, and for whom.
type kubeconfigFlags struct {
	dir, server, admin string
	dirNamed, offline  bool
	user               kubeconfig.User
	userNamed          bool
	// exec is what logs in instead of a certificate, with these arguments.
	exec     string
	execArgs []string
}

func newKubeconfigCommand() *cobra.Command {
	o := kubeconfigFlags{dir: ".tenantry", user: kubeconfig.User{Name: "admin"}}
	cmd := &cobra.Command{
		Use:   "kubeconfig TENANT [flags] [-- ARGUMENTS]",
		Short: "Print a kubeconfig for a user of a tenant",
		Long: `Prints a kubeconfig with a new client certificate for a user of a tenant. Its
server is the root of the tenant's space, so that stock clients see a cluster
of their own. The tenant "system" stands for the system space.

The certificate is signed by the authority in the directory of "tenantry up", or,
with --kubeconfig, by a server: the system administrator of that kubeconfig makes a
CertificateSigningRequest in the tenant's space and approves it. The server needs
--cluster-signing-cert-file; "tenantry up" has one.

The certificate gives an identity, not rights: the user "admin" is the
administrator of a space unless the Tenant says otherwise, others need a
RoleBinding or ClusterRoleBinding in it. In the system space rights come with
the group "system:masters", which is the default there, and which no server signs.

With --exec there is no certificate and nothing secret in the kubeconfig, which many users
can have: "tenantry credential NAME" logs in, called with the arguments behind --.`,
		Example: `  tenantry kubeconfig acme > acme.kubeconfig
  tenantry kubeconfig acme --user jane --group developers --validity 24h
  tenantry kubeconfig acme --kubeconfig admin.kubeconfig > acme.kubeconfig
  tenantry kubeconfig system --user john
  tenantry kubeconfig acme --exec keystone -- --os-cloud acme`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); dash >= 0 {
				args, o.execArgs = args[:dash], args[dash:]
			}
			if len(args) != 1 {
				return fmt.Errorf("name one tenant, not %d: tenantry kubeconfig TENANT", len(args))
			}
			o.dirNamed = cmd.Flags().Changed("dir")
			for _, name := range []string{"user", "group", "validity"} {
				o.userNamed = o.userNamed || cmd.Flags().Changed(name)
			}
			var err error
			if o.user.Tenant, err = tenant.Parse(args[0]); err != nil {
				return err
			}
			config, err := o.issue(cmd.Context())
			if err != nil {
				return err
			}
			if end, bounded := o.bounded(config, time.Now()); bounded {
				fmt.Fprintf(cmd.ErrOrStderr(), "Warning: the certificate is valid until %s, which is less than %s: the server bounds certificates, and none is valid for longer than its authority\n", end.Format(time.RFC3339), o.user.Validity)
			}
			_, err = cmd.OutOrStdout().Write(config)
			return err
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

// clockSkew is what the clocks of this machine and of a server may differ by.
const clockSkew = 10 * time.Minute

// bounded returns when the certificate of a kubeconfig ends, and whether that is earlier than what was asked for.
func (o *kubeconfigFlags) bounded(config []byte, now time.Time) (end time.Time, bounded bool) {
	loaded, err := clientcmd.Load(config)
	if err != nil {
		return end, false
	}
	for _, user := range loaded.AuthInfos {
		certificates, err := cert.ParseCertsPEM(user.ClientCertificateData)
		if err != nil { // by --exec
			continue
		}
		end = certificates[0].NotAfter
	}
	return end, !end.IsZero() && end.Before(now.Add(o.user.Validity-clockSkew))
}

func (o *kubeconfigFlags) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.dir, "dir", o.dir, "Directory that \"tenantry up\" uses.")
	fs.StringVar(&o.server, "server", "", "URL of the server. Defaults to that of DIR/admin.kubeconfig.")
	fs.StringVar(&o.admin, "kubeconfig", "", "Kubeconfig of a system administrator, by whom a server signs the certificate. Instead of --dir and --server.")
	fs.BoolVar(&o.offline, "offline", false, "Do not ask the server whether there is such a tenant.")
	fs.StringVar(&o.user.Name, "user", o.user.Name, "Name of the user.")
	fs.StringArrayVar(&o.user.Groups, "group", nil, "Group of the user. Can be repeated. Defaults to system:masters in the system space, except with --kubeconfig.")
	fs.DurationVar(&o.user.Validity, "validity", 365*24*time.Hour, "For how long the certificate is valid. A server may bound it.")
	fs.StringVar(&o.exec, "exec", "", "Let \"tenantry credential NAME\" log in, instead of a certificate: keystone.")
}

// issue returns a kubeconfig.
func (o kubeconfigFlags) issue(ctx context.Context) ([]byte, error) {
	switch {
	case o.user.Name == "":
		return nil, errors.New("--user is empty: name the user whom the certificate is for")
	case o.user.Tenant != tenant.System && strings.HasPrefix(o.user.Name, "system:"):
		return nil, fmt.Errorf("--user is %q: names that begin with \"system:\" are for the components of Kubernetes, and no tenant has such users", o.user.Name)
	case !pki.IsName(o.user.Name):
		return nil, fmt.Errorf("--user is %q: nobody has a name with blanks around it or control characters", o.user.Name)
	case strings.HasPrefix(o.user.Name, "keystone:"):
		return nil, fmt.Errorf("--user is %q: names that begin with \"keystone:\" are Keystone's, and no server signs them; use --exec keystone", o.user.Name)
	case strings.Contains(o.server, "/tenants/"):
		return nil, fmt.Errorf("--server is %q, the URL of a space: name that of the server, without /tenants/; TENANT names the space", o.server)
	case o.user.Validity < time.Minute:
		return nil, fmt.Errorf("--validity is %s, and must be at least a minute", o.user.Validity)
	case o.admin != "" && (o.dirNamed || o.offline || o.server != ""):
		return nil, errors.New("--kubeconfig names the server and asks it: leave --dir, --offline and --server out")
	case o.dir == "":
		return nil, errors.New("--dir is empty: name the directory that \"tenantry up\" uses")
	case o.admin != "" && o.user.Validity < kubeconfig.MinValidity:
		return nil, fmt.Errorf("--validity is %s, and must be at least %s with --kubeconfig", o.user.Validity, kubeconfig.MinValidity)
	case o.exec != "" && o.userNamed:
		return nil, errors.New("--exec makes no certificate: leave --user, --group and --validity out")
	case o.exec == "" && o.execArgs != nil:
		return nil, errors.New("what is behind -- is for --exec, which is missing")
	}
	if err := o.checkExec(); err != nil {
		return nil, err
	}
	if o.admin != "" {
		return o.request(ctx)
	}
	return o.sign(ctx)
}

// checkExec refuses what cannot log in, which users would see first.
func (o kubeconfigFlags) checkExec() error {
	if o.exec == "" {
		return nil
	}
	cmd, _, err := newCredentialCommand().Find([]string{o.exec})
	if err != nil || cmd.Name() != o.exec {
		return fmt.Errorf("--exec is %q, and must be keystone", o.exec)
	}
	if err = cmd.ParseFlags(o.execArgs); err == nil {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	if err != nil {
		return fmt.Errorf("behind --, for \"tenantry credential %s\": %w", o.exec, err)
	}
	return nil
}

// request has a server sign.
func (o kubeconfigFlags) request(ctx context.Context) ([]byte, error) {
	config, err := kubeconfig.Load(o.admin)
	if err != nil {
		return nil, fmt.Errorf("reading --kubeconfig: %w", err)
	}
	if err := kubeconfig.Find(ctx, config, o.user.Tenant); err != nil {
		return nil, err
	}
	if o.exec == "" {
		return kubeconfig.Request(ctx, config, o.user)
	}
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, fmt.Errorf("reading the server's authority: %w", err)
	}
	return kubeconfig.NewExec(config.Host, config.CAData, o.user.Tenant, o.exec, o.execArgs...)
}

// sign signs by the authority in the directory.
func (o kubeconfigFlags) sign(ctx context.Context) ([]byte, error) {
	if o.user.Tenant == tenant.System && o.user.Groups == nil {
		o.user.Groups = []string{"system:masters"}
	}
	if err := o.checkGroups(); err != nil {
		return nil, err
	}
	keys, err := pki.Open(statedir.Path(o.dir).PKI())
	if err != nil {
		return nil, err
	}
	admin := statedir.Path(o.dir).AdminKubeconfig()
	if o.server == "" {
		if o.server, err = kubeconfig.Server(admin); err != nil {
			return nil, err
		}
	}
	if !o.offline {
		config, err := kubeconfig.Load(admin)
		if err != nil {
			return nil, fmt.Errorf("reading what says where the server is: %w", err)
		}
		if err := kubeconfig.Find(ctx, config, o.user.Tenant); err != nil {
			return nil, fmt.Errorf("%w (--offline does not ask)", err)
		}
	}
	if o.exec != "" {
		return kubeconfig.NewExec(o.server, keys.ServerCA.PEM(), o.user.Tenant, o.exec, o.execArgs...)
	}
	return kubeconfig.New(keys, o.server, o.user)
}

// checkGroups refuses what no server signs, but for the groups of Kubernetes in the system
// space: whoever holds the authority may make system administrators.
func (o kubeconfigFlags) checkGroups() error {
	for _, group := range o.user.Groups {
		if o.user.Tenant == tenant.System && strings.HasPrefix(group, "system:") {
			continue
		}
		if err := pki.CheckGroup(group); err != nil {
			return fmt.Errorf("--group: %w", err)
		}
	}
	return nil
}
