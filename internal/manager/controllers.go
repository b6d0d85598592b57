package manager

import (
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/tenantry/tenantry/internal/controller/keystone"
	"github.com/tenantry/tenantry/internal/controller/published"
	"github.com/tenantry/tenantry/internal/controller/tenant"
	"github.com/tenantry/tenantry/internal/controller/user"
)

// addControllers is the list of the manager's controllers.
func addControllers(mgr ctrl.Manager, opts Options) error {
	publisher, err := published.Setup(mgr, published.Options{
		Resources: opts.Config.PublishableResources(), Concurrency: opts.Config.Concurrency,
	})
	if err != nil {
		return fmt.Errorf("setting up the controller of published objects: %w", err)
	}
	opts.ShowMetrics(append(shown{publisher}, keystone.Collectors()...))
	if err := tenant.Setup(mgr, tenant.Options{
		Quota: opts.Config.DefaultQuota, Concurrency: opts.Config.Concurrency, Publish: publisher.Ensure,
	}); err != nil {
		return fmt.Errorf("setting up the tenant controller: %w", err)
	}
	if err := keystone.Setup(mgr, opts.KeystoneConfig); err != nil {
		return fmt.Errorf("setting up the controller of KeystoneSyncs: %w", err)
	}
	if err := user.Setup(mgr); err != nil {
		return fmt.Errorf("setting up the controller of Users: %w", err)
	}
	return nil
}
