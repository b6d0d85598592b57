package authorization

import (
	"cmp"
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	authuser "k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/server/registry/user"
	"github.com/tenantry/tenantry/internal/tenant"
)

// newUser returns a User as it is stored.
func newUser(n tenant.Name, username string, uid types.UID) *v1alpha1.User {
	return &v1alpha1.User{
		ObjectMeta: metav1.ObjectMeta{Name: username, UID: uid, Annotations: map[string]string{tenant.Annotation: n.String()}},
		Spec:       v1alpha1.UserSpec{Username: username},
	}
}

// as returns the context of a request of a tenant's user in the space of n.
func as(ctx context.Context, name string, of, n tenant.Name) context.Context {
	u := &authuser.DefaultInfo{Name: name, UID: "uid", Extra: map[string][]string{tenant.UserExtraKey: {of.String()}}}
	r := &tenant.Request{Requested: n.Scope(), Authenticated: of}
	r.Admit(of)
	return request.WithUser(tenant.WithRequest(ctx, r), u)
}

// everything allows all.
type everything struct{}

func (everything) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionAllow, "", nil
}

func (everything) RulesFor(context.Context, authuser.Info, string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	return []authorizer.ResourceRuleInfo{&authorizer.DefaultResourceRuleInfo{}}, nil, false, nil
}

// TestEnding checks that nobody has rights in their namespaces while their User is being deleted, whatever binds them
// there.
func TestEnding(t *testing.T) {
	index := user.NewIndex()
	mallory := newUser("acme", "mallory", "1")
	mallory.DeletionTimestamp = &metav1.Time{}
	index.Replace([]*v1alpha1.User{mallory, newUser("acme", "alice", "2"), newUser("globex", "mallory", "3")})
	namespaces := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for name, creator := range map[string]string{"acme|hers": "1", "acme|alices": "2", "acme|shared": "", "globex|hers": "3", "hers": "1"} {
		if err := namespaces.Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{tenant.CreatedByLabel: creator}}}); err != nil {
			t.Fatal(err)
		}
	}
	ending := Creators{Rights: everything{}, Users: index, Namespaces: corelisters.NewNamespaceLister(namespaces)}
	for name, tc := range map[string]struct {
		user, namespace string
		space           tenant.Name
		denied          bool
		of              tenant.Name // the space's, if empty
	}{
		"her namespace":                   {"mallory", "hers", "acme", true, ""},
		"another's":                       {"mallory", "alices", "acme", false, ""},
		"one of the administrators":       {"mallory", "shared", "acme", false, ""},
		"none":                            {"mallory", "", "acme", false, ""},
		"one that is not there":           {"mallory", "gone", "acme", false, ""},
		"another in it":                   {"alice", "hers", "acme", false, ""},
		"who is not deleted":              {"alice", "alices", "acme", false, ""},
		"the User of a name elsewhere":    {"mallory", "hers", "globex", false, ""},
		"the platform's of her name":      {"mallory", "hers", "acme", false, tenant.System},
		"a foreign one of her name":       {"mallory", "hers", "acme", false, "globex"},
		"a namespace of the system space": {"mallory", "hers", tenant.System, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := as(t.Context(), tc.user, cmp.Or(tc.of, tc.space), tc.space)
			u := &authuser.DefaultInfo{Name: tc.user}
			decision, _, err := ending.Authorize(ctx, authorizer.AttributesRecord{User: u, Namespace: tc.namespace})
			if err != nil || (decision == authorizer.DecisionDeny) != tc.denied || tc.denied == (decision == authorizer.DecisionAllow) {
				t.Errorf("got %v, %v", decision, err)
			}
			rules, _, _, err := ending.RulesFor(ctx, u, tc.namespace)
			if err != nil || (len(rules) == 0) != tc.denied {
				t.Errorf("got rules %v, %v", rules, err)
			}
		})
	}
	index.Delete(mallory)
	if decision, _, _ := ending.Authorize(as(t.Context(), "mallory", "acme", "acme"), authorizer.AttributesRecord{
		User: &authuser.DefaultInfo{Name: "mallory"}, Namespace: "hers"}); decision != authorizer.DecisionAllow {
		t.Error("whoever is bound again afterwards has no rights")
	}
}

// nothing has no opinion.
type nothing struct{ everything }

func (nothing) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionNoOpinion, "", nil
}

// TestCreators checks that users look for the namespaces by name that their Users have created, and for no others.
func TestCreators(t *testing.T) {
	index := user.NewIndex()
	index.Replace([]*v1alpha1.User{newUser("acme", "alice", "1"), newUser("globex", "alice", "2")})
	namespaces := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for name, creator := range map[string]string{"acme|hers": "1", "acme|others": "3", "acme|plain": "", "globex|theirs": "2"} {
		if err := namespaces.Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{tenant.CreatedByLabel: creator}}}); err != nil {
			t.Fatal(err)
		}
	}
	creators := Creators{Rights: nothing{}, Users: index, Namespaces: corelisters.NewNamespaceLister(namespaces)}
	for name, tc := range map[string]struct {
		user, verb, name string
		of               tenant.Name
		resource, group  string
		allowed          bool
	}{
		"list":                      {user: "alice", verb: "list", name: "hers", allowed: true},
		"watch":                     {user: "alice", verb: "watch", name: "hers", allowed: true},
		"delete":                    {user: "alice", verb: "delete", name: "hers"},
		"list all":                  {user: "alice", verb: "list"},
		"another's":                 {user: "alice", verb: "list", name: "others"},
		"nobody's":                  {user: "alice", verb: "list", name: "plain"},
		"one that is not there":     {user: "alice", verb: "list", name: "theirs"},
		"another user":              {user: "bob", verb: "list", name: "hers"},
		"who is none":               {user: "bob", verb: "list", name: "plain"},
		"a foreign one of her name": {user: "alice", verb: "list", name: "hers", of: "globex"},
		"the platform's":            {user: "alice", verb: "list", name: "hers", of: tenant.System},
		"another resource":          {user: "alice", verb: "list", name: "hers", resource: "nodes"},
		"another group":             {user: "alice", verb: "list", name: "hers", group: "example.com"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := as(t.Context(), tc.user, cmp.Or(tc.of, "acme"), "acme")
			decision, _, err := creators.Authorize(ctx, authorizer.AttributesRecord{
				User: &authuser.DefaultInfo{Name: tc.user}, Verb: tc.verb, Name: tc.name, APIGroup: tc.group,
				Resource: cmp.Or(tc.resource, "namespaces"), ResourceRequest: true,
			})
			if err != nil || (decision == authorizer.DecisionAllow) != tc.allowed {
				t.Errorf("got %v, %v", decision, err)
			}
		})
	}
}
