package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/internal/process/memory"
	"github.com/tenantry/tenantry/internal/workloads/hostclient"
	"github.com/tenantry/tenantry/internal/workloads/sync"
)

func newSyncerCommand() *cobra.Command {
	options := sync.Options{LeaderElection: true}
	path, metricsAddress := "", "0"
	var host hostclient.Credentials
	var logs logFlags
	cmd := &cobra.Command{
		Use:   "syncer",
		Short: "Run the syncer: the pods of spaces on a host cluster",
		Long: `Runs the pods of all spaces on one host cluster, and says in the spaces what
becomes of them. The servers need the host, too (--host-kubeconfig or --host-in-cluster).

It needs a system user with every right (group system:masters) and, on the host
cluster, the ServiceAccount syncer of config/workloads.`,
		Example: `  tenantry syncer --kubeconfig admin.kubeconfig --host-kubeconfig syncer.kubeconfig --workloads-image ghcr.io/tenantry/tenantry:v0.2.0`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			memory.Keep(cmd.Context(), 0)
			if !host.IsSet() {
				return errors.New("--host-kubeconfig is missing: it names the cluster that runs the pods. A pod there has --host-in-cluster")
			}
			if err := options.Validate(); err != nil {
				return err
			}
			var err error
			if options.Spaces, err = systemConfigOf(cmd.Context(), path); err != nil {
				return err
			}
			if options.Host, err = host.Config(); err != nil {
				return err
			}
			ctx := cmd.Context()
			logs.errorsUntil(ctx)
			stop, err := serveMetrics(metricsAddress)
			if err != nil {
				return err
			}
			defer stop()
			return sync.Run(ctx, options)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&path, "kubeconfig", "", "Kubeconfig of a system user. In-cluster credentials if empty.")
	host.AddFlags(fs, "Kubeconfig of the host cluster, for its ServiceAccount syncer.")
	fs.StringVar(&options.HealthProbeBindAddress, "health-probe-bind-address", "0",
		"Address of /healthz and /readyz, 0 for none. Not ready until the syncer has its rights on the host. The elected one is not ready while the network test keeps pods from running; the others are.")
	fs.StringVar(&metricsAddress, "metrics-bind-address", metricsAddress, "Address of the metrics, 0 for none.")
	fs.BoolVar(&options.LeaderElection, "leader-elect", options.LeaderElection, "Elect one of several replicas.")
	options.AddFlags(fs)
	logs.add(fs)
	return cmd
}
