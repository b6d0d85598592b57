package rights

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	authzconfig "k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/server/registry/accesspolicy"
	tenantregistry "github.com/tenantry/tenantry/internal/server/registry/tenant"
	userregistry "github.com/tenantry/tenantry/internal/server/registry/user"
	"github.com/tenantry/tenantry/internal/server/storage"
	"github.com/tenantry/tenantry/internal/tenant"
)

var (
	configMaps = schema.GroupResource{Resource: "configmaps"}
	events     = schema.GroupResource{Resource: "events"}
	nodes      = schema.GroupResource{Resource: "nodes"}
	widgets    = schema.GroupResource{Group: "example.com", Resource: "widgets"}
)

func newState(order ...authzconfig.AuthorizerType) *State {
	if len(order) == 0 {
		order = []authzconfig.AuthorizerType{"Node", "RBAC"}
	}
	return NewState(Config{
		Order: func() []authzconfig.AuthorizerType { return order },
		Builtin: []Resource{
			{Stored: configMaps, Served: []schema.GroupResource{configMaps}},
			{Stored: events, Served: []schema.GroupResource{events, {Group: "events.k8s.io", Resource: "events"}}},
			{Stored: nodes, Served: []schema.GroupResource{nodes}},
			{Stored: namespaces, Served: []schema.GroupResource{namespaces}},
		},
	})
}

// teller tells a state of objects, at one revision after the other.
type teller struct {
	testing.TB
	*State
	revision int64
}

func (s *teller) tell(resource schema.GroupResource, space tenant.Name, namespace, name string, obj runtime.Object) {
	s.Helper()
	s.revision++
	if _, err := s.Tell(resource, storage.ObjectKey{Space: space, Namespace: namespace, Name: name}, obj, s.revision); err != nil {
		s.Fatal(err)
	}
}

func (s *teller) bind(space tenant.Name, namespace, user string, rules ...rbacv1.PolicyRule) {
	s.Helper()
	s.tell(roles, space, namespace, "r-"+user, &rbacv1.Role{Rules: rules})
	s.tell(roleBindings, space, namespace, "b-"+user, &rbacv1.RoleBinding{
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: user}}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "r-" + user},
	})
}

func (s *teller) bindCluster(space tenant.Name, user string, rules ...rbacv1.PolicyRule) {
	s.Helper()
	s.tell(clusterRoles, space, "", "r-"+user, &rbacv1.ClusterRole{Rules: rules})
	s.tell(clusterRoleBindings, space, "", "b-"+user, &rbacv1.ClusterRoleBinding{
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: user}}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "r-" + user},
	})
}

// requestOf returns the context of a request of a user of a tenant in a space.
func requestOf(ctx context.Context, of, space tenant.Name, name string, groups ...string) (context.Context, user.Info) {
	u := &user.DefaultInfo{Name: name, Groups: groups, Extra: map[string][]string{tenant.UserExtraKey: {string(of)}}}
	return tenant.WithRequest(request.WithUser(ctx, u), &tenant.Request{Requested: space.Scope(), Authenticated: of}), u
}

// says returns "yes" or "no" for a ConfigMap x in a, one in b, y in a, and other things.
func (s *teller) says(of, space tenant.Name, name string, groups ...string) string {
	s.Helper()
	ctx, u := requestOf(s.TB.Context(), of, space, name, groups...)
	set, err := s.Compile(ctx, u, space)
	if err != nil {
		return err.Error()
	}
	said := []string{}
	for _, o := range []struct {
		resource        schema.GroupResource
		namespace, name string
	}{{configMaps, "a", "x"}, {configMaps, "b", "x"}, {configMaps, "a", "y"}, {events, "a", "e"}, {nodes, "", "n"}, {namespaces, "", "a"}, {widgets, "a", "w"}} {
		if set.Allows(o.resource, o.namespace, o.name) {
			said = append(said, fmt.Sprintf("%s %s/%s", o.resource.Resource, o.namespace, o.name))
		}
	}
	return strings.Join(said, ", ")
}

func rule(verb, group, resource string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names}
}

func newTenant(n tenant.Name, uid types.UID) *v1alpha1.Tenant {
	return &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: string(n), UID: uid}}
}

func TestRBAC(t *testing.T) {
	const all = "configmaps a/x, configmaps b/x, configmaps a/y"
	for name, tc := range map[string]struct {
		rules   []rbacv1.PolicyRule
		cluster bool
		want    string
	}{
		"none":                      {want: ""},
		"a namespace":               {[]rbacv1.PolicyRule{rule("list", "", "configmaps")}, false, "configmaps a/x, configmaps a/y"},
		"a name":                    {[]rbacv1.PolicyRule{rule("list", "", "configmaps", "x")}, false, "configmaps a/x"},
		"a star is a name":          {[]rbacv1.PolicyRule{rule("list", "", "configmaps", "*")}, false, ""},
		"no list":                   {[]rbacv1.PolicyRule{rule("get", "", "configmaps"), rule("watch", "", "*")}, false, ""},
		"a subresource":             {[]rbacv1.PolicyRule{rule("list", "", "configmaps/status"), rule("list", "", "*/status")}, false, ""},
		"another group":             {[]rbacv1.PolicyRule{rule("list", "apps", "*")}, false, ""},
		"namespaces in a namespace": {[]rbacv1.PolicyRule{rule("list", "", "namespaces")}, false, ""},
		"the other name of events":  {[]rbacv1.PolicyRule{rule("list", "events.k8s.io", "events")}, false, "events a/e"},
		"everything in a namespace": {[]rbacv1.PolicyRule{rule("*", "*", "*")}, false, "configmaps a/x, configmaps a/y, events a/e"},
		"the space":                 {[]rbacv1.PolicyRule{rule("list", "", "configmaps")}, true, all},
		"a name in the space":       {[]rbacv1.PolicyRule{rule("list", "", "configmaps", "x")}, true, "configmaps a/x, configmaps b/x"},
		"what a space has not":      {[]rbacv1.PolicyRule{rule("list", "", "nodes"), rule("list", "", "namespaces", "a")}, true, "namespaces /a"},
	} {
		s := &teller{TB: t, State: newState()}
		if tc.cluster {
			s.bindCluster("acme", "jane", tc.rules...)
		} else {
			s.bind("acme", "a", "jane", tc.rules...)
		}
		s.bindCluster("globex", "jane", rule("*", "*", "*"))
		if got := s.says("acme", "acme", "jane"); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
		s.tell(roleBindings, "acme", "a", "b-jane", nil)
		s.tell(clusterRoleBindings, "acme", "", "b-jane", nil)
		if got := s.says("acme", "acme", "jane"); got != "" {
			t.Errorf("%s: %q without a binding", name, got)
		}
	}
}

// TestNamesOfTheSystemSpace checks that names of its objects that look flattened are not those of a
// tenant's objects: the system space gives no rights by them, and takes none.
func TestNamesOfTheSystemSpace(t *testing.T) {
	s := &teller{TB: t, State: newState()}
	s.tell(tenantregistry.Resource, tenant.System, "", "acme", newTenant("acme", "1"))
	bind := func(user, role string) *rbacv1.ClusterRoleBinding {
		return &rbacv1.ClusterRoleBinding{
			Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: user}}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: role},
		}
	}
	s.tell(clusterRoles, tenant.System, "", "acme|r-jane", &rbacv1.ClusterRole{Rules: []rbacv1.PolicyRule{rule("list", "", "configmaps")}})
	s.tell(clusterRoleBindings, tenant.System, "", "acme|b-jane", bind("jane", "r-jane"))
	if got := s.says("acme", "acme", "jane"); got != "" {
		t.Errorf("jane of acme may list by objects of the system space: %s", got)
	}
	s.bindCluster("acme", "joe", rule("list", "", "configmaps"))
	given := s.says("acme", "acme", "joe")
	s.tell(clusterRoleBindings, tenant.System, "", "acme|b-joe", bind("nobody", "nothing"))
	if got := s.says("acme", "acme", "joe"); got != given || given == "" {
		t.Errorf("joe of acme may list %q, and %q with an object of the system space", given, got)
	}
}

func TestModes(t *testing.T) {
	for name, tc := range map[string]struct {
		order      []authzconfig.AuthorizerType
		of         tenant.Name
		user       string
		groups     []string
		incomplete bool
		err        error
	}{
		"as usual":                  {order: []authzconfig.AuthorizerType{"Node", "RBAC"}, of: "acme", user: "jane"},
		"a webhook first":           {order: []authzconfig.AuthorizerType{"Webhook", "RBAC"}, of: "acme", user: "jane", err: ErrNotEnumerable},
		"a webhook last":            {order: []authzconfig.AuthorizerType{"RBAC", "Webhook"}, of: "acme", user: "jane", incomplete: true},
		"privileged":                {order: []authzconfig.AuthorizerType{"Webhook"}, of: tenant.System, user: "root", groups: []string{"system:masters"}},
		"a node":                    {order: []authzconfig.AuthorizerType{"Node", "RBAC"}, of: tenant.System, user: "system:node:n", groups: []string{"system:nodes"}, err: ErrNotEnumerable},
		"a node that comes last":    {order: []authzconfig.AuthorizerType{"RBAC", "Node"}, of: tenant.System, user: "system:node:n", groups: []string{"system:nodes"}, incomplete: true},
		"something that is unknown": {order: []authzconfig.AuthorizerType{"New", "RBAC"}, of: "acme", user: "jane", err: ErrNotEnumerable},
	} {
		ctx, u := requestOf(t.Context(), tc.of, "acme", tc.user, tc.groups...)
		set, err := newState(tc.order...).Compile(ctx, u, "acme")
		if !errors.Is(err, tc.err) || err == nil && (set.Incomplete != "") != tc.incomplete {
			t.Errorf("%s: %+v, %v", name, set, err)
		}
	}
	s := &teller{TB: t, State: newState("AlwaysAllow")}
	if got := s.says("acme", "acme", "jane"); !strings.Contains(got, "configmaps a/y, events a/e, namespaces /a") {
		t.Error(got)
	}
}

func TestSpaces(t *testing.T) {
	s := &teller{TB: t, State: newState()}
	s.tell(tenantregistry.Resource, tenant.System, "", "acme", newTenant("acme", "1"))
	s.tell(tenantregistry.Resource, tenant.System, "", "globex", newTenant("globex", "2"))
	scoped := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		tenant.ScopeAnnotation: "Tenants", tenant.SelectorAnnotation: "tier=gold"}}, Rules: []rbacv1.PolicyRule{rule("list", "", "configmaps", "x")}}
	s.tell(clusterRoles, tenant.System, "", "scoped", scoped)
	s.tell(clusterRoleBindings, tenant.System, "", "scoped", &rbacv1.ClusterRoleBinding{
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "jane"}}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "scoped"}})
	s.bindCluster("acme", "jane", rule("*", "*", "*"))
	want := func(of, space tenant.Name, want string) {
		t.Helper()
		if got := s.says(of, space, "jane"); got != want {
			t.Errorf("jane of %s in %s: %q, want %q", of, space, got, want)
		}
	}
	want(tenant.System, "acme", "") // another tier, and another jane
	gold := newTenant("acme", "1")
	gold.Labels = map[string]string{"tier": "gold"}
	s.tell(tenantregistry.Resource, tenant.System, "", "acme", gold)
	want(tenant.System, "acme", "configmaps a/x, configmaps b/x")
	want(tenant.System, "globex", "")
	want("globex", "acme", "")

	digest := digestOf("2")
	s.tell(accesspolicy.Resource, "acme", "", "p", &v1alpha1.TenantAccessPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{tenant.Annotation: "acme"}},
		Spec: v1alpha1.TenantAccessPolicySpec{
			Subjects: []v1alpha1.ForeignSubject{{Tenant: "globex", Kind: v1alpha1.SubjectUser, Name: "jane"}},
			Rules: []v1alpha1.AccessRule{
				{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"configmaps"}, Namespaces: []string{"b"}},
				{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"configmaps"}, Namespaces: []string{"*"}, ResourceNames: []string{"y"}},
			},
		},
		Status: v1alpha1.TenantAccessPolicyStatus{Grantees: []v1alpha1.Grantee{{Tenant: "globex", UIDDigest: digest}}},
	})
	want("globex", "acme", "configmaps b/x, configmaps a/y")
	s.tell(tenantregistry.Resource, tenant.System, "", "globex", newTenant("globex", "3"))
	want("globex", "acme", "") // a later tenant of the name
	s.tell(tenantregistry.Resource, tenant.System, "", "globex", newTenant("globex", "2"))
	suspended := newTenant("globex", "2")
	suspended.Spec.Suspended = true
	s.tell(tenantregistry.Resource, tenant.System, "", "globex", suspended)
	want("globex", "acme", "")
	s.tell(tenantregistry.Resource, tenant.System, "", "globex", newTenant("globex", "2"))
	want("globex", "acme", "configmaps b/x, configmaps a/y")
	s.tell(accesspolicy.Resource, "acme", "", "p", nil)
	want("globex", "acme", "")
}

func TestCreators(t *testing.T) {
	s := &teller{TB: t, State: newState()}
	jane := &v1alpha1.User{ObjectMeta: metav1.ObjectMeta{Name: "jane", UID: "u", Annotations: map[string]string{tenant.Annotation: "acme"}}}
	jane.Spec.Username = "jane"
	s.tell(userregistry.Resource, "acme", "", "jane", jane)
	s.tell(namespaces, "acme", "", "a", &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{tenant.CreatedByLabel: "u"}}})
	s.bind("acme", "a", "jane", rule("list", "", "configmaps"))
	if got := s.says("acme", "acme", "jane"); got != "configmaps a/x, configmaps a/y, namespaces /a" {
		t.Error(got)
	}
	if got := s.says("acme", "acme", "john"); got != "" {
		t.Error(got)
	}
	ending := jane.DeepCopy()
	ending.DeletionTimestamp = &metav1.Time{}
	s.tell(userregistry.Resource, "acme", "", "jane", ending)
	if got := s.says("acme", "acme", "jane"); got != "" {
		t.Errorf("%q in the namespaces of a User that is being deleted", got)
	}
}

func TestDefinitions(t *testing.T) {
	s := &teller{TB: t, State: newState()}
	s.bindCluster("acme", "jane", rule("list", "example.com", "*"))
	define := func(space tenant.Name, published, established bool) {
		d := &apiextensionsv1.CustomResourceDefinition{}
		d.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Served: true}}
		if established {
			d.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
		}
		if published {
			d.Annotations = map[string]string{tenant.PublishedAnnotation: tenant.PublishedTrue}
			d.Labels = map[string]string{tenant.PublishedDefinitionLabel: tenant.PublishedCopy}
		}
		s.tell(definitions, space, "", "widgets.example.com", d)
	}
	want := func(want string) {
		t.Helper()
		if got := s.says("acme", "acme", "jane"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	define("globex", false, true)
	want("")
	define(tenant.System, false, true)
	want("")
	define(tenant.System, true, true)
	want("widgets a/w")
	define("acme", false, false) // takes the place of the published one, and is not served yet
	want("")
	define("acme", false, true)
	want("widgets a/w")
	s.tell(definitions, "acme", "", "widgets.example.com", nil)
	s.tell(definitions, tenant.System, "", "widgets.example.com", nil)
	want("")
}

func TestVersions(t *testing.T) {
	s := &teller{TB: t, State: newState()}
	version := func(space, of tenant.Name) Version {
		v, stable := s.Version(space, of)
		if !stable {
			t.Error("nothing is being changed")
		}
		return v
	}
	before, others := version("acme", "acme"), version("globex", "globex")
	s.bind("acme", "a", "jane", rule("list", "", "configmaps"))
	after := version("acme", "acme")
	if before == after || after.Revision != s.revision {
		t.Errorf("%+v is not another version than %+v", after, before)
	}
	if version("globex", "globex") != others || version("acme", "globex") == before {
		t.Error("a change in one space concerns another one, or not a visitor")
	}
	s.tell(tenantregistry.Resource, tenant.System, "", "acme", newTenant("acme", "1"))
	last := version("acme", "acme")
	used := newTenant("acme", "1")
	used.Status.Usage = &v1alpha1.TenantUsage{}
	s.tell(tenantregistry.Resource, tenant.System, "", "acme", used)
	if version("acme", "acme") != last {
		t.Error("what a tenant uses is no right")
	}
	s.bindCluster(tenant.System, "jane", rule("list", "", "configmaps"))
	if version("globex", "globex") == others {
		t.Error("the system space decides in all spaces")
	}
	s.begin("acme", 1000)
	if _, stable := s.Version("acme", "acme"); stable {
		t.Error("stable while something is being changed")
	}
	if _, stable := s.Version("globex", "globex"); !stable {
		t.Error("others wait")
	}
	s.end()
	// What is not understood gives no rights, and ends the state.
	if _, err := s.Tell(tenantregistry.Resource, storage.ObjectKey{Space: tenant.System, Name: "acme"}, &rbacv1.Role{}, 1001); err == nil {
		t.Error("a Role is taken for a Tenant")
	}
}

func BenchmarkManyNamespaces(b *testing.B) {
	s := &teller{TB: b, State: newState()}
	s.tell(clusterRoles, "acme", "", "view", &rbacv1.ClusterRole{Rules: []rbacv1.PolicyRule{rule("list", "", "configmaps"), rule("list", "", "events")}})
	for i := range 10_000 {
		s.tell(roleBindings, "acme", fmt.Sprint("n", i), "b", &rbacv1.RoleBinding{
			Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "jane"}}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "view"}})
	}
	ctx, u := requestOf(b.Context(), "acme", "acme", "jane")
	for b.Loop() {
		if set, err := s.Compile(ctx, u, "acme"); err != nil || len(set.Groups) != 1 {
			b.Fatal(set, err)
		}
	}
}

// digestOf returns the digest of a UID as policies have it, without salt.
func digestOf(uid types.UID) string {
	const salt = "0123456789abcdef"
	sum := sha256.Sum256([]byte(salt + string(uid)))
	return base64.RawStdEncoding.EncodeToString(append([]byte(salt), sum[:]...))
}

// TestAwait has somebody wait for rights that are other ones.
func TestAwait(t *testing.T) {
	s := &teller{TB: t, State: newState()}
	s.bind("acme", "a", "jane")
	before, _ := s.Version("acme", "acme")
	if err := s.Await(t.Context(), "acme", "acme", Version{}); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Await(ended, "acme", "acme", before); !errors.Is(err, context.Canceled) {
		t.Errorf("without a change: %v", err)
	}
	waited := make(chan error, 1)
	go func() { waited <- s.Await(t.Context(), "acme", "acme", before) }()
	for !s.changed.Awaited() {
	}
	s.bind("globex", "a", "jane")
	select {
	case <-waited:
		t.Error("another space's rights are taken for them")
	default:
	}
	s.bind("acme", "b", "jane")
	if err := <-waited; err != nil {
		t.Error(err)
	}
	s.begin("acme", 100)
	now, stable := s.Version("acme", "acme")
	if stable || s.Await(ended, "acme", "acme", before) == nil {
		t.Error("rights that are being changed are taken for others")
	}
	s.end()
	if s.Await(ended, "acme", "acme", before) != nil || s.Await(ended, "acme", "acme", now) == nil {
		t.Error("the end of a change is not noticed")
	}
}
