package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/controlplane"
	"github.com/tenantry/tenantry/internal/controller/hostpublish"
	"github.com/tenantry/tenantry/internal/controller/hosttenant"
	"github.com/tenantry/tenantry/internal/version"
)

// Options configure the operator.
type Options struct {
	// Image is what servers run unless their ControlPlane says otherwise, the operator's own.
	Image string
	// Namespaces are those whose ControlPlanes are reconciled. The operator needs its rights
	// in each of them, and has none elsewhere.
	Namespaces []string
	// Namespace is the operator's own, for its lease.
	Namespace string
	// DefaultControlPlane is where Tenants are that name no ControlPlane. If it is empty, that is
	// the only one in the operator's own namespace or, if it works in one namespace, in that.
	DefaultControlPlane v1alpha1.ControlPlaneReference
	// Outside says that the operator is not in the host cluster: it asks ControlPlanes at the
	// addresses for their clients.
	Outside bool
	// MetricsBindAddress serves metrics, and HealthProbeBindAddress /healthz and /readyz. "0"
	// (the default) does not.
	MetricsBindAddress, HealthProbeBindAddress string
	// Now returns the time by which keys are rotated. Nil is the machine's.
	Now func() time.Time
	// LeaderElection makes several replicas elect one that reconciles. Off by default.
	LeaderElection bool
}

// Run runs the operator until ctx ends. restConfig is of the host cluster.
func Run(ctx context.Context, restConfig *rest.Config, opts Options) error {
	ctrl.SetLogger(klog.Background()) // like everything else
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme), v1alpha1.AddHostToScheme(scheme)); err != nil {
		return err
	}
	namespaces := map[string]cache.Config{}
	for _, namespace := range opts.Namespaces {
		namespaces[namespace] = cache.Config{}
	}
	restConfig = rest.CopyConfig(restConfig)
	restConfig.QPS = -1 // the host's priority and fairness limits, not the client
	mgr, err := ctrl.NewManager(restConfig, ctrl.Options{
		Scheme:                 scheme,
		Metrics:                metricsserver.Options{BindAddress: cmp.Or(opts.MetricsBindAddress, "0")},
		HealthProbeBindAddress: cmp.Or(opts.HealthProbeBindAddress, "0"),
		Cache: cache.Options{
			DefaultNamespaces: namespaces,
			ByObject:          controlplane.Cached(),
			DefaultTransform:  cache.TransformStripManagedFields(),
		},
		LeaderElection:          opts.LeaderElection,
		LeaderElectionID:        "tenantry-operator",
		LeaderElectionNamespace: opts.Namespace,
		// The process ends with the manager, so that the next one need not wait.
		LeaderElectionReleaseOnCancel: true,
		// Several operators may follow each other in one process, in tests.
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		return fmt.Errorf("creating the operator: %w", err)
	}
	if err := errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("readable", readable(mgr.GetAPIReader(), opts.Namespaces))); err != nil {
		return err
	}
	if err := addControllers(ctx, mgr, opts); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// addControllers is the list of the operator's controllers.
func addControllers(ctx context.Context, mgr ctrl.Manager, opts Options) error {
	for _, c := range controlplane.Collectors() {
		if err := metrics.Registry.Register(c); err != nil && !registered(err) {
			return fmt.Errorf("showing the metrics of ControlPlanes: %w", err)
		}
	}
	if err := controlplane.Setup(mgr, controlplane.Options{Image: opts.Image, Version: version.Version, Now: opts.Now}); err != nil {
		return fmt.Errorf("setting up the controller of ControlPlanes: %w", err)
	}
	if err := hosttenant.Setup(ctx, mgr, hosttenant.Options{
		Namespaces: opts.Namespaces,
		Default:    hosttenant.Default{ControlPlane: opts.DefaultControlPlane, Namespace: defaultNamespace(opts)},
		Outside:    opts.Outside,
	}); err != nil {
		return fmt.Errorf("setting up the controller of Tenants: %w", err)
	}
	if err := hostpublish.Setup(mgr, hostpublish.Options{Outside: opts.Outside}); err != nil {
		return fmt.Errorf("setting up the controller of what is published: %w", err)
	}
	return nil
}

// defaultNamespace returns where the default ControlPlane is looked for, empty for nowhere.
func defaultNamespace(opts Options) string {
	switch {
	case len(opts.Namespaces) == 1:
		return opts.Namespaces[0]
	case slices.Contains(opts.Namespaces, opts.Namespace):
		return opts.Namespace
	default:
		return ""
	}
}

// registered reports whether an operator of this process has shown its metrics before.
func registered(err error) bool {
	_, is := errors.AsType[prometheus.AlreadyRegisteredError](err)
	return is
}
