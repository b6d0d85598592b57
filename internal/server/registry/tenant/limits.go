package tenant

import (
	"context"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/util/validation/field"

	configv1alpha1 "github.com/tenantry/tenantry/api/config/v1alpha1"
	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/config/crd"
	"github.com/tenantry/tenantry/internal/server/definition"
)

// LoadHostLimits reads the file of a TenantLimitsConfiguration, and validates it by the rules of
// spec.tenantLimits of ControlPlanes: nobody else has, where it was written by hand. Without a path
// there are no limits.
func LoadHostLimits(ctx context.Context, path string) (*v1alpha1.TenantLimits, error) {
	if path == "" {
		return nil, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the limits of a host's Tenants: %w", err)
	}
	c, err := configv1alpha1.ParseTenantLimits(content)
	if err != nil {
		return nil, fmt.Errorf("the limits of a host's Tenants %q: %w", path, err)
	}
	rules, err := definition.NewRules(crd.ControlPlanes, "spec", "tenantLimits")
	if err != nil {
		return nil, fmt.Errorf("reading the rules of limits: %w", err)
	}
	if errs := rules.ValidatePart(ctx, &c.Limits, field.NewPath("limits")); len(errs) > 0 {
		return nil, fmt.Errorf("the limits of a host's Tenants %q: %w", path, errs.ToAggregate())
	}
	return &c.Limits, nil
}
