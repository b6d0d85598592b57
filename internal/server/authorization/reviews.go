package authorization

import (
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

// ForReviews returns the authorizer that SubjectAccessReviews ask, about users who
// make no request. A user without tenant is one of the space in which it is
// asked. In a tenant's space nobody learns about users of others: they can do
// nothing there as far as a review tells, but to a system user who asks.
func ForReviews(a authorizer.UnconditionalAuthorizer) authorizer.UnconditionalAuthorizer {
	return reviews{a}
}

// Authorize implements authorizer.UnconditionalAuthorizer.
func (r reviews) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	space, err := tenant.SpaceFrom(ctx)
	if err != nil {
		return authorizer.DecisionDeny, "", err
	}
	asking, err := tenant.UserTenant(ctx)
	if err != nil {
		return authorizer.DecisionDeny, "", err
	}
	own, err := tenant.OfUser(a.GetUser())
	if err != nil {
		return authorizer.DecisionDeny, err.Error(), nil
	}
	if own == "" {
		own = space
	}
	if own != space && asking != tenant.System {
		return authorizer.DecisionDeny, tenant.ErrForeign.Error(), nil
	}
	if a.GetUser().GetName() == "" && own.IsSpace() {
		return r.authorizeGroups(ctx, a, space, own)
	}
	reviewed, err := reviewedAs(a.GetUser(), own)
	if err != nil {
		return authorizer.DecisionDeny, err.Error(), nil
	}
	return r.authorizeAs(ctx, userAttributes{a, reviewed}, space, own)
}

func (r reviews) authorizeAs(ctx context.Context, a authorizer.Attributes, space, own tenant.Name) (authorizer.Decision, string, error) {
	ctx = tenant.WithRequest(request.WithUser(ctx, a.GetUser()), &tenant.Request{Requested: space.Scope(), Authenticated: own})
	return r.next.Authorize(ctx, a)
}

// groupReview is what a review asks about groups alone. Its user has no name, as no
// user of a request does.
type groupReview struct{ userAttributes }

// authorizeGroups answers what whoever is in the groups may do, those left out that
// nobody of tenant own is in.
func (r reviews) authorizeGroups(ctx context.Context, a authorizer.Attributes, space, own tenant.Name) (authorizer.Decision, string, error) {
	reviewed := identity.Of(a.GetUser(), own)
	reviewed.Groups = slices.DeleteFunc(slices.Clone(reviewed.Groups), func(group string) bool {
		return isReserved(group) || group == user.AllUnauthenticated
	})
	return r.authorizeAs(ctx, groupReview{userAttributes{a, reviewed}}, space, own)
}

// reviewedAs returns u as a user of tenant own, with those of its groups that
// authentication could have given it.
func reviewedAs(u user.Info, own tenant.Name) (user.Info, error) {
	possible, err := identity.As(u, own)
	if err != nil || own == tenant.System {
		return possible, err
	}
	result := identity.Of(possible, own)
	result.Groups = slices.DeleteFunc(slices.Clone(u.GetGroups()), func(group string) bool {
		return !slices.Contains(possible.GetGroups(), group)
	})
	return result, nil
}

// isReserved reports whether a group means something in the system tenant alone.
func isReserved(group string) bool {
	return strings.HasPrefix(group, "system:") && group != user.AllAuthenticated && group != user.AllUnauthenticated &&
		group != serviceaccount.AllServiceAccountsGroup && !strings.HasPrefix(group, serviceaccount.ServiceAccountGroupPrefix)
}

// usable answers the reviews of what somebody can do in a space.
type usable struct {
	next authorizer.UnconditionalAuthorizer
}

// WithUse returns the authorizer that reviews ask: what nobody can do in a space is
// denied there with the reason, whatever rights there are. A request is refused after
// its rights are checked.
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
