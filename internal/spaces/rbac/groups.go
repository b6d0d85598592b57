package rbac

import (
	"cmp"
	"context"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"
)

const (
	// manyGroups is the number of a user's groups from which on they are looked up in a set.
	// Upstream compares each group with each subject. Users who impersonate or review
	// choose the number of groups, and tenants the number of subjects.
	manyGroups = 64
	// manyBindings is the number of bindings from which on the rules of a role come once.
	// Upstream reads them again for each binding to it.
	manyBindings = 16
)

// member is a user whose bindings are found here instead of by upstream.
type member struct {
	user   user.Info
	groups sets.Set[string] // nil for few
	// once is whether the rules of a role come once however few bindings there are.
	once bool
}

type memberKey struct{}

// withMember returns a context in which the bindings of u are found here, if there are many
// of them or u has many groups.
func withMember(ctx context.Context, u user.Info) context.Context {
	return context.WithValue(ctx, memberKey{}, newMember(u))
}

// withMemberOnce returns a context in which each role has one binding at most.
func withMemberOnce(ctx context.Context, u user.Info) context.Context {
	m := newMember(u)
	m.once = true
	return context.WithValue(ctx, memberKey{}, m)
}

func newMember(u user.Info) *member {
	m := &member{user: u}
	if groups := u.GetGroups(); len(groups) >= manyGroups {
		m.groups = sets.New(groups...)
	}
	return m
}

// subject returns the first subject that applies to the user, as upstream does. In place of one of
// many groups it is the user, with whom upstream compares no groups.
func (m *member) subject(all []rbacv1.Subject, namespace string) (rbacv1.Subject, bool) {
	for _, subject := range all {
		switch subject.Kind {
		case rbacv1.UserKind:
			if subject.Name == m.user.GetName() {
				return subject, true
			}
		case rbacv1.GroupKind:
			if m.groups == nil && slices.Contains(m.user.GetGroups(), subject.Name) {
				return subject, true
			}
			if _, in := m.groups[subject.Name]; in {
				return rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: m.user.GetName()}, true
			}
		case rbacv1.ServiceAccountKind:
			if in := cmp.Or(subject.Namespace, namespace); in != "" && serviceaccount.MatchesUsername(in, subject.Name, m.user.GetName()) {
				return subject, true
			}
		}
	}
	return rbacv1.Subject{}, false
}

// applying returns the bindings that upstream has to look at: the first one of the user of ctx
// to each role, or all of them if they are few.
func applying[B any](ctx context.Context, bindings []*B, namespace string, parts func(*B) (rbacv1.RoleRef, *[]rbacv1.Subject)) []*B {
	m, ok := ctx.Value(memberKey{}).(*member)
	if !ok || !m.once && m.groups == nil && len(bindings) < manyBindings {
		return bindings
	}
	type role struct{ kind, name string }
	bound := map[role]bool{}
	var first []*B
	for _, binding := range bindings {
		ref, subjects := parts(binding)
		to := role{ref.Kind, ref.Name}
		if bound[to] {
			continue
		}
		if subject, ok := m.subject(*subjects, namespace); ok {
			bound[to] = true
			reduced := *binding
			_, subjects := parts(&reduced)
			*subjects = []rbacv1.Subject{subject}
			first = append(first, &reduced)
		}
	}
	return first
}

// RoleBindings lists bindings for users with any number of groups and bindings.
type RoleBindings struct{ validation.RoleBindingLister }

// ListRoleBindings implements validation.RoleBindingLister.
func (l RoleBindings) ListRoleBindings(ctx context.Context, namespace string) ([]*rbacv1.RoleBinding, error) {
	bindings, err := l.RoleBindingLister.ListRoleBindings(ctx, namespace)
	return applying(ctx, bindings, namespace, func(b *rbacv1.RoleBinding) (rbacv1.RoleRef, *[]rbacv1.Subject) {
		return b.RoleRef, &b.Subjects
	}), err
}

// ClusterRoleBindings lists bindings for users with any number of groups and bindings.
type ClusterRoleBindings struct {
	validation.ClusterRoleBindingLister
}

// ListClusterRoleBindings implements validation.ClusterRoleBindingLister.
func (l ClusterRoleBindings) ListClusterRoleBindings(ctx context.Context) ([]*rbacv1.ClusterRoleBinding, error) {
	bindings, err := l.ClusterRoleBindingLister.ListClusterRoleBindings(ctx)
	return applying(ctx, bindings, "", func(b *rbacv1.ClusterRoleBinding) (rbacv1.RoleRef, *[]rbacv1.Subject) {
		return b.RoleRef, &b.Subjects
	}), err
}
