package keystone

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/keystone"
	"github.com/tenantry/tenantry/internal/tenant"
)

// unknownRoles says which mappings are of roles that tokens do not have: those that Keystone does
// not have, such as names, and those of one domain.
func unknownRoles(ctx context.Context, source cloud, spec *v1alpha1.KeystoneSyncSpec, roles []keystone.Ref) ([]string, error) {
	ids := map[string]bool{"": true}
	for _, role := range roles {
		ids[role.ID] = true
	}
	var unknown []string
	check := func(field, id string) error {
		if ids[id] {
			return nil
		}
		domain, err := source.DomainOfRole(ctx, id)
		if domain == "" {
			unknown = append(unknown, fmt.Sprintf("%s: Keystone has no role with the id %q", field, id))
		} else {
			unknown = append(unknown, fmt.Sprintf("%s: role %q is one of domain %q alone, and no token has such roles: map a role without domain, which it may imply", field, id, keystone.Printable(domain)))
		}
		return err
	}
	var errs []error
	for i, mapping := range spec.RoleMappings {
		errs = append(errs, check(fmt.Sprintf("spec.roleMappings[%d]", i), mapping.RoleID))
	}
	errs = append(errs, check("spec.tenantAdminRoleID", spec.TenantAdminRoleID))
	return unknown, errors.Join(errs...)
}

// missing returns the ClusterRoles that the first of the tenants' spaces does not have: it
// stands for the others. Bindings of them give nothing.
func (r *Reconciler) missing(ctx context.Context, w *work, spec *v1alpha1.KeystoneSyncSpec, made bool) (missing []string, of string, err error) {
	i := slices.IndexFunc(w.items, func(i item) bool { return i.tenant != nil || made })
	if i < 0 {
		return nil, "", nil
	}
	n := nameOf(w.items[i].domain.Name, w.items[i].domain.ID)
	if t := w.items[i].tenant; t != nil {
		n = t.Name
	}
	missing = []string{}
	for _, mapping := range spec.RoleMappings {
		found, err := r.cluster.HasClusterRole(ctx, tenant.Name(n), mapping.ClusterRole)
		if err != nil {
			return nil, "", err
		}
		if name := strconv.Quote(mapping.ClusterRole); !found && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	return missing, n, nil
}

// unmapped returns the roles that somebody has in a selected domain and that are mapped in no
// scope.
func unmapped(ctx context.Context, source cloud, s *v1alpha1.KeystoneSync, listed *keystone.Listing) ([]v1alpha1.KeystoneUnmappedRole, error) {
	selected := map[string]bool{}
	for _, domain := range listed.Domains {
		selected[domain.ID] = selects(&s.Spec.Domains, domain.Ref)
	}
	for _, project := range listed.Projects {
		selected[project.ID] = selected[project.DomainID]
	}
	counts, err := source.Assigned(ctx, func(id string) bool { return selected[id] })
	if err != nil {
		return nil, err
	}
	delete(counts, s.Spec.TenantAdminRoleID)
	for _, mapping := range s.Spec.RoleMappings {
		delete(counts, mapping.RoleID)
	}
	names := map[string]string{}
	for _, role := range listed.Roles {
		names[role.ID] = keystone.Printable(role.Name)
	}
	result := []v1alpha1.KeystoneUnmappedRole{}
	for id, count := range counts {
		result = append(result, v1alpha1.KeystoneUnmappedRole{ID: id, Name: names[id], Assignments: count})
	}
	slices.SortFunc(result, func(a, b v1alpha1.KeystoneUnmappedRole) int { return cmp.Compare(a.ID, b.ID) })
	return result, nil
}
