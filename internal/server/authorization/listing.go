package authorization

import (
	"context"
	"iter"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	authzconfig "k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/kubernetes/pkg/auth/nodeidentifier"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

// What follows says what decides, for those who need to know all that a user may list instead of a
// decision about one request.

// Order returns the modes in the order in which they decide. It changes with
// --authorization-config, and is not to be changed.
func (m *Modes) Order() []authzconfig.AuthorizerType { return m.current.Load().order }

// IsPrivileged reports whether a user of a tenant may do everything in every space.
func IsPrivileged(userTenant tenant.Name, u user.Info) bool {
	return userTenant == tenant.System && isMaster(u)
}

// IsNode reports whether a user of a tenant is one about whom the mode Node decides.
func IsNode(userTenant tenant.Name, u user.Info) bool {
	_, is := nodeidentifier.NewDefaultNodeIdentifier().NodeIdentity(u)
	return is && userTenant == tenant.System
}

// Granted is a rule of a TenantAccessPolicy.
type Granted struct {
	// Namespaces are those in which it holds; v1alpha1.AllNamespaces is all, and what is in none.
	Namespaces []string
	rbacv1.PolicyRule
}

// holdsIn reports whether a rule applies to a namespace or, for an empty one, to
// cluster-scoped objects.
func (r *Granted) holdsIn(namespace string) bool {
	return slices.ContainsFunc(r.Namespaces, func(n string) bool {
		return n == v1alpha1.AllNamespaces || n == namespace && namespace != ""
	})
}

// GrantedTo returns the rules by which policies of space let a user of another tenant in.
func (g *Grants) GrantedTo(ctx context.Context, userTenant, space tenant.Name, u user.Info) []Granted {
	return slices.Collect(g.granted(ctx, userTenant, space, u))
}

func (g *Grants) granted(ctx context.Context, userTenant, space tenant.Name, u user.Info) iter.Seq[Granted] {
	return func(yield func(Granted) bool) {
		for _, granted := range g.to(userTenant, space) {
			if ctx.Err() != nil {
				return
			}
			if !granted.names(u) || !g.matches(ctx, userTenant, granted) {
				continue
			}
			for _, rule := range granted.rules {
				if !yield(rule) {
					return
				}
			}
		}
	}
}

// Namespaces returns the namespaces that the lines name which can decide in ctx, each once: "" stands for
// requests without a namespace, and "*" for all.
func (l *ABAC) Namespaces(ctx context.Context) []string {
	var names []string
	lists := l.listsFor(ctx)
	if userTenant, space, foreign := tenant.Foreign(ctx); foreign {
		lists = append(lists[:0:0], l.policies[scope{userTenant, space.Scope()}])
	}
	for _, list := range lists {
		for _, policy := range list {
			names = append(names, policy.Spec.Namespace)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Lists reports whether the lines let a user list a resource in a namespace of the space of ctx, the
// user's own or another tenant's.
func (l *ABAC) Lists(ctx context.Context, u user.Info, group, resource, namespace string) (bool, error) {
	a := authorizer.AttributesRecord{User: u, Verb: "list", APIGroup: group, Resource: resource, Namespace: namespace, ResourceRequest: true}
	if userTenant, space, foreign := tenant.Foreign(ctx); foreign {
		return l.authorizeForeign(ctx, userTenant, space, a), nil
	}
	decision, _, err := l.Authorize(ctx, a)
	return decision == authorizer.DecisionAllow, err
}
