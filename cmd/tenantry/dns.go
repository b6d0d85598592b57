package main

import (
	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/internal/process/memory"
	"github.com/tenantry/tenantry/internal/workloads/dns"
)

func newDNSCommand() *cobra.Command {
	options := dns.NewOptions()
	path, metricsAddress := "", "0"
	var logs logFlags
	cmd := &cobra.Command{
		Use:   "dns",
		Short: "Answer the names of Services and pods of all spaces, on a host cluster",
		Long: `Answers DNS queries of the pods of all spaces on one host cluster: each has the
names of its own space, and those outside. Who asks is known by the address of
the client, which must be that of one live pod.

It reads the host cluster alone, by the ServiceAccount dns of config/workloads,
where it is a Deployment. Several replicas can run side by side.`,
		Example: `  tenantry dns --forward 192.0.2.53 --health-probe-bind-address :8081
  tenantry dns --kubeconfig host.kubeconfig --bind-address 127.0.0.1:1053`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := options.Validate(); err != nil {
				return err
			}
			var err error
			if options.Host, err = configOf(path); err != nil {
				return err
			}
			ctx := cmd.Context()
			memory.Keep(ctx, 0)
			logs.errorsUntil(ctx)
			stop, err := serveMetrics(metricsAddress)
			if err != nil {
				return err
			}
			defer stop()
			return dns.Run(ctx, options)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&path, "kubeconfig", "", "Kubeconfig of the host cluster, for its ServiceAccount dns. In-cluster credentials if empty.")
	fs.StringVar(&metricsAddress, "metrics-bind-address", metricsAddress, "Address of the metrics, 0 for none.")
	options.AddFlags(fs)
	logs.add(fs)
	return cmd
}
