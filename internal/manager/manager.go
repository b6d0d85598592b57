package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	configv1alpha1 "github.com/tenantry/tenantry/api/config/v1alpha1"
	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Options configure the manager.
type Options struct {
	// Config is the configuration file; the built-in defaults if nil.
	Config *configv1alpha1.ManagerConfiguration
	// DefaultTenant is created if it is missing; empty for none.
	DefaultTenant tenant.Name
	// MetricsBindAddress serves the manager's own metrics; "0" (the default)
	// does not, because in one process with the server they are among its own.
	MetricsBindAddress string
	// KeystoneConfig is the file of a KeystoneConfiguration; empty for none.
	KeystoneConfig string
	// ShowMetrics shows the metrics of the controllers. The default is with the
	// manager's own.
	ShowMetrics func(prometheus.Collector)
	// HealthProbeBindAddress serves /healthz and /readyz; "0" (the default) does not.
	HealthProbeBindAddress string
	// LeaderElection makes several replicas elect one that reconciles, by a
	// lease in the namespace kube-system. Off by default.
	LeaderElection bool
}

// Run runs the manager until ctx ends. restConfig names the system space.
func Run(ctx context.Context, restConfig *rest.Config, opts Options) error {
	ctrl.SetLogger(klog.Background()) // like everything else
	if opts.Config == nil {
		opts.Config = &configv1alpha1.ManagerConfiguration{}
		opts.Config.Default()
	}
	if opts.ShowMetrics == nil {
		opts.ShowMetrics = func(c prometheus.Collector) { metrics.Registry.MustRegister(c) }
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	unlimited := rest.CopyConfig(restConfig)
	unlimited.QPS = -1 // the server's priority and fairness limits, not the client
	unlimited.ContentType, unlimited.AcceptContentTypes = "", ""
	mgr, err := ctrl.NewManager(unlimited, ctrl.Options{
		Scheme:                  scheme,
		Metrics:                 metricsserver.Options{BindAddress: cmp.Or(opts.MetricsBindAddress, "0")},
		HealthProbeBindAddress:  cmp.Or(opts.HealthProbeBindAddress, "0"),
		Cache:                   cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
		LeaderElection:          opts.LeaderElection,
		LeaderElectionID:        "tenantry-manager",
		LeaderElectionNamespace: metav1.NamespaceSystem,
		// The process ends with the manager, so that the next one need not wait.
		LeaderElectionReleaseOnCancel: true,
		Controller: config.Controller{
			// How long it takes to read what there is depends on how much there is.
			CacheSyncTimeout: never,
			// Several managers may follow each other in one process, in tests.
			SkipNameValidation: new(true),
		},
	})
	if err != nil {
		return fmt.Errorf("creating the manager: %w", err)
	}
	if err := errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("ping", healthz.Ping)); err != nil {
		return err
	}
	if err := mgr.Add(builtinTenants(mgr.GetClient(), opts.DefaultTenant, retryPeriod)); err != nil {
		return err
	}
	if err := addControllers(mgr, opts); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

const (
	// never is a time limit for what may take as long as it takes.
	never = 100 * 365 * 24 * time.Hour
	// retryPeriod is how long the creation of a built-in Tenant rests when it fails.
	retryPeriod = time.Second
)

// builtinTenants creates the Tenants that exist without anybody applying them. A
// server that is starting or busy may refuse that for a while; an error would end
// the process.
func builtinTenants(c client.Client, defaultTenant tenant.Name, pause time.Duration) manager.Runnable {
	return manager.RunnableFunc(func(ctx context.Context) error {
		for _, n := range []tenant.Name{tenant.System, defaultTenant} {
			if n == "" {
				continue
			}
			err := wait.PollUntilContextCancel(ctx, pause, true, func(ctx context.Context) (bool, error) {
				return created(ctx, c, n)
			})
			if err != nil && ctx.Err() == nil {
				return err
			}
		}
		return nil
	})
}

// created reports whether a Tenant is there, and creates it if not. Its error is
// final: the name cannot be one.
func created(ctx context.Context, c client.Client, n tenant.Name) (bool, error) {
	t := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: string(n)}}
	switch err := c.Create(ctx, t); {
	case err == nil, apierrors.IsAlreadyExists(err):
		return true, nil
	case apierrors.IsInvalid(err):
		return false, fmt.Errorf("creating tenant %q: %w", n, err)
	default:
		if ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Creating a tenant failed; trying again", "tenant", n)
		}
		return false, nil
	}
}
