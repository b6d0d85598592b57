package authorization

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/tenantry/tenantry/internal/server/authentication/identity"
	"github.com/tenantry/tenantry/internal/tenant"
)

// boundary is the first authorizer.
type boundary struct {
	inside authorizer.UnconditionalAuthorizer
	grants *Grants
	abac   *ABAC
}

// New returns the server's authorizer. inside decides about requests that stay in the
// user's tenant, in the space of the context. grants and the lines of abac decide about
// requests that leave it. abac may be nil.
func New(inside authorizer.UnconditionalAuthorizer, grants *Grants, abac *ABAC) authorizer.Authorizer {
	return unconditional(&boundary{inside: inside, grants: grants, abac: abac})
}

// Authorize implements authorizer.UnconditionalAuthorizer.
func (b *boundary) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if userTenant, n, foreign := tenant.Foreign(ctx); foreign {
		return b.authorizeForeign(ctx, userTenant, n, a)
	}
	in, err := tenant.ScopeFrom(ctx)
	if errors.Is(err, tenant.ErrNoTenant) && isPublic(a) {
		return b.inside.Authorize(tenant.WithSpace(ctx, tenant.System), a)
	}
	if err != nil {
		return authorizer.DecisionDeny, err.Error(), nil
	}
	userTenant, err := tenant.UserTenant(ctx)
	if err != nil {
		return authorizer.DecisionDeny, err.Error(), nil
	}
	if a, err = asAuthenticated(a, userTenant); err != nil {
		return authorizer.DecisionDeny, err.Error(), nil
	}
	if userTenant != tenant.System && impersonatesOut(a, userTenant) {
		return authorizer.DecisionDeny, "impersonation does not leave the tenant", nil
	}
	if !impersonates(a) && !isWhoWasAuthorized(ctx, userTenant) {
		return authorizer.DecisionDeny, fmt.Sprintf("the user is one of tenant %q, for which the impersonation was not authorized", userTenant), nil
	}
	privileged := userTenant == tenant.System && isMaster(a.GetUser())
	_, isTenants := in.Tenant()
	switch {
	case in == userTenant.Scope() && isSearch(a):
		return authorizer.DecisionAllow, "a search shows what its user may list", nil
	case in == tenant.System.Scope() && impersonates(a) && !privileged:
		return b.authorizeImpersonation(ctx, a)
	case in == tenant.System.Scope():
		return b.inside.Authorize(ctx, a)
	case in == tenant.Everything && !privileged:
		return authorizer.DecisionDeny, tenant.ErrForeign.Error(), nil
	case isTenants && !a.IsResourceRequest() && !isServedInSpaces(a.GetPath()) && !isSearch(a):
		return authorizer.DecisionDeny, "this path is not part of a space", nil
	case privileged:
		return authorizer.DecisionAllow, "", nil
	case in == tenant.All && !a.IsResourceRequest():
		// Discovery for all tenants at once is that of the system space.
		return b.inside.Authorize(tenant.WithSpace(ctx, tenant.System), a)
	default:
		return b.inside.Authorize(ctx, a)
	}
}

// authorizeImpersonation decides about a check of an impersonation by a system user whose URL names no space. A user
// who becomes one of a tenant acts in that tenant's space. So all checks are decided there, as if the URL named it,
// those of the name and the groups too: rights in the system space hold there alone, and who may become some user there
// is not to become another one here.
func (b *boundary) authorizeImpersonation(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	n, err := tenant.RequestFrom(ctx).Becomes()
	if named, becomes := impersonatedTenant(a); becomes && err == nil {
		if key := a.GetSubresource(); key != tenant.UserExtraKey { // which makes nobody a tenant's user
			return authorizer.DecisionDeny, fmt.Sprintf("the extra %q is written %q", key, tenant.UserExtraKey), nil
		}
		n, err = tenant.Parse(named) // a review has no headers
	}
	if err != nil {
		return authorizer.DecisionDeny, err.Error(), nil
	}
	return b.inside.Authorize(tenant.WithSpace(ctx, cmp.Or(n, tenant.System)), a)
}

// isWhoWasAuthorized reports whether a system user whose URL names no space is now who the headers said, because they
// decided in which space the impersonation was authorized; see authorizeImpersonation.
func isWhoWasAuthorized(ctx context.Context, userTenant tenant.Name) bool {
	r := tenant.RequestFrom(ctx)
	if r.Requested != "" || r.Authenticated != tenant.System {
		return true
	}
	n, err := r.Becomes()
	return err == nil && cmp.Or(n, tenant.System) == userTenant
}

// asAuthenticated returns a with the user that authentication would have made of the same
// name and groups in a tenant. Upstream's impersonation ignores tenants, and allows every
// name and group.
func asAuthenticated(a authorizer.Attributes, userTenant tenant.Name) (authorizer.Attributes, error) {
	if _, settled := a.(groupReview); settled || userTenant == tenant.System {
		return a, nil
	}
	u, err := identity.As(a.GetUser(), userTenant)
	if err != nil || u == a.GetUser() {
		return a, err
	}
	return userAttributes{a, u}, nil
}

func isMaster(u user.Info) bool {
	return slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup)
}

// authorizeForeign decides about a user of another tenant in the space of n. The reason of
// a denial is always the same, also for a space that does not exist.
func (b *boundary) authorizeForeign(ctx context.Context, userTenant, n tenant.Name, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if u, err := tenant.OfUser(a.GetUser()); err != nil || u != userTenant || impersonatesOut(a, userTenant) {
		return authorizer.DecisionDeny, tenant.ErrForeign.Error(), nil
	}
	a, err := asAuthenticated(a, userTenant)
	if err != nil {
		return authorizer.DecisionDeny, tenant.ErrForeign.Error(), nil
	}
	decision, reason := b.grants.Authorize(ctx, userTenant, n, a)
	if decision != authorizer.DecisionAllow && b.abac != nil && b.abac.authorizeForeign(ctx, userTenant, n, a) && b.grants.isActive(ctx, userTenant) {
		decision, reason = authorizer.DecisionAllow, "allowed by the ABAC policy file"
	}
	if decision != authorizer.DecisionAllow {
		return authorizer.DecisionDeny, tenant.ErrForeign.Error(), nil
	}
	tenant.RequestFrom(ctx).Admit(userTenant)
	return decision, reason, nil
}

// impersonatesOut reports whether a is the check of an impersonation that would
// give a tenant's user another tenant, the privileged group, or what Keystone alone gives.
func impersonatesOut(a authorizer.Attributes, userTenant tenant.Name) bool {
	if !impersonates(a) {
		return false
	}
	if named, becomes := impersonatedTenant(a); becomes {
		return named != string(userTenant)
	}
	switch a.GetResource() {
	case "users":
		return identity.IsKeystone(a.GetName())
	case "userextras":
		return identity.IsKeystoneExtra(a.GetSubresource())
	case "groups":
		return isReserved(a.GetName()) || identity.IsKeystone(a.GetName()) || a.GetName() == user.AllUnauthenticated
	default:
		return false
	}
}

// impersonatedTenant returns the tenant whose user a user would become if a is the check of that.
func impersonatedTenant(a authorizer.Attributes) (named string, becomes bool) {
	return a.GetName(), impersonates(a) && a.GetResource() == "userextras" && namesTenant(a.GetSubresource())
}

// namesTenant reports whether an extra is, however its key is written, or was, the tenant of a user.
func namesTenant(key string) bool {
	return strings.EqualFold(key, tenant.UserExtraKey) || strings.EqualFold(key, tenant.Former(tenant.UserExtraKey))
}

func impersonates(a authorizer.Attributes) bool {
	return a.GetVerb() == "impersonate" || strings.HasPrefix(a.GetVerb(), "impersonate:")
}

// isPublic reports whether users without tenant may make a request, if the system space's
// RBAC allows it.
func isPublic(a authorizer.Attributes) bool {
	return !a.IsResourceRequest() && hasPathPrefix(a.GetPath(), "/healthz", "/livez", "/readyz", "/version")
}

// isSearch reports whether a user who has logged in searches a space. What may be found is decided there. System users
// need a right in a tenant's space, or they would learn which tenants there are.
func isSearch(a authorizer.Attributes) bool {
	if a.IsResourceRequest() || !slices.Contains(a.GetUser().GetGroups(), user.AllAuthenticated) {
		return false
	}
	switch a.GetPath() {
	case "/search":
		return a.GetVerb() == "get"
	case "/searchapi/graphql": // queries are posted, and subscriptions are not
		return a.GetVerb() == "get" || a.GetVerb() == "post"
	default:
		return false
	}
}

// isServedInSpaces reports whether a path that is no resource is served in a space. Other
// paths (/metrics, /debug, /logs) concern the server.
func isServedInSpaces(path string) bool {
	return path == "/" || hasPathPrefix(path, "/api", "/apis", "/openapi", "/version",
		"/healthz", "/livez", "/readyz", "/.well-known/openid-configuration", "/openid/v1/jwks")
}

func hasPathPrefix(path string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool {
		rest, ok := strings.CutPrefix(path, prefix)
		return ok && (rest == "" || rest[0] == '/')
	})
}
