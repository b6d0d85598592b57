package keystonesync

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/server/definition"
	"github.com/tenantry/tenantry/internal/tenant"
)

// escalation keeps users from having ClusterRoles bound that they may not bind themselves.
type escalation struct {
	authorizer authorizer.UnconditionalAuthorizer
}

// confirm returns an error if the user of ctx may not bind a ClusterRole that a KeystoneSync names in
// every tenant's space, also in one to come: what the right to do so in the system space
// says nothing about. It is a definition.Confirmed's.
func (e escalation) confirm(ctx context.Context, obj, _ runtime.Object) error {
	s := obj.(*v1alpha1.KeystoneSync)
	r := tenant.RequestFrom(ctx)
	if r == nil {
		return apierrors.NewForbidden(Resource, s.Name, tenant.ErrNoTenant)
	}
	everywhere := tenant.WithRequest(ctx, &tenant.Request{Requested: tenant.All, Authenticated: r.Authenticated})
	err := definition.MayBind(everywhere, e.authorizer, clusterRoles(&s.Spec), func(u user.Info, role string) error {
		return fmt.Errorf("it binds ClusterRole %q in tenants' spaces: user %q needs the verb \"bind\" on it in all of them; "+
			"ask the platform's administrators for a ClusterRole with it that holds there (annotation %s)", role, u.GetName(), tenant.ScopeAnnotation)
	})
	if err != nil {
		return apierrors.NewForbidden(Resource, s.Name, err)
	}
	return nil
}

// clusterRoles returns the names of the ClusterRoles that are bound, that of the Tenants'
// administrators included.
func clusterRoles(spec *v1alpha1.KeystoneSyncSpec) []string {
	var names []string
	if spec.TenantAdminRoleID != "" {
		names = append(names, "cluster-admin")
	}
	for _, mapping := range spec.RoleMappings {
		names = append(names, mapping.ClusterRole)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
