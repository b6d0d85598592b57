package main

import (
	"fmt"

	"github.com/spf13/cobra"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tenantry/tenantry/internal/manager"
)

func newManagerCommand() *cobra.Command {
	options := manager.Options{LeaderElection: true}
	path := ""
	cmd := &cobra.Command{
		Use:   "manager",
		Short: "Run the operator: the controllers of Tenants",
		Long: `Runs the controllers that create, repair and empty the spaces of Tenants. It
needs a system user with every right (group system:masters).`,
		Example: `  tenantry manager --kubeconfig .tenantry/admin.kubeconfig`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			config, err := clientcmd.BuildConfigFromFlags("", path)
			if err != nil {
				return fmt.Errorf("reading --kubeconfig: %w", err)
			}
			return manager.Run(genericapiserver.SetupSignalContext(), config, options)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&path, "kubeconfig", "", "Kubeconfig of a system user. In-cluster credentials if empty.")
	fs.StringVar(&options.MetricsBindAddress, "metrics-bind-address", "0", "Address of the operator's metrics, 0 for none.")
	fs.BoolVar(&options.LeaderElection, "leader-elect", options.LeaderElection, "Elect one of several replicas.")
	addLogFlags(fs)
	return cmd
}
