package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/term"

	"github.com/tenantry/tenantry/internal/election"
	"github.com/tenantry/tenantry/internal/kubecontrollers"
	"github.com/tenantry/tenantry/internal/process"
	"github.com/tenantry/tenantry/internal/server"
	"github.com/tenantry/tenantry/internal/standalone"
)

func newServerCommand() *cobra.Command {
	options := server.NewOptions()
	controllers, pkiDir := true, ""
	tuning := process.NewOptions()
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run the API server alone, against an external etcd",
		Long: `Runs the API server, and the controllers of Kubernetes for all spaces, against
an external etcd. Several replicas can run side by side: the servers share all
load, the controllers elect one replica that runs them.

The flags are those of kube-apiserver and, in the section "tenancy", its own.
Tenants need "tenantry manager" as well.

Example:
  tenantry server --etcd-servers=https://10.0.0.1:2379 --etcd-cafile=ca.crt \
    --etcd-certfile=etcd.crt --etcd-keyfile=etcd.key --client-ca-file=client-ca.crt \
    --tls-cert-file=server.crt --tls-private-key-file=server.key \
    --service-account-issuer=https://kubernetes.default.svc \
    --service-account-key-file=sa.key --service-account-signing-key-file=sa.key
  tenantry server --etcd-servers=... --pki-dir=/etc/tenantry/pki`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := tuning.Validate(); err != nil {
				return err
			}
			if pkiDir != "" {
				if err := mountKeys(cmd.Flags(), pkiDir, options); err != nil {
					return err
				}
			}
			tuning.Apply(cmd.Context())
			return runServer(cmd.Context(), options, controllers)
		},
	}
	sets := options.Flags()
	sets.FlagSet("tenancy").StringVar(&pkiDir, "pki-dir", pkiDir, "Directory of keys and certificates that somebody else keeps and renews, such as one of mounted Secrets: "+
		"{server-ca,system-ca}.crt, {server,client-ca,front-proxy-client}.{crt,key}, service-account.key, and service-account.pub for further keys that verify tokens. It takes the place of the flags "+
		strings.Join(standalone.MountedFlags(), ", ")+".")
	sets.FlagSet("tenancy").BoolVar(&controllers, "controllers", controllers,
		"Run the controllers of Kubernetes for all spaces in this process, if it is elected.")
	tuning.AddFlags(sets.FlagSet("tenancy"))
	for _, set := range sets.FlagSets {
		cmd.Flags().AddFlagSet(set)
	}
	columns, _, _ := term.TerminalSize(os.Stdout)
	cliflag.SetUsageAndHelpFunc(cmd, sets, columns)
	return cmd
}

// mountKeys makes a server use the keys in a directory, beside which no flag names others.
func mountKeys(flags *pflag.FlagSet, dir string, options *server.Options) error {
	for _, name := range standalone.MountedFlags() {
		if flags.Changed(name) {
			return fmt.Errorf("--%s cannot be used with --pki-dir, which has a file for it: leave one of them out", name)
		}
	}
	return standalone.Mount(dir, options)
}

func runServer(ctx context.Context, options *server.Options, controllers bool) error {
	if err := logsapi.ValidateAndApply(options.Kube.Logs, nil); err != nil {
		return err
	}
	s, err := standalone.NewServer(ctx, options)
	if err != nil {
		return err
	}
	if !controllers {
		return standalone.Serve(ctx, s)
	}
	return standalone.Serve(ctx, s, func(ctx context.Context) error { return kubecontrollers.RunElected(ctx, s, election.Timing{}) })
}
