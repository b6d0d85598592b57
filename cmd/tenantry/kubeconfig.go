package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/internal/kubeconfig"
	"github.com/tenantry/tenantry/internal/pki"
	"github.com/tenantry/tenantry/internal/statedir"
	"github.com/tenantry/tenantry/internal/tenant"
)

func newKubeconfigCommand() *cobra.Command {
	dir, server, user := ".tenantry", "", "admin"
	var groups []string
	cmd := &cobra.Command{
		Use:   "kubeconfig TENANT",
		Short: "Print a kubeconfig for a user of a tenant",
		Long: `Prints a kubeconfig with a new client certificate for a user of a tenant. Its
server is the root of the tenant's space, so that stock clients see a cluster
of their own. The tenant "system" stands for the system space.

The certificate gives an identity, not rights: the user "admin" is the
administrator of a space unless the Tenant says otherwise, others need a
RoleBinding or ClusterRoleBinding in it. In the system space rights come with
the group "system:masters", which is the default there.`,
		Example: `  tenantry kubeconfig acme > acme.kubeconfig
  tenantry kubeconfig acme --user jane --group developers
  tenantry kubeconfig system --user john`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("name one tenant, not %d: tenantry kubeconfig TENANT", len(args))
			}
			name, err := tenant.Parse(args[0])
			if err != nil {
				return err
			}
			if name == tenant.All {
				return fmt.Errorf("tenant %q is reserved", name)
			}
			if name == tenant.System && !cmd.Flags().Changed("group") {
				groups = []string{"system:masters"}
			}
			keys, err := pki.Open(statedir.PKI(dir))
			if err != nil {
				return err
			}
			if server == "" {
				if server, err = kubeconfig.Server(statedir.AdminKubeconfig(dir)); err != nil {
					return err
				}
			}
			config, err := kubeconfig.New(keys, server, kubeconfig.User{Tenant: name, Name: user, Groups: groups})
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(config)
			return err
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&dir, "dir", dir, "Directory that \"tenantry up\" uses.")
	fs.StringVar(&server, "server", "", "URL of the server. Defaults to that of DIR/admin.kubeconfig.")
	fs.StringVar(&user, "user", user, "Name of the user.")
	fs.StringArrayVar(&groups, "group", nil, "Group of the user. Can be repeated. Defaults to system:masters in the system space.")
	return cmd
}
