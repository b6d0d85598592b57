package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tenantry/tenantry/internal/operator"
	"github.com/tenantry/tenantry/internal/process/memory"
	"github.com/tenantry/tenantry/internal/version"
)

func newOperatorCommand() *cobra.Command {
	options := operator.Options{LeaderElection: true}
	path, byDefault := "", ""
	var logs logFlags
	cmd := &cobra.Command{
		Use:   "operator",
		Short: "Run the operator: the controllers of ControlPlanes and Tenants, on a host cluster",
		Long: `Runs, on a Kubernetes cluster, the controller that makes control planes of
Tenantry: for each ControlPlane its servers with their volume, keys and
addresses, and the Secret NAME-admin with a kubeconfig of its administrator.
Tenants of the cluster become Tenants of their ControlPlane.

It works in its own namespace, or in those that --namespace names, and needs
rights in these alone, but for Tenants, which have no namespace:
config/operator has them.`,
		Example: `  tenantry operator --image ghcr.io/tenantry/tenantry:` + version.Version + `
  tenantry operator --kubeconfig host.kubeconfig --image ... --namespace team-a --namespace team-b`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := completeOperator(&options, path, byDefault)
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			memory.Keep(ctx, 0)
			logs.errorsUntil(ctx)
			return operator.Run(ctx, config, options)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&path, "kubeconfig", "", "Kubeconfig of the host cluster. In-cluster credentials if empty.")
	fs.StringVar(&options.Image, "image", "", "Image of the servers, of the operator's version, where a ControlPlane names no other.")
	fs.StringSliceVar(&options.Namespaces, "namespace", nil, "Namespaces whose ControlPlanes are reconciled, divided by commas. Can be repeated. The operator's own if there is none.")
	fs.StringVar(&byDefault, "default-control-plane", "", "NAMESPACE/NAME of the ControlPlane of Tenants that name none. By default the only one in the operator's own namespace or, if it works in one namespace alone, in that.")
	fs.StringVar(&options.MetricsBindAddress, "metrics-bind-address", "0", "Address of the operator's metrics, 0 for none.")
	fs.StringVar(&options.HealthProbeBindAddress, "health-probe-bind-address", "0", "Address of /healthz and /readyz, 0 for none.")
	fs.BoolVar(&options.LeaderElection, "leader-elect", options.LeaderElection, "Elect one of several replicas.")
	logs.add(fs)
	return cmd
}

// completeOperator sets what follows from the flags and from where the process runs.
func completeOperator(options *operator.Options, path, byDefault string) (*rest.Config, error) {
	if options.Image == "" {
		return nil, errors.New("--image is missing: name the image of the servers, which is the operator's own")
	}
	config, err := configOf(path)
	if err != nil {
		return nil, err
	}
	loading := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&clientcmd.ClientConfigLoadingRules{ExplicitPath: path}, nil)
	if options.Namespace, _, err = loading.Namespace(); err != nil {
		return nil, fmt.Errorf("finding the operator's own namespace: %w", err)
	}
	for _, namespace := range options.Namespaces {
		if len(validation.IsDNS1123Label(namespace)) > 0 {
			return nil, fmt.Errorf("--namespace: %q is no name of a namespace", namespace)
		}
	}
	if len(options.Namespaces) == 0 {
		options.Namespaces = []string{options.Namespace}
	}
	slices.Sort(options.Namespaces)
	if byDefault != "" {
		ref := &options.DefaultControlPlane
		if ref.Namespace, ref.Name, _ = strings.Cut(byDefault, "/"); !slices.Contains(options.Namespaces, ref.Namespace) || ref.Name == "" {
			return nil, fmt.Errorf("--default-control-plane is %q, and must be NAMESPACE/NAME in a namespace that the operator works in: %s",
				byDefault, strings.Join(options.Namespaces, ", "))
		}
	}
	options.Outside = path != ""
	return config, nil
}
