package authorization

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/tenant"
)

func policyFile(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.jsonl")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func v1beta1(spec string) string {
	return `{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": {` + spec + `}}`
}

const anything = `"namespace": "*", "resource": "*", "apiGroup": "*"`

func TestABACFile(t *testing.T) {
	for name, tc := range map[string]struct {
		line string
		want string // part of the error, empty for none
	}{
		"upstream's format":      {line: v1beta1(`"user": "alice", ` + anything)},
		"its first format":       {line: `{"user": "alice", "resource": "pods", "readonly": true}`},
		"a comment":              {line: "# alice"},
		"nothing":                {line: "  "},
		"a tenant":               {line: v1beta1(`"tenant": "tenant-a", "user": "alice", ` + anything)},
		"the system tenant":      {line: v1beta1(`"tenant": "system", "user": "alice", ` + anything)},
		"every tenant":           {line: v1beta1(`"tenant": "*", "user": "alice", ` + anything)},
		"another's space":        {line: v1beta1(`"tenant": "a", "space": "b", "user": "alice", ` + anything)},
		"a system user's space":  {line: v1beta1(`"space": "b", "user": "alice", ` + anything)},
		"a system user's spaces": {line: v1beta1(`"space": "*", "user": "alice", ` + anything)},

		"two tenants":                  {line: v1beta1(`"tenant": "a", "user": "alice", "tenant": "b", ` + anything), want: `duplicate field "tenant"`},
		"two specs":                    {line: `{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": {}, "spec": {"tenant": "a"}}`, want: `duplicate field "spec"`},
		"an invalid tenant":            {line: v1beta1(`"tenant": "tenant A", "user": "alice", ` + anything), want: "invalid tenant name"},
		"an invalid space":             {line: v1beta1(`"space": "B", "user": "alice", ` + anything), want: "spec.space"},
		"all":                          {line: v1beta1(`"tenant": "all", "user": "alice", ` + anything), want: "reserved"},
		"every tenant in a space":      {line: v1beta1(`"tenant": "*", "space": "a", "user": "alice", ` + anything), want: "short for"},
		"every space of a tenant":      {line: v1beta1(`"tenant": "a", "space": "*", "user": "alice", ` + anything), want: "system tenant only"},
		"the system space of a tenant": {line: v1beta1(`"tenant": "a", "space": "system", "user": "alice", ` + anything), want: "system tenant only"},
		"a number":                     {line: v1beta1(`"tenant": 7, "user": "alice"`), want: "spec.tenant"},
		"beside the spec":              {line: `{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "tenant": "a", "spec": {}}`, want: "belongs into the spec"},
		"in the first format":          {line: `{"user": "alice", "tenant": "a"}`, want: "belongs into the spec"},
		"upper case":                   {line: v1beta1(`"Tenant": "a", "user": "alice", ` + anything), want: `unknown field "Tenant"`},
		"misspelt":                     {line: v1beta1(`"tennant": "a", "user": "alice", ` + anything), want: `unknown field "tennant"`},
		"an unknown field":             {line: `{"user": "alice", "resources": "pods"}`, want: `unknown field "resources"`},
		"no JSON":                      {line: "alice", want: "line 2"},
		"cut short":                    {line: `{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind"`, want: "line 2"},
		"a list":                       {line: `[]`, want: "line 2"},
		"another kind":                 {line: `{"apiVersion": "v1", "kind": "Pod", "spec": {}}`, want: "line 2"},
	} {
		t.Run(name, func(t *testing.T) {
			path := policyFile(t, "# first line", tc.line)
			_, err := newABAC(path)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("unexpected error: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), path+", line 2")):
				t.Errorf("got error %v, want one with %q and the line", err, tc.want)
			}
		})
	}
	if _, err := newABAC(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("no error without a file")
	}
}

func TestABAC(t *testing.T) {
	abac, err := newABAC(policyFile(t,
		v1beta1(`"user": "root", `+anything),
		v1beta1(`"tenant": "a", "user": "alice", `+anything),
		v1beta1(`"tenant": "a", "group": "viewers", "readonly": true, `+anything),
		v1beta1(`"tenant": "*", "user": "operator", `+anything),
		v1beta1(`"space": "a", "user": "auditor", "readonly": true, `+anything),
		v1beta1(`"tenant": "b", "space": "a", "user": "bob", "namespace": "x", "resource": "*", "apiGroup": "*"`),
	))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		userTenant tenant.Name
		requested  tenant.Scope
		user       string
		groups     []string
		verb       string // get by default
		resource   string // pods by default
		group      string
		namespace  string // x by default
		path       string
		away       bool
		allowed    bool
	}{
		"system user":                             {userTenant: "system", user: "root", allowed: true},
		"system user in a space":                  {userTenant: "system", requested: "a", user: "root"},
		"system user in all":                      {userTenant: "system", requested: "all", user: "root"},
		"a tenant's user of that name":            {userTenant: "a", user: "root"},
		"tenant's user":                           {userTenant: "a", user: "alice", verb: "create", allowed: true},
		"tenant's user by full path":              {userTenant: "a", requested: "a", user: "alice", allowed: true},
		"system user of that name":                {userTenant: "system", user: "alice"},
		"system user of that name in a":           {userTenant: "system", requested: "a", user: "alice"},
		"another tenant's user of that name":      {userTenant: "b", user: "alice"},
		"tenant's user leaving":                   {userTenant: "a", requested: "b", user: "alice"},
		"tenant's user in system":                 {userTenant: "a", requested: "system", user: "alice"},
		"group":                                   {userTenant: "a", user: "joe", groups: []string{"viewers"}, allowed: true},
		"group, writing":                          {userTenant: "a", user: "joe", groups: []string{"viewers"}, verb: "delete"},
		"operator in a":                           {userTenant: "system", requested: "a", user: "operator", allowed: true},
		"operator in all":                         {userTenant: "system", requested: "all", user: "operator", allowed: true},
		"operator in the system space":            {userTenant: "system", user: "operator"},
		"a tenant's operator":                     {userTenant: "a", user: "operator"},
		"a tenant's operator elsewhere":           {userTenant: "b", requested: "a", user: "operator"},
		"auditor in a":                            {userTenant: "system", requested: "a", user: "auditor", allowed: true},
		"auditor in a, writing":                   {userTenant: "system", requested: "a", user: "auditor", verb: "update"},
		"auditor in b":                            {userTenant: "system", requested: "b", user: "auditor"},
		"foreign user":                            {userTenant: "b", requested: "a", user: "bob", allowed: true},
		"foreign user, writing":                   {userTenant: "b", requested: "a", user: "bob", verb: "create", allowed: true},
		"foreign user in another namespace":       {userTenant: "b", requested: "a", user: "bob", namespace: "y"},
		"foreign user giving rights":              {userTenant: "b", requested: "a", user: "bob", verb: "create", group: "rbac.authorization.k8s.io", resource: "rolebindings"},
		"foreign user, impersonating":             {userTenant: "b", requested: "a", user: "bob", verb: "impersonate", resource: "serviceaccounts"},
		"foreign user finding its way":            {userTenant: "b", requested: "a", user: "bob", path: "/apis", allowed: true},
		"foreign user looking at metrics":         {userTenant: "b", requested: "a", user: "bob", path: "/metrics"},
		"another foreign user finding its way":    {userTenant: "b", requested: "a", user: "joe", path: "/apis"},
		"foreign user of a tenant out of service": {userTenant: "b", requested: "a", user: "bob", away: true},
		"foreign user in its own space":           {userTenant: "b", user: "bob"},
	} {
		t.Run(name, func(t *testing.T) {
			attributes := authorizer.AttributesRecord{Verb: tc.verb, Resource: tc.resource, APIGroup: tc.group, Namespace: tc.namespace, ResourceRequest: tc.path == "", Path: tc.path}
			for into, value := range map[*string]string{&attributes.Verb: "get", &attributes.Resource: "pods", &attributes.Namespace: "x"} {
				if *into == "" {
					*into = value
				}
			}
			u := &user.DefaultInfo{Name: tc.user, Groups: tc.groups, Extra: map[string][]string{tenant.UserExtraKey: {string(tc.userTenant)}}}
			attributes.User = u
			ctx := tenant.WithRequest(request.WithUser(context.Background(), u), &tenant.Request{Requested: tc.requested, Authenticated: tc.userTenant})
			grants := NewGrants(func(context.Context, tenant.Name) (types.UID, bool) { return "uid", !tc.away })
			decision, reason, err := New(abac, grants, abac).Authorize(ctx, attributes)
			if allowed := decision == authorizer.DecisionAllow; err != nil || allowed != tc.allowed {
				t.Errorf("got %v, %q, %v; want allowed %t", decision, reason, err, tc.allowed)
			}
		})
	}
}

// However a line is made, it never lets a tenant's users into the system space or
// everywhere.
func FuzzPolicyLine(f *testing.F) {
	for _, line := range []string{
		v1beta1(`"user": "alice", ` + anything), v1beta1(`"tenant": "a", "user": "alice"`), v1beta1(`"tenant": "*", "space": "a"`),
		v1beta1(`"tenant": "a", "space": "*"`), v1beta1(`"Tenant": "a", "SPACE": "system"`), v1beta1(`"tenant": null, "space": "a"`),
		v1beta1(`"tenant": "a", "\u0074enant": "system"`), `{"user": "alice"}`, `{"spec": null}`, `{"spec": [1]}`, `{`, `{"spec": {"tenant": "a"}} {"spec": {}}`, "null", `"x"`, `{"a": 1,}`,
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		s, policy, err := parseLine([]byte(line))
		if err != nil {
			return
		}
		if policy == nil {
			t.Error("accepted without a policy")
		}
		if _, of := s.in.Tenant(); s.user != tenant.System && (!s.user.IsSpace() || !of) {
			t.Errorf("accepted for users of %q in %q", s.user, s.in)
		}
	})
}
