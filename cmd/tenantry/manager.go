package main

import (
	"github.com/spf13/cobra"

	configv1alpha1 "github.com/tenantry/tenantry/api/config/v1alpha1"
	"github.com/tenantry/tenantry/internal/manager"
	"github.com/tenantry/tenantry/internal/process/memory"
)

func newManagerCommand() *cobra.Command {
	options := manager.Options{LeaderElection: true}
	path, configPath := "", ""
	var logs logFlags
	cmd := &cobra.Command{
		Use:   "manager",
		Short: "Run the manager: the controllers of Tenants",
		Long: `Runs the controllers that create, repair and empty the spaces of Tenants. It
needs a system user with every right (group system:masters).`,
		Example: `  tenantry manager --kubeconfig .tenantry/admin.kubeconfig`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			memory.Keep(cmd.Context(), 0)
			config, err := systemConfigOf(cmd.Context(), path)
			if err != nil {
				return err
			}
			if options.Config, err = configv1alpha1.LoadManagerConfiguration(configPath); err != nil {
				return err
			}
			ctx := cmd.Context()
			logs.errorsUntil(ctx)
			return manager.Run(ctx, config, options)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&path, "kubeconfig", "", "Kubeconfig of a system user. In-cluster credentials if empty.")
	fs.StringVar(&configPath, "config", "", "Configuration file, a ManagerConfiguration of config.tenantry.io/v1alpha1. Built-in defaults if empty.")
	fs.StringVar(&options.KeystoneConfig, "keystone-config", "", "File of the Keystone of KeystoneSyncs, a KeystoneConfiguration of config.tenantry.io/v1alpha1. None if empty.")
	fs.StringVar(&options.MetricsBindAddress, "metrics-bind-address", "0", "Address of the manager's metrics, 0 for none.")
	fs.StringVar(&options.HealthProbeBindAddress, "health-probe-bind-address", "0", "Address of /healthz and /readyz, 0 for none.")
	fs.BoolVar(&options.LeaderElection, "leader-elect", options.LeaderElection, "Elect one of several replicas.")
	logs.add(fs)
	return cmd
}
