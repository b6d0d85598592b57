package authorization

import (
	"context"

	authuser "k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/tenantry/tenantry/internal/server/registry/user"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Rights decides about requests, and knows what a user may do.
type Rights interface {
	authorizer.UnconditionalAuthorizer
	authorizer.RuleResolver
}

// Creators lets users list and watch the namespaces that they have created, each by its name, which no Role in a
// namespace can: kubectl waits so for the end of one.
//
// It denies the users of Users that are being deleted everything in the namespaces that they have created. There they
// have had every right, and could keep the controller from taking it away: by bindings that it cannot change, or by
// more than it can look at.
type Creators struct {
	Rights
	Users *user.Index
	// Namespaces lists those of the flattened view.
	Namespaces corelisters.NamespaceLister
}

// Authorize implements authorizer.UnconditionalAuthorizer.
func (c Creators) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if c.denies(ctx, a.GetUser(), a.GetNamespace()) {
		return authorizer.DecisionDeny, "the User is being deleted, and has no rights in the namespaces that it has created", nil
	}
	decision, reason, err := c.Rights.Authorize(ctx, a)
	if decision == authorizer.DecisionNoOpinion && c.allows(ctx, a) {
		return authorizer.DecisionAllow, "the namespace was created by the User", nil
	}
	return decision, reason, err
}

// RulesFor implements authorizer.RuleResolver.
func (c Creators) RulesFor(ctx context.Context, u authuser.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	if c.denies(ctx, u, namespace) {
		return nil, nil, false, nil
	}
	return c.Rights.RulesFor(ctx, u, namespace)
}

// allows reports whether a user looks for a namespace by its name that its User has created.
func (c Creators) allows(ctx context.Context, a authorizer.Attributes) bool {
	if !a.IsResourceRequest() || a.GetAPIGroup() != "" || a.GetResource() != "namespaces" || a.GetSubresource() != "" || a.GetName() == "" ||
		a.GetVerb() != "list" && a.GetVerb() != "watch" {
		return false
	}
	n, own := c.space(ctx, a.GetUser())
	found, known := c.Users.Find(n, a.GetUser().GetName())
	if !own || !known {
		return false
	}
	ns, err := c.Namespaces.Get(tenant.Flatten(n, a.GetName()).String())
	if err != nil || ns.Labels[tenant.CreatedByLabel] != string(found.UID) {
		return false
	}
	// A list or watch shows no other of the name, which may be somebody else's.
	if r := tenant.RequestFrom(ctx); r != nil {
		if _, noted := r.Namespace(); !noted {
			r.NoteNamespace(ns.UID)
		}
	}
	return true
}

// space returns the space of a request, and whether it is a tenant's, and the user one of that tenant.
func (c Creators) space(ctx context.Context, u authuser.Info) (n tenant.Name, own bool) {
	in, err := tenant.ScopeFrom(ctx)
	if err != nil {
		return "", false // who decides finds the same
	}
	n, _ = in.Space()
	of, err := tenantOf(ctx, u) // Users are those of their tenant
	return n, err == nil && of == n && n.IsSpace()
}

func (c Creators) denies(ctx context.Context, u authuser.Info, namespace string) bool {
	n, own := c.space(ctx, u)
	if !own || namespace == "" {
		return false
	}
	ending := c.Users.Ending(n, u.GetName())
	if len(ending) == 0 {
		return false
	}
	ns, err := c.Namespaces.Get(tenant.Flatten(n, namespace).String())
	return err == nil && ending.Has(ns.Labels[tenant.CreatedByLabel])
}

// tenantOf returns the tenant of a user, who may be another one than that of the request.
func tenantOf(ctx context.Context, u authuser.Info) (tenant.Name, error) {
	if of, err := tenant.OfUser(u); err != nil || of != "" {
		return of, err
	}
	return tenant.UserTenant(ctx)
}
