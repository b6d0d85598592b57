package definition

import (
	"context"
	"errors"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// MayBind returns nil if the user of ctx may bind all of some ClusterRoles. Otherwise it returns what refuse says about
// the first one that it may not.
func MayBind(ctx context.Context, a authorizer.UnconditionalAuthorizer, roles []string, refuse func(u user.Info, role string) error) error {
	u, ok := request.UserFrom(ctx)
	if !ok {
		return errors.New("no user on context")
	}
	for _, role := range roles {
		decision, _, err := a.Authorize(ctx, authorizer.AttributesRecord{
			User: u, Verb: "bind", APIGroup: rbacv1.GroupName, APIVersion: "*", Resource: "clusterroles", Name: role, ResourceRequest: true,
		})
		if decision != authorizer.DecisionAllow {
			return errors.Join(refuse(u, role), err)
		}
	}
	return nil
}
