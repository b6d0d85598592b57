package v1alpha1

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// ParseTenantLimits reads a TenantLimitsConfiguration, JSON or YAML. An unknown field is an error,
// and so is a limit in a quota that no Tenant could have. The rest is for the rules of the
// definition of ControlPlanes to validate, whose spec.tenantLimits has the same fields.
func ParseTenantLimits(content []byte) (*TenantLimitsConfiguration, error) {
	c := &TenantLimitsConfiguration{}
	if err := readStrict(content, c); err != nil {
		return nil, fmt.Errorf("reading it: %w", err)
	}
	if c.APIVersion != GroupVersion.String() || c.Kind != "TenantLimitsConfiguration" {
		return nil, fmt.Errorf("apiVersion %q, kind %q: want %q, %q", c.APIVersion, c.Kind, GroupVersion, "TenantLimitsConfiguration")
	}
	if errs := v1alpha1.ValidateQuota(c.Limits.Quota, nil, counted, field.NewPath("limits", "quota")); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return c, nil
}
