package authorization

import (
	"context"
	"errors"
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

// New returns the server's authorizer. inside decides about what stays in its
// tenant, in the space of the context. About a request that leaves its tenant
// grants are asked, and the lines of abac for it; abac may be nil.
func New(inside authorizer.UnconditionalAuthorizer, grants *Grants, abac *ABAC) authorizer.Authorizer {
	return unconditional(&boundary{inside: inside, grants: grants, abac: abac})
}

// Authorize implements authorizer.UnconditionalAuthorizer.
func (b *boundary) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if own, n, foreign := tenant.Foreign(ctx); foreign {
		return b.authorizeForeign(ctx, own, n, a)
	}
	in, err := tenant.ScopeFrom(ctx)
	if errors.Is(err, tenant.ErrNoTenant) && isPublic(a) {
		return b.inside.Authorize(tenant.WithSpace(ctx, tenant.System), a)
	}
	if err != nil {
		return authorizer.DecisionDeny, err.Error(), nil
	}
	own, err := tenant.UserTenant(ctx)
	if err != nil {
		return authorizer.DecisionDeny, err.Error(), nil
	}
	if a, err = asAuthenticated(a, own); err != nil {
		return authorizer.DecisionDeny, err.Error(), nil
	}
	if own != tenant.System && impersonatesOut(a, own) {
		return authorizer.DecisionDeny, "impersonation does not leave the tenant", nil
	}
	privileged := own == tenant.System && isMaster(a.GetUser())
	_, isTenants := in.Tenant()
	switch {
	case in == tenant.System.Scope():
		return b.inside.Authorize(ctx, a)
	case in == tenant.Everything && !privileged:
		return authorizer.DecisionDeny, tenant.ErrForeign.Error(), nil
	case isTenants && !a.IsResourceRequest() && !isServedInSpaces(a.GetPath()):
		return authorizer.DecisionDeny, "this path is not part of a space", nil
	case privileged:
		return authorizer.DecisionAllow, "", nil
	case in == tenant.All && !a.IsResourceRequest():
		// What is served for all tenants at once is what the server serves.
		return b.inside.Authorize(tenant.WithSpace(ctx, tenant.System), a)
	default:
		return b.inside.Authorize(ctx, a)
	}
}

// asAuthenticated returns a as that of a user whom authentication has made one of tenant
// own. Upstream's impersonation knows no tenants, and lets users have every name and group.
func asAuthenticated(a authorizer.Attributes, own tenant.Name) (authorizer.Attributes, error) {
	if _, settled := a.(groupReview); settled || own == tenant.System {
		return a, nil
	}
	u, err := identity.As(a.GetUser(), own)
	if err != nil || u == a.GetUser() {
		return a, err
	}
	return userAttributes{a, u}, nil
}

func isMaster(u user.Info) bool {
	return slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup)
}

// authorizeForeign decides about a user of tenant own in the space of n. The
// answer to what is not granted is always the same, also for a space that does
// not exist.
func (b *boundary) authorizeForeign(ctx context.Context, own, n tenant.Name, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if u, err := tenant.OfUser(a.GetUser()); err != nil || u != own {
		return authorizer.DecisionDeny, tenant.ErrForeign.Error(), nil
	}
	a, err := asAuthenticated(a, own)
	if err != nil {
		return authorizer.DecisionDeny, tenant.ErrForeign.Error(), nil
	}
	decision, reason := b.grants.Authorize(ctx, own, n, a)
	if decision != authorizer.DecisionAllow && b.abac != nil && b.abac.authorizeForeign(ctx, own, n, a) && b.grants.isInService(ctx, own) {
		decision, reason = authorizer.DecisionAllow, "allowed by the ABAC policy file"
	}
	if decision != authorizer.DecisionAllow {
		return authorizer.DecisionDeny, tenant.ErrForeign.Error(), nil
	}
	tenant.RequestFrom(ctx).Admit(own)
	return decision, reason, nil
}

// impersonatesOut reports whether a is the check of an impersonation that would
// give a tenant's user another tenant or the privileged group.
func impersonatesOut(a authorizer.Attributes, own tenant.Name) bool {
	if a.GetVerb() != "impersonate" && !strings.HasPrefix(a.GetVerb(), "impersonate:") {
		return false
	}
	switch {
	case a.GetResource() == "groups":
		return isReserved(a.GetName()) || a.GetName() == user.AllUnauthenticated
	case a.GetResource() == "userextras" &&
		(strings.EqualFold(a.GetSubresource(), tenant.UserExtraKey) || strings.EqualFold(a.GetSubresource(), tenant.Former(tenant.UserExtraKey))):
		return a.GetName() != string(own)
	default:
		return false
	}
}

// isPublic reports whether a is a request that users without tenant may make if
// the system space's RBAC says so.
func isPublic(a authorizer.Attributes) bool {
	return !a.IsResourceRequest() && hasPathPrefix(a.GetPath(), "/healthz", "/livez", "/readyz", "/version")
}

// isServedInSpaces reports whether a path that is no resource means something in
// a space. Everything else (/metrics, /debug, /logs) concerns the server.
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
