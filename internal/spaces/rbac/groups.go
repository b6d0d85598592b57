package rbac

import (
	"context"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"
)

// manyGroups is the number of a user's groups from which on they are looked up in a set.
// Upstream compares each group with each subject. Users who impersonate or review
// choose the number of groups, and tenants the number of subjects.
const manyGroups = 64

// member is a user with many groups.
type member struct {
	name   string
	groups map[string]struct{}
}

type memberKey struct{}

// withMember returns a context in which the groups of u are looked up in a set, if it
// has many.
func withMember(ctx context.Context, u user.Info) context.Context {
	groups := u.GetGroups()
	if len(groups) < manyGroups {
		return ctx
	}
	m := &member{name: u.GetName(), groups: make(map[string]struct{}, len(groups))}
	for _, group := range groups {
		m.groups[group] = struct{}{}
	}
	return context.WithValue(ctx, memberKey{}, m)
}

// subjects returns the subjects of a binding that upstream has to compare: no groups,
// and the user by name if it is in one of the groups.
func (m *member) subjects(all []rbacv1.Subject) []rbacv1.Subject {
	others := make([]rbacv1.Subject, 0, len(all))
	in := false
	for _, subject := range all {
		if subject.Kind != rbacv1.GroupKind {
			others = append(others, subject)
		} else if _, ok := m.groups[subject.Name]; ok {
			in = true
		}
	}
	if in {
		others = append(others, rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: m.name})
	}
	return slices.Clip(others)
}

// RoleBindings lists bindings for users with any number of groups.
type RoleBindings struct{ validation.RoleBindingLister }

// ListRoleBindings implements validation.RoleBindingLister.
func (l RoleBindings) ListRoleBindings(ctx context.Context, namespace string) ([]*rbacv1.RoleBinding, error) {
	bindings, err := l.RoleBindingLister.ListRoleBindings(ctx, namespace)
	m, ok := ctx.Value(memberKey{}).(*member)
	if err != nil || !ok {
		return bindings, err
	}
	var matching []*rbacv1.RoleBinding
	for _, binding := range bindings {
		if subjects := m.subjects(binding.Subjects); len(subjects) > 0 {
			matching = append(matching, &rbacv1.RoleBinding{ObjectMeta: binding.ObjectMeta, Subjects: subjects, RoleRef: binding.RoleRef})
		}
	}
	return matching, nil
}

// ClusterRoleBindings lists bindings for users with any number of groups.
type ClusterRoleBindings struct {
	validation.ClusterRoleBindingLister
}

// ListClusterRoleBindings implements validation.ClusterRoleBindingLister.
func (l ClusterRoleBindings) ListClusterRoleBindings(ctx context.Context) ([]*rbacv1.ClusterRoleBinding, error) {
	bindings, err := l.ClusterRoleBindingLister.ListClusterRoleBindings(ctx)
	m, ok := ctx.Value(memberKey{}).(*member)
	if err != nil || !ok {
		return bindings, err
	}
	var matching []*rbacv1.ClusterRoleBinding
	for _, binding := range bindings {
		if subjects := m.subjects(binding.Subjects); len(subjects) > 0 {
			matching = append(matching, &rbacv1.ClusterRoleBinding{ObjectMeta: binding.ObjectMeta, Subjects: subjects, RoleRef: binding.RoleRef})
		}
	}
	return matching, nil
}
