package accesspolicy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/config/crd"
	"github.com/tenantry/tenantry/internal/server/definition"
	"github.com/tenantry/tenantry/internal/tenant"
)

func newPolicy(change ...func(*v1alpha1.TenantAccessPolicySpec)) *v1alpha1.TenantAccessPolicy {
	p := &v1alpha1.TenantAccessPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec: v1alpha1.TenantAccessPolicySpec{
			Subjects: []v1alpha1.ForeignSubject{{Tenant: "b", Kind: v1alpha1.SubjectUser, Name: "jane"}},
			Rules: []v1alpha1.AccessRule{{
				Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"pods"}, Namespaces: []string{"x"},
			}},
		},
	}
	for _, f := range change {
		f(&p.Spec)
	}
	return p
}

func newStrategy(t *testing.T, uids map[tenant.Name]types.UID) strategy {
	t.Helper()
	rules, err := definition.NewRules(crd.TenantAccessPolicies)
	if err != nil {
		t.Fatal(err)
	}
	return strategy{Strategy: definition.Strategy[v1alpha1.TenantAccessPolicy, v1alpha1.TenantAccessPolicyStatus]{Rules: rules, Parts: parts}, now: func() time.Time { return time.Unix(0, 0) },
		uidOf: func(_ context.Context, n tenant.Name) (types.UID, error) {
			if n == "broken" {
				return "", errors.New("etcd is away")
			}
			return uids[n], nil
		}}
}

func TestValidate(t *testing.T) {
	s := newStrategy(t, nil)
	subject := func(change func(*v1alpha1.ForeignSubject)) func(*v1alpha1.TenantAccessPolicySpec) {
		return func(spec *v1alpha1.TenantAccessPolicySpec) { change(&spec.Subjects[0]) }
	}
	rule := func(change func(*v1alpha1.AccessRule)) func(*v1alpha1.TenantAccessPolicySpec) {
		return func(spec *v1alpha1.TenantAccessPolicySpec) { change(&spec.Rules[0]) }
	}
	verbs := func(verbs ...string) func(*v1alpha1.TenantAccessPolicySpec) {
		return rule(func(r *v1alpha1.AccessRule) { r.Verbs = verbs })
	}
	for name, tc := range map[string]struct {
		space  tenant.Name
		policy *v1alpha1.TenantAccessPolicy
		want   string // part of the error, empty for none
	}{
		"valid":                  {policy: newPolicy()},
		"all namespaces":         {policy: newPolicy(rule(func(r *v1alpha1.AccessRule) { r.Namespaces = []string{"*"} }))},
		"all resources":          {policy: newPolicy(rule(func(r *v1alpha1.AccessRule) { r.APIGroups, r.Resources = []string{"*"}, []string{"*"} }))},
		"named":                  {policy: newPolicy(rule(func(r *v1alpha1.AccessRule) { r.ResourceNames = []string{"a"} }))},
		"in the system space":    {space: tenant.System, policy: newPolicy(), want: "belongs into the space"},
		"to itself":              {policy: newPolicy(subject(func(s *v1alpha1.ForeignSubject) { s.Tenant = "a" })), want: "RoleBinding"},
		"to system":              {policy: newPolicy(subject(func(s *v1alpha1.ForeignSubject) { s.Tenant = "system" })), want: "need no policy"},
		"to all":                 {policy: newPolicy(subject(func(s *v1alpha1.ForeignSubject) { s.Tenant = "all" })), want: "no tenant"},
		"to everything":          {policy: newPolicy(subject(func(s *v1alpha1.ForeignSubject) { s.Tenant = "*" })), want: "tenant"},
		"to no tenant":           {policy: newPolicy(subject(func(s *v1alpha1.ForeignSubject) { s.Tenant = "" })), want: "tenant"},
		"to an invalid tenant":   {policy: newPolicy(subject(func(s *v1alpha1.ForeignSubject) { s.Tenant = "B_1" })), want: "tenant"},
		"to a service account":   {policy: newPolicy(subject(func(s *v1alpha1.ForeignSubject) { s.Kind = "ServiceAccount" })), want: "kind"},
		"to no name":             {policy: newPolicy(subject(func(s *v1alpha1.ForeignSubject) { s.Name = "" })), want: "name"},
		"to nobody":              {policy: newPolicy(func(s *v1alpha1.TenantAccessPolicySpec) { s.Subjects = nil }), want: "subjects"},
		"tenants unreadable":     {policy: newPolicy(subject(func(s *v1alpha1.ForeignSubject) { s.Tenant = "broken" })), want: "try again"},
		"nothing":                {policy: newPolicy(func(s *v1alpha1.TenantAccessPolicySpec) { s.Rules = nil }), want: "rules"},
		"no namespaces":          {policy: newPolicy(rule(func(r *v1alpha1.AccessRule) { r.Namespaces = nil })), want: `spec.rules[0].namespaces: Required value: name the namespaces that the rule is about; "*" is every one`},
		"of the platform":        {policy: newPolicy(subject(func(s *v1alpha1.ForeignSubject) { s.Name = "system:admin" })), want: "spec.subjects[0]: Invalid value: names that begin with system:"},
		"group of Kubernetes":    {policy: newPolicy(subject(func(s *v1alpha1.ForeignSubject) { s.Kind, s.Name = "Group", "system:masters" })), want: "are the platform's"},
		"a service account":      {policy: newPolicy(subject(func(s *v1alpha1.ForeignSubject) { s.Name = "system:serviceaccount:x:y" }))},
		"half a service account": {policy: newPolicy(subject(func(s *v1alpha1.ForeignSubject) { s.Name = "system:serviceaccount:x" })), want: "system:serviceaccount:NAMESPACE:NAME"},
		"blanks around a name":   {policy: newPolicy(subject(func(s *v1alpha1.ForeignSubject) { s.Name = " jane" })), want: "blanks around"},
		"all service accounts":   {policy: newPolicy(subject(func(s *v1alpha1.ForeignSubject) { s.Kind, s.Name = "Group", "system:serviceaccounts" }))},
		"no resources":           {policy: newPolicy(rule(func(r *v1alpha1.AccessRule) { r.Resources = nil })), want: "spec.rules[0].resources: Required value"},
		"an invalid namespace":   {policy: newPolicy(rule(func(r *v1alpha1.AccessRule) { r.Namespaces = []string{"x*"} })), want: "namespaces"},
		"no verb":                {policy: newPolicy(verbs()), want: "verbs"},
		"every verb":             {policy: newPolicy(verbs("*")), want: "verbs"},
		"impersonate":            {policy: newPolicy(verbs("get", "impersonate")), want: "verbs"},
		"escalate":               {policy: newPolicy(verbs("escalate")), want: "verbs"},
		"bind":                   {policy: newPolicy(verbs("bind")), want: "verbs"},
		"approve":                {policy: newPolicy(verbs("approve")), want: "verbs"},
	} {
		t.Run(name, func(t *testing.T) {
			space := tc.space
			if space == "" {
				space = "a"
			}
			ctx := tenant.WithSpace(context.Background(), space)
			s.PrepareForCreate(ctx, tc.policy)
			err := s.Validate(ctx, tc.policy).ToAggregate()
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("unexpected error: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestGrantees(t *testing.T) {
	uids := map[tenant.Name]types.UID{"b": "b-1"}
	s, ctx := newStrategy(t, uids), context.Background()
	created := newPolicy(func(spec *v1alpha1.TenantAccessPolicySpec) {
		spec.Subjects = append(spec.Subjects, v1alpha1.ForeignSubject{Tenant: "later", Kind: v1alpha1.SubjectUser, Name: "jane"},
			v1alpha1.ForeignSubject{Tenant: "b", Kind: v1alpha1.SubjectGroup, Name: "devs"})
	})
	created.Status.Grantees = []v1alpha1.Grantee{{Tenant: "b", UIDDigest: "forged"}}
	s.PrepareForCreate(ctx, created)
	if got, want := matching(created, "b-1", ""), []string{"b"}; !cmp.Equal(got, want) {
		t.Errorf("created: %v are in, want %v", got, want)
	}
	// Both tenants are created anew; a change of the policy does not let them in.
	uids["b"], uids["later"] = "b-2", "later-1"
	updated := created.DeepCopy()
	updated.Status.Grantees[0].UIDDigest = newUIDDigest("b-2")
	updated.Spec.Rules[0].Verbs = []string{"get"}
	s.PrepareForUpdate(ctx, updated, created)
	if got := matching(updated, "b-2", "later-1"); len(got) > 0 {
		t.Errorf("updated: %v are in, want none", got)
	}
	if updated.Generation != 2 || updated.Status.ObservedGeneration != 2 {
		t.Errorf("generation %d, observed %d; want 2", updated.Generation, updated.Status.ObservedGeneration)
	}
	// Who is named anew is meant as it is now.
	removed := updated.DeepCopy()
	removed.Spec.Subjects = removed.Spec.Subjects[1:2]
	s.PrepareForUpdate(ctx, removed, updated)
	again := removed.DeepCopy()
	again.Spec.Subjects = updated.Spec.Subjects
	s.PrepareForUpdate(ctx, again, removed)
	if got, want := matching(again, "b-2", "later-1"), []string{"b"}; !cmp.Equal(got, want) {
		t.Errorf("named anew: %v are in, want %v", got, want)
	}
}

// matching returns the tenants that are let in if they have one of the UIDs.
func matching(p *v1alpha1.TenantAccessPolicy, uids ...types.UID) []string {
	var result []string
	for _, grantee := range p.Status.Grantees {
		for _, uid := range uids {
			if ParseUIDDigest(grantee.UIDDigest).Matches(uid) {
				result = append(result, grantee.Tenant)
			}
		}
	}
	return result
}

func TestGrantable(t *testing.T) {
	for request, want := range map[[3]string]bool{
		{"get", "", "pods"}:                                        true,
		{"create", "", "pods/exec"}:                                true,
		{"deletecollection", "apps", "deployments"}:                true,
		{"get", "rbac.authorization.k8s.io", "roles"}:              true,
		{"update", "rbac.authorization.k8s.io", "roles"}:           false,
		{"create", "rbac.authorization.k8s.io", "rolebindings"}:    false,
		{"create", "", "serviceaccounts/token"}:                    false,
		{"create", "certificates.k8s.io", "x"}:                     false,
		{"create", "tenantry.io", "networks"}:                      true,
		{"create", "tenantry.io", "tenantaccesspolicies"}:          false,
		{"delete", "tenantry.io", "users"}:                         false,
		{"patch", "tenantry.io", "users/status"}:                   false,
		{"get", "tenantry.io", "users/status"}:                     true,
		{"list", "tenantry.io", "users"}:                           true,
		{"create", "authentication.k8s.io", "tokenreviews"}:        false,
		{"create", "authorization.k8s.io", "subjectaccessreviews"}: false,
		{"impersonate", "", "users"}:                               false,
		{"escalate", "rbac.authorization.k8s.io", "clusterroles"}:  false,
		{"bind", "rbac.authorization.k8s.io", "clusterroles"}:      false,
		{"sign", "certificates.k8s.io", "signers"}:                 false,
		{"impersonate-on:user-info:get", "", "pods"}:               false,
		{"use", "example.com", "things"}:                           false,
		{"", "", "pods"}:                                           false,
	} {
		if got := Grantable(request[0], request[1], request[2]); got != want {
			t.Errorf("%v: got %t, want %t", request, got, want)
		}
	}
}

// TestWarnings checks that rules without effect are named once each, whatever their size.
func TestWarnings(t *testing.T) {
	many := make([]string, 2000)
	for i := range many {
		many[i] = fmt.Sprint("x", i)
	}
	policy := &v1alpha1.TenantAccessPolicy{Spec: v1alpha1.TenantAccessPolicySpec{Rules: []v1alpha1.AccessRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}},
		{APIGroups: []string{"rbac.authorization.k8s.io"}, Resources: []string{"pods", "roles"}, Verbs: []string{"get", "escalate"}},
		{APIGroups: many, Resources: many, Verbs: []string{"get"}},
	}}}
	got := warnings(policy)
	if len(got) != 1 || !strings.HasPrefix(got[0], "spec.rules[1]: escalate of ") {
		t.Errorf("warnings %v", got)
	}
}
