package user

import (
	"context"

	authuser "k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Rights decides about requests, and knows what a user may do.
type Rights interface {
	authorizer.UnconditionalAuthorizer
	authorizer.RuleResolver
}

// Ending denies the users of Users that are being deleted everything in the namespaces that they have created. There they
// have had every right, and could keep the controller from taking it away: by bindings that it cannot change, or by
// more than it can look at.
type Ending struct {
	Rights
	Index *Index
	// Namespaces lists those of the flattened view.
	Namespaces corelisters.NamespaceLister
}

// Authorize implements authorizer.UnconditionalAuthorizer.
func (e Ending) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if e.denies(ctx, a.GetUser(), a.GetNamespace()) {
		return authorizer.DecisionDeny, "the User is being deleted, and has no rights in the namespaces that it has created", nil
	}
	return e.Rights.Authorize(ctx, a)
}

// RulesFor implements authorizer.RuleResolver.
func (e Ending) RulesFor(ctx context.Context, u authuser.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	if e.denies(ctx, u, namespace) {
		return nil, nil, false, nil
	}
	return e.Rights.RulesFor(ctx, u, namespace)
}

func (e Ending) denies(ctx context.Context, u authuser.Info, namespace string) bool {
	in, err := tenant.ScopeFrom(ctx)
	if err != nil {
		return false // who decides finds the same
	}
	n, _ := in.Space()
	if of, err := tenantOf(ctx, u); err != nil || of != n || !n.IsSpace() || namespace == "" {
		return false // Users are those of their tenant
	}
	ending := e.Index.endingOf(n, u.GetName())
	if len(ending) == 0 {
		return false
	}
	ns, err := e.Namespaces.Get(tenant.Flatten(n, namespace).String())
	return err == nil && ending.Has(ns.Labels[tenant.CreatedByLabel])
}

// tenantOf returns the tenant of a user, who may be another one than that of the request.
func tenantOf(ctx context.Context, u authuser.Info) (tenant.Name, error) {
	if of, err := tenant.OfUser(u); err != nil || of != "" {
		return of, err
	}
	return tenant.UserTenant(ctx)
}
