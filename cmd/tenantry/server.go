package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/term"

	"github.com/tenantry/tenantry/internal/kubecontrollers"
	"github.com/tenantry/tenantry/internal/process"
	"github.com/tenantry/tenantry/internal/server"
)

func newServerCommand() *cobra.Command {
	options := server.NewOptions()
	controllers := true
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
    --service-account-key-file=sa.key --service-account-signing-key-file=sa.key`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := tuning.Validate(); err != nil {
				return err
			}
			tuning.Apply(cmd.Context())
			return runServer(cmd.Context(), options, controllers)
		},
	}
	sets := options.Flags()
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

func runServer(ctx context.Context, options *server.Options, controllers bool) error {
	if err := logsapi.ValidateAndApply(options.Kube.Logs, nil); err != nil {
		return err
	}
	completed, err := options.Complete(ctx)
	if err != nil {
		return err
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return utilerrors.NewAggregate(errs)
	}
	s, err := server.New(ctx, completed)
	if err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.Run(groupCtx) })
	if controllers {
		group.Go(func() error {
			if err := s.WaitUntilReady(groupCtx); err != nil {
				return ignoreCanceled(err)
			}
			return ignoreCanceled(kubecontrollers.Run(groupCtx, s, true))
		})
	}
	return group.Wait()
}

func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
