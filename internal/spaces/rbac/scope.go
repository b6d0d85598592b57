package rbac

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

// A ClusterRole of the system space says by annotations in which spaces its rules hold for
// system users, to whom a ClusterRoleBinding of the system space grants it.
// tenant.ScopeAnnotation is one of these. tenant.SelectorAnnotation is a label selector of
// Tenants that limits the scope to their spaces.
const (
	// ScopeSystem is the system space, as without the annotation.
	ScopeSystem = "System"
	// ScopeTenants is the tenants' spaces, and not the system space.
	ScopeTenants = "Tenants"
	// ScopeAll is both.
	ScopeAll = "All"
)

// Scope says where the rules of a ClusterRole of the system space hold.
type Scope struct {
	// System is whether they hold in the system space.
	System bool
	// Tenants selects the Tenants in whose spaces they hold, nil for none.
	Tenants labels.Selector
}

// Tenanted reports whether the rules hold in any tenant's space.
func (s Scope) Tenanted() bool { return s.Tenants != nil }

// ScopeOf returns the scope of a ClusterRole of the system space with the given
// annotations. If they are invalid, the role holds nowhere.
func ScopeOf(annotations map[string]string) (Scope, error) {
	scope, _ := valueOf(annotations, tenant.ScopeAnnotation)
	expression, selective := valueOf(annotations, tenant.SelectorAnnotation)
	selector, err := labels.Parse(expression)
	if err != nil {
		return Scope{}, fmt.Errorf("annotation %s: %w", tenant.SelectorAnnotation, err)
	}
	switch scope {
	case "", ScopeSystem:
		if selective {
			return Scope{}, fmt.Errorf("annotation %s needs %s: %s or %s", tenant.SelectorAnnotation, tenant.ScopeAnnotation, ScopeTenants, ScopeAll)
		}
		return Scope{System: true}, nil
	case ScopeTenants:
		return Scope{Tenants: selector}, nil
	case ScopeAll:
		return Scope{System: true, Tenants: selector}, nil
	default:
		return Scope{}, fmt.Errorf("annotation %s is %q, and must be %s, %s or %s", tenant.ScopeAnnotation, scope, ScopeSystem, ScopeTenants, ScopeAll)
	}
}

// knownAnnotations are the platform's annotations that a ClusterRole of the system space may
// have, by their present names.
var knownAnnotations = []string{
	tenant.ScopeAnnotation, tenant.SelectorAnnotation, tenant.PublishedAnnotation, tenant.PublishedFromAnnotation, tenant.Annotation,
	v1alpha1.HostObjectAnnotation, v1alpha1.HostContentAnnotation,
}

// ValidateAnnotations returns what is wrong with the platform's annotations of a ClusterRole
// of the system space that is written: a name that means nothing there, or a selector that
// selects all tenants by its emptiness. Both give more than was meant. What old has alike
// is not looked at.
func ValidateAnnotations(annotations, old map[string]string) error {
	ours := ownOf(annotations)
	if maps.Equal(ours, ownOf(old)) {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(ours)) {
		if !slices.ContainsFunc(knownAnnotations, func(known string) bool { return key == known || key == tenant.Former(known) }) {
			return fmt.Errorf("annotation %s means nothing on a ClusterRole; correct it to %s, %s or %s, or remove it",
				key, tenant.ScopeAnnotation, tenant.SelectorAnnotation, tenant.PublishedAnnotation)
		}
	}
	if expression, found := valueOf(annotations, tenant.SelectorAnnotation); found && strings.TrimSpace(expression) == "" {
		return fmt.Errorf("annotation %s is empty, and would select all tenants; name labels of Tenants, or remove it if all are meant", tenant.SelectorAnnotation)
	}
	return nil
}

// ownOf returns the annotations that are the platform's, by their present or former names.
func ownOf(annotations map[string]string) map[string]string {
	ours := maps.Clone(annotations)
	maps.DeleteFunc(ours, func(key, _ string) bool {
		return !tenant.IsOurs(key)
	})
	return ours
}

// noRules replaces a ClusterRole where it does not hold.
var noRules = &rbacv1.ClusterRole{}

// valueOf returns an annotation by its key or, without that, by the former one: what was
// granted by that stays granted.
func valueOf(annotations map[string]string, key string) (string, bool) {
	if value, ok := annotations[key]; ok {
		return value, true
	}
	value, ok := annotations[tenant.Former(key)]
	return value, ok
}

// setScope notes the scope of a ClusterRole of the system space, if it is not the
// default one.
func (i *Index) setScope(role *rbacv1.ClusterRole, deleted bool) {
	scope, err := ScopeOf(role.Annotations)
	_, known := i.scopes[nameIn(role)]
	if !deleted && (err != nil || !scope.System || scope.Tenanted()) {
		i.scopes[nameIn(role)] = scope
	} else if known {
		delete(i.scopes, nameIn(role))
	} else {
		return
	}
	i.scopedBindings = sync.OnceValue(i.bindScopes)
}

// holdsInSystem reports whether a ClusterRole of the system space holds there.
func (i *Index) holdsInSystem(name string) bool {
	scope, found := i.scopes[name]
	return !found || scope.System
}

// bindScopes returns which bindings of the system space hold in tenants' spaces, and the
// default ones.
func (i *Index) bindScopes() []*rbacv1.ClusterRoleBinding {
	i.mu.RLock()
	scopes := maps.Clone(i.scopes)
	i.mu.RUnlock()
	bound := defaultClusterRoleBindings()
	bindings, _ := i.clusterRoleBindings.get(tenant.System)
	for _, binding := range bindings {
		if scopes[binding.RoleRef.Name].Tenanted() {
			bound = append(bound, binding)
		}
	}
	return bound
}

// platform is the RBAC of system users in tenants' spaces: what ClusterRoles of the
// system space grant there.
type platform struct{ *Index }

// GetRole returns none.
func (platform) GetRole(_ context.Context, _, name string) (*rbacv1.Role, error) {
	return nil, apierrors.NewNotFound(rbacv1.Resource("role"), name)
}

// ListRoleBindings returns none: RoleBindings apply to a namespace of the system space.
func (platform) ListRoleBindings(context.Context, string) ([]*rbacv1.RoleBinding, error) {
	return nil, nil
}

// ListClusterRoleBindings returns the bindings to roles that hold in any tenant's
// space, and the default ones. The slice is shared and must not be changed.
func (p platform) ListClusterRoleBindings(context.Context) ([]*rbacv1.ClusterRoleBinding, error) {
	p.mu.RLock()
	bindings := p.scopedBindings
	p.mu.RUnlock()
	return bindings(), nil
}

// GetClusterRole returns the ClusterRole as it holds in the space of ctx. In all
// tenants' spaces at once, it holds if it holds in each, also in future ones.
func (p platform) GetClusterRole(ctx context.Context, name string) (*rbacv1.ClusterRole, error) {
	in, err := tenant.ScopeFrom(ctx)
	if err != nil {
		return nil, err
	}
	p.mu.RLock()
	scope := p.scopes[name]
	role := p.clusterRoles[tenant.System][name]
	p.mu.RUnlock()
	switch {
	case !scope.Tenanted():
		if slices.Contains(userBindings, name) { // bindings and their roles have the same names
			return defaultClusterRoles()[name], nil
		}
	case role == nil:
	case scope.Tenants.Empty():
		return role, nil
	default:
		if n, one := in.Tenant(); one && scope.Tenants.Matches(p.labelsOf(n)) {
			return role, nil
		}
	}
	return noRules, nil
}
