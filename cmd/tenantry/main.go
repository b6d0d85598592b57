// Command tenantry gives every tenant of one Kubernetes control plane a virtual
// cluster of its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"
	_ "k8s.io/component-base/metrics/prometheus/workqueue"

	"github.com/tenantry/tenantry/internal/kubecontrollers"
	"github.com/tenantry/tenantry/internal/version"
	"github.com/tenantry/tenantry/internal/workloads/canary"
)

func main() {
	// One failing request or controller must not end the process for everybody.
	utilruntime.ReallyCrash = false
	utilruntime.ErrorHandlers[0] = kubecontrollers.Quiet(utilruntime.ErrorHandlers[0])
	handleErrors(boundError)
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	ctx := genericapiserver.SetupSignalContext()
	// Who is asked to end while it starts has not failed.
	cmd := newCommand()
	asPlugin(cmd, os.Args)
	if err := cmd.ExecuteContext(ctx); err != nil && !(ctx.Err() != nil && errors.Is(err, context.Canceled)) {
		fmt.Fprintf(os.Stderr, "tenantry: %v\n", err)
		os.Exit(canary.ExitCode(err))
	}
}

// The names by which kubectl runs a plugin, and what completes its arguments, see the guide of searches.
const (
	pluginName     = "kubectl-tenantry"
	completionName = "kubectl_complete-tenantry"
)

// asPlugin has the command do what kubectl wants of a program of the name by which it was run.
func asPlugin(cmd *cobra.Command, args []string) {
	switch filepath.Base(args[0]) {
	case pluginName:
		cmd.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl tenantry"}
	case completionName:
		cmd.SetArgs(append([]string{cobra.ShellCompRequestCmd}, args[1:]...))
	}
}

func newCommand() *cobra.Command {
	// Libraries register flags for the whole process there. None is meant for us.
	pflag.CommandLine = pflag.NewFlagSet("tenantry", pflag.ContinueOnError)
	cmd := &cobra.Command{
		Use:     "tenantry",
		Short:   "A virtual cluster for every tenant on one shared control plane",
		Version: version.Version,
		Long: `Tenantry gives every tenant of one Kubernetes installation its own virtual
cluster, a space, on one shared control plane.

  tenantry up                    everything in one process, for one machine
  tenantry server                the API server alone, against an external etcd
  tenantry manager               the controllers of Tenants, beside the server
  tenantry syncer                the pods of spaces on a host cluster
  tenantry dns                   the names of Services of spaces, on a host cluster
  tenantry search                searches, beside the server
  tenantry operator              the controller of ControlPlanes, on a Kubernetes cluster
  tenantry kubeconfig TENANT     credentials for a user of a tenant
  tenantry find QUERY            what there is in a space, of all resources
  tenantry credential keystone   log in to OpenStack's Keystone, for kubectl
  tenantry version               the versions of Tenantry and Kubernetes`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.AddCommand(newUpCommand(), newServerCommand(), newManagerCommand(), newSyncerCommand(), newDNSCommand(), newOperatorCommand(), newKubeconfigCommand(), newFindCommand(), newSearchCommand(), newCredentialCommand(), newVersionCommand(), newCanaryCommand())
	return cmd
}
