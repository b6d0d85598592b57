package manager

import (
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/tenantry/tenantry/internal/controller/tenant"
)

// addControllers is the list of the operator's controllers.
func addControllers(mgr ctrl.Manager, opts Options) error {
	if err := tenant.Setup(mgr, tenant.Options{
		Quota: opts.Config.DefaultQuota, Concurrency: opts.Config.Concurrency,
	}); err != nil {
		return fmt.Errorf("setting up the tenant controller: %w", err)
	}
	return nil
}
