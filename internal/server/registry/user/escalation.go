package user

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/server/definition"
)

// granted are the ClusterRoles whose rights a User gets: one in the space, and that of the
// owner of everything in namespaces that are not there yet.
var granted = []string{v1alpha1.NamespaceCreator, "cluster-admin"}

// escalation keeps users from giving others rights that they may not bind themselves.
type escalation struct {
	authorizer authorizer.UnconditionalAuthorizer
}

// confirm returns an error if the user of ctx may not bind what a User gets. It is a definition.Confirmed's.
func (e escalation) confirm(ctx context.Context, obj, _ runtime.Object) error {
	err := definition.MayBind(ctx, e.authorizer, granted, func(u user.Info, role string) error {
		return fmt.Errorf("a User may create namespaces and has every right in those: user %q needs the verb \"bind\" on ClusterRole %q in the space; "+
			"ask the tenant's administrators", u.GetName(), role)
	})
	if err != nil {
		return apierrors.NewForbidden(Resource, obj.(*v1alpha1.User).Name, err)
	}
	return nil
}
