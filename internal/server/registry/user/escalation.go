package user

import (
	"context"
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/api/v1alpha1"
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
	name := obj.(*v1alpha1.User).Name
	u, ok := request.UserFrom(ctx)
	if !ok {
		return apierrors.NewForbidden(Resource, name, errors.New("no user on context"))
	}
	for _, role := range granted {
		decision, _, err := e.authorizer.Authorize(ctx, authorizer.AttributesRecord{
			User: u, Verb: "bind", APIGroup: rbacv1.GroupName, APIVersion: "*", Resource: "clusterroles", Name: role, ResourceRequest: true,
		})
		if decision == authorizer.DecisionAllow {
			continue
		}
		refusal := fmt.Errorf("a User may create namespaces and has every right in those: user %q needs the verb \"bind\" on ClusterRole %q in the space; "+
			"ask the tenant's administrators", u.GetName(), role)
		return apierrors.NewForbidden(Resource, name, errors.Join(refusal, err))
	}
	return nil
}
