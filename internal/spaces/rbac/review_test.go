package rbac

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/tenant"
)

// boundOften returns an index with roles in a namespace of the space a, each of which has as many
// rules and bindings to a subject.
func boundOften(subject rbacv1.Subject, roles, rules, bindings int) *Index {
	i := newIndex(nil)
	for r := range roles {
		role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "a|ns", Name: fmt.Sprint("r", r)}}
		for k := range rules {
			role.Rules = append(role.Rules, rule("get", "", fmt.Sprint(role.Name, "-", k)))
		}
		i.setRole(role, false)
		for b := range bindings {
			i.setRoleBinding(&rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: "a|ns", Name: fmt.Sprint("b", r, "-", b)}, Subjects: []rbacv1.Subject{subject},
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
			}, false)
		}
	}
	return i
}

var jane = rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "jane"}

func userOf(name string, groups ...string) (context.Context, user.Info) {
	u := &user.DefaultInfo{Name: name, Groups: groups, Extra: map[string][]string{tenant.UserExtraKey: {"a"}}}
	return request.WithUser(in("a"), u), u
}

// TestRulesComeOnce checks that the rules of a role come once, however many bindings there are to
// it, in reviews and in checks of escalation.
func TestRulesComeOnce(t *testing.T) {
	const roles, rules = 3, 50
	for _, subject := range []rbacv1.Subject{
		jane, {Kind: rbacv1.GroupKind, Name: "g-1"}, {Kind: rbacv1.ServiceAccountKind, Name: "sa"}, {Kind: rbacv1.ServiceAccountKind, Namespace: "ns", Name: "sa"},
	} {
		name := "jane"
		if subject.Kind == rbacv1.ServiceAccountKind {
			name = "system:serviceaccount:ns:sa"
		}
		for _, bindings := range []int{1, 2, 2 * manyBindings} {
			i := boundOften(subject, roles, rules, bindings)
			ctx, u := userOf(name, groups("g", 2)...)
			resources, _, incomplete, err := NewAuthorizer(i).RulesFor(ctx, u, "ns")
			if len(resources) != roles*rules || incomplete || err != nil {
				t.Errorf("%v, %d bindings: %d rules, incomplete %v, %v", subject, bindings, len(resources), incomplete, err)
			}
			if held, err := NewRules(i, nil).RulesFor(ctx, u, "ns"); len(held) != roles*rules || err != nil {
				t.Errorf("%v, %d bindings: %d rules are compared, %v", subject, bindings, len(held), err)
			}
			ctx, u = userOf("joe", "g-7")
			if resources, _, _, err := NewAuthorizer(i).RulesFor(ctx, u, "ns"); len(resources) > 0 || err != nil {
				t.Errorf("%v: another user has %d rules, %v", subject, len(resources), err)
			}
		}
	}
}

// TestReviewEnds checks that a review reads no more rules than it answers, and none for a request
// that has ended.
func TestReviewEnds(t *testing.T) {
	i := boundOften(jane, 3, MaxReviewedRules/2, 1)
	ctx, u := userOf("jane")
	resources, _, incomplete, err := NewAuthorizer(i).RulesFor(ctx, u, "ns")
	if len(resources) > MaxReviewedRules || len(resources) < MaxReviewedRules/2 || !incomplete || err == nil {
		t.Errorf("%d rules, incomplete %v, %v", len(resources), incomplete, err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	resources, _, incomplete, err = NewAuthorizer(i).RulesFor(ended, u, "ns")
	if len(resources) > 0 || !incomplete || !errors.Is(err, context.Canceled) {
		t.Errorf("after the request: %d rules, incomplete %v, %v", len(resources), incomplete, err)
	}
	if held, err := NewRules(i, nil).RulesFor(ended, u, "ns"); len(held) > 1 || !errors.Is(err, context.Canceled) {
		t.Errorf("after the request: %d rules are compared, %v", len(held), err)
	}
}

// TestReviewOfRolesThatAreNot checks that what cannot be read is said, in an answer of some size.
func TestReviewOfRolesThatAreNot(t *testing.T) {
	i := newIndex(nil)
	for b := range 2 * MaxReviewedRules {
		i.setRoleBinding(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "a|ns", Name: fmt.Sprint(b)}, Subjects: []rbacv1.Subject{jane},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: fmt.Sprint("unknown-", b)}}, false)
	}
	ctx, u := userOf("jane")
	_, _, incomplete, err := NewAuthorizer(i).RulesFor(ctx, u, "ns")
	if !incomplete || err == nil || !strings.Contains(err.Error(), "unknown-1") || len(err.Error()) > MaxReviewedBytes {
		t.Errorf("incomplete is %v, with an error of %d bytes", incomplete, len(err.Error()))
	}
}

// TestDecisionsReadARoleOnce checks that a decision about a user with many bindings to one role
// looks at one of them.
func TestDecisionsReadARoleOnce(t *testing.T) {
	i := boundOften(jane, 1, 10, 10*manyBindings)
	ctx, u := userOf("jane")
	bindings, err := RoleBindings{i}.ListRoleBindings(withMember(ctx, u), "ns")
	if len(bindings) != 1 || err != nil {
		t.Errorf("%d bindings, %v", len(bindings), err)
	}
	for resource, want := range map[string]authorizer.Decision{"r0-9": authorizer.DecisionAllow, "r0-10": authorizer.DecisionNoOpinion} {
		decision, reason, err := NewAuthorizer(i).Authorize(ctx, authorizer.AttributesRecord{
			User: u, Verb: "get", Resource: resource, Namespace: "ns", ResourceRequest: true,
		})
		if decision != want || err != nil {
			t.Errorf("%s: %v, %q, %v", resource, decision, reason, err)
		}
	}
}
