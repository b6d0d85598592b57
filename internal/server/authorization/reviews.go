package authorization

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/server/authentication/identity"
	"github.com/tenantry/tenantry/internal/server/spaceapi"
	"github.com/tenantry/tenantry/internal/tenant"
)

// reviews answers SubjectAccessReviews.
type reviews struct {
	next authorizer.UnconditionalAuthorizer
}

// ForReviews returns the authorizer for SubjectAccessReviews, about users who make no
// request. A user without tenant belongs to the space of the review. A review in a tenant's
// space tells nothing about users of other tenants: they have no rights there, except in
// the reviews of system users.
func ForReviews(a authorizer.UnconditionalAuthorizer) authorizer.UnconditionalAuthorizer {
	return reviews{a}
}

// Authorize implements authorizer.UnconditionalAuthorizer.
func (r reviews) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	space, err := tenant.SpaceFrom(ctx)
	if err != nil {
		return authorizer.DecisionDeny, "", err
	}
	reviewer, err := tenant.UserTenant(ctx)
	if err != nil {
		return authorizer.DecisionDeny, "", err
	}
	userTenant, err := tenant.OfUser(a.GetUser())
	if err != nil {
		return authorizer.DecisionDeny, err.Error(), nil
	}
	userTenant = cmp.Or(userTenant, space)
	if userTenant != space && reviewer != tenant.System {
		return authorizer.DecisionDeny, tenant.ErrForeign.Error(), nil
	}
	if a.GetUser().GetName() == "" && userTenant.IsSpace() {
		return r.authorizeGroups(ctx, a, space, userTenant)
	}
	reviewed, err := reviewedAs(a.GetUser(), userTenant)
	if err != nil {
		return authorizer.DecisionDeny, err.Error(), nil
	}
	return r.authorizeAs(ctx, userAttributes{a, reviewed}, space, userTenant)
}

func (r reviews) authorizeAs(ctx context.Context, a authorizer.Attributes, space, userTenant tenant.Name) (authorizer.Decision, string, error) {
	ctx = tenant.WithRequest(request.WithUser(ctx, a.GetUser()), &tenant.Request{Requested: space.Scope(), Authenticated: userTenant})
	return r.next.Authorize(ctx, a)
}

// groupReview is a review of groups alone. Its user has no name, unlike users of requests.
type groupReview struct{ userAttributes }

// authorizeGroups decides about any user in the groups, without the groups that users of
// the tenant cannot be in.
func (r reviews) authorizeGroups(ctx context.Context, a authorizer.Attributes, space, userTenant tenant.Name) (authorizer.Decision, string, error) {
	reviewed := identity.Of(a.GetUser(), userTenant)
	reviewed.Groups = slices.DeleteFunc(slices.Clone(reviewed.Groups), func(group string) bool {
		return isReserved(group) || group == user.AllUnauthenticated
	})
	return r.authorizeAs(ctx, groupReview{userAttributes{a, reviewed}}, space, userTenant)
}

// reviewedAs returns u as a user of a tenant, with the groups that authentication could
// have given it.
func reviewedAs(u user.Info, userTenant tenant.Name) (user.Info, error) {
	possible, err := identity.As(u, userTenant)
	if err != nil || userTenant == tenant.System {
		return possible, err
	}
	result := identity.Of(possible, userTenant)
	result.Groups = slices.DeleteFunc(slices.Clone(u.GetGroups()), func(group string) bool {
		return !slices.Contains(possible.GetGroups(), group)
	})
	return result, nil
}

// isReserved reports whether a group has rights in the system tenant only.
func isReserved(group string) bool {
	return strings.HasPrefix(group, "system:") && group != user.AllAuthenticated && group != user.AllUnauthenticated &&
		group != serviceaccount.AllServiceAccountsGroup && !strings.HasPrefix(group, serviceaccount.ServiceAccountGroupPrefix)
}

// usable refuses in reviews what no request can do in a space.
type usable struct {
	next authorizer.UnconditionalAuthorizer
}

// WithUse returns the authorizer for reviews: it denies, with the reason, requests that
// are refused in every space whatever rights the user has. Such a request itself is refused
// after the check of its rights.
func WithUse(a authorizer.UnconditionalAuthorizer) authorizer.UnconditionalAuthorizer {
	return usable{a}
}

// Authorize implements authorizer.UnconditionalAuthorizer.
func (u usable) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if n, err := tenant.SpaceFrom(ctx); err == nil && n.IsSpace() && a.IsResourceRequest() {
		resource := schema.GroupResource{Group: a.GetAPIGroup(), Resource: a.GetResource()}
		if reason := spaceapi.Use(a.GetVerb(), resource, a.GetSubresource()); reason != nil {
			return authorizer.DecisionDeny, reason.Error(), nil
		}
	}
	return u.next.Authorize(ctx, a)
}
