package user

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/config/crd"
	"github.com/tenantry/tenantry/internal/server/definition"
	"github.com/tenantry/tenantry/internal/tenant"
)

func newUser(changes ...func(*v1alpha1.User)) *v1alpha1.User {
	u := &v1alpha1.User{
		ObjectMeta: metav1.ObjectMeta{Name: "alice", Generation: 1, Finalizers: []string{v1alpha1.UserFinalizer}},
		Spec:       v1alpha1.UserSpec{Username: "keystone:1", NamespacePolicy: v1alpha1.UserNamespacesRetain},
	}
	for _, change := range changes {
		change(u)
	}
	return u
}

func named(username string) func(*v1alpha1.User) {
	return func(u *v1alpha1.User) { u.Spec.Username = username }
}

// as returns the context of a user's request in the space of n.
func as(ctx context.Context, name string, of, n tenant.Name) context.Context {
	u := &user.DefaultInfo{Name: name, UID: "uid", Extra: map[string][]string{tenant.UserExtraKey: {of.String()}}}
	r := &tenant.Request{Requested: n.Scope(), Authenticated: of}
	r.Admit(of)
	return request.WithUser(tenant.WithRequest(ctx, r), u)
}

// TestPrepare checks that a request of one resource leaves to the other what is its own, and
// the finalizer to the controller.
func TestPrepare(t *testing.T) {
	counted := func(u *v1alpha1.User) { u.Status.Namespaces = 7 }
	loose := func(u *v1alpha1.User) { u.Finalizers = nil }
	deleting := func(u *v1alpha1.User) { u.Spec.NamespacePolicy = v1alpha1.UserNamespacesDelete }
	second := func(u *v1alpha1.User) { u.Generation = 2 }
	created := newUser(counted, second, loose, func(u *v1alpha1.User) { u.Spec.NamespacePolicy = "" })
	main := strategy{Strategy: definition.Strategy[v1alpha1.User, v1alpha1.UserStatus]{Parts: parts}}
	main.PrepareForCreate(t.Context(), created)
	if diff := cmp.Diff(newUser(), created); diff != "" {
		t.Error(diff)
	}
	for name, tc := range map[string]struct {
		update   rest.RESTUpdateStrategy
		by       string
		of       tenant.Name
		to, want *v1alpha1.User
	}{
		"the spec":                 {main, "jane", "acme", newUser(deleting, counted), newUser(deleting, second)},
		"the same spec":            {main, "jane", "acme", newUser(counted), newUser()},
		"the default":              {main, "jane", "acme", newUser(func(u *v1alpha1.User) { u.Spec.NamespacePolicy = "" }), newUser()},
		"the finalizer":            {main, "jane", "acme", newUser(loose), newUser()},
		"as a system user":         {main, "jane", tenant.System, newUser(loose), newUser()},
		"by the controller":        {main, tenant.Publisher, tenant.System, newUser(loose), newUser(loose)},
		"by the name of it":        {main, tenant.Publisher, "acme", newUser(loose), newUser()},
		"the status":               {definition.NewStatusStrategy(main, parts), "jane", "acme", newUser(deleting, counted), newUser(counted)},
		"no labels by the status":  {definition.NewStatusStrategy(main, parts), "jane", "acme", newUser(counted, func(u *v1alpha1.User) { u.Labels = map[string]string{"a": "b"} }), newUser(counted)},
		"no finalizer by it":       {definition.NewStatusStrategy(main, parts), tenant.Publisher, tenant.System, newUser(loose), newUser()},
		"no username by the state": {definition.NewStatusStrategy(main, parts), "jane", "acme", newUser(named("root")), newUser()},
	} {
		t.Run(name, func(t *testing.T) {
			tc.update.PrepareForUpdate(as(t.Context(), tc.by, tc.of, "acme"), tc.to, newUser())
			if diff := cmp.Diff(tc.want, tc.to); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	rules, err := definition.NewRules(crd.Users)
	if err != nil {
		t.Fatal(err)
	}
	index := NewIndex()
	index.Set(stored("acme", "bob", "bob", "1"))
	s := strategy{definition.Strategy[v1alpha1.User, v1alpha1.UserStatus]{Rules: rules}, index}
	for name, tc := range map[string]struct {
		space  tenant.Name
		change func(*v1alpha1.User)
		// want is what is wrong: the kind of each error, and its field.
		want []string
	}{
		"of Keystone":             {change: named("keystone:1")},
		"of a certificate":        {change: named("alice")},
		"any letters":             {change: named("Älice <a@example.com>")},
		"in the system space":     {space: tenant.System, change: named("alice"), want: []string{"FieldValueForbidden metadata"}},
		"of the platform":         {change: named("system:admin"), want: []string{"FieldValueInvalid spec.username"}},
		"a service account":       {change: named("system:serviceaccount:a:b"), want: []string{"FieldValueInvalid spec.username"}},
		"nobody":                  {change: named(""), want: []string{"FieldValueInvalid spec.username"}},
		"blanks around":           {change: named(" jane"), want: []string{"FieldValueInvalid spec.username"}},
		"a line":                  {change: named("jane\n"), want: []string{"FieldValueInvalid spec.username"}},
		"a zero byte":             {change: named("a\x00b"), want: []string{"FieldValueInvalid spec.username"}},
		"nobody of Keystone":      {change: named("keystone:"), want: []string{"FieldValueInvalid spec.username"}},
		"long":                    {change: named(strings.Repeat("x", 254)), want: []string{"FieldValueTooLong spec.username"}},
		"no name":                 {change: func(u *v1alpha1.User) { u.Name = "a:b" }, want: []string{"FieldValueInvalid metadata.name"}},
		"somebody who has a User": {change: named("bob"), want: []string{"FieldValueForbidden spec.username"}},
		"of another tenant":       {space: "globex", change: named("bob")},
		"no policy":               {change: func(u *v1alpha1.User) { u.Spec.NamespacePolicy = "Forget" }, want: []string{"FieldValueNotSupported spec.namespacePolicy"}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.space == "" {
				tc.space = "acme"
			}
			errs := s.Validate(tenant.WithSpace(t.Context(), tc.space), newUser(tc.change))
			var got []string
			for _, err := range errs {
				got = append(got, strings.ReplaceAll(string(err.Type), " ", "")+" "+err.Field)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%v (-want +got):\n%s", errs, diff)
			}
		})
	}
	ctx := tenant.WithSpace(t.Context(), "acme")
	if errs := s.ValidateUpdate(ctx, newUser(named("else")), newUser()); len(errs) != 1 || !strings.Contains(errs[0].Error(), "cannot be changed") {
		t.Errorf("another username: %v", errs)
	}
	if errs := s.ValidateUpdate(ctx, newUser(func(u *v1alpha1.User) { u.Labels = map[string]string{"a": "b"} }), newUser()); len(errs) > 0 {
		t.Errorf("a label: %v", errs)
	}
}

// binders may bind ClusterRoles of the space, by name.
type binders []string

func (b binders) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	n, err := tenant.SpaceFrom(ctx)
	if err != nil || n != "acme" || a.GetVerb() != "bind" || a.GetAPIGroup() != "rbac.authorization.k8s.io" || a.GetResource() != "clusterroles" || a.GetNamespace() != "" {
		return authorizer.DecisionDeny, "", err
	}
	for _, name := range b {
		if name == a.GetName() {
			return authorizer.DecisionAllow, "", nil
		}
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// options are those of a storage that is not asked for anything.
var options = generic.RESTOptions{
	StorageConfig: &storagebackend.ConfigForResource{}, ResourcePrefix: "/users",
	Decorator: func(*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error), func() runtime.Object, func() runtime.Object,
		storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
		return nil, func() {}, nil
	},
}

// TestConfirmed checks that whoever creates or changes a User may bind all that it gets.
func TestConfirmed(t *testing.T) {
	for name, tc := range map[string]struct {
		may binders
		// refused is the ClusterRole that may not be bound.
		refused string
	}{
		"both": {may: binders{"tenantry:namespace-creator", "cluster-admin"}},
		"none": {refused: "tenantry:namespace-creator"},
		"to create namespaces, but not what is in them": {may: binders{"tenantry:namespace-creator"}, refused: "cluster-admin"},
		"what is in namespaces, but not these":          {may: binders{"cluster-admin"}, refused: "tenantry:namespace-creator"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := NewREST(runtime.NewScheme(), options, tc.may, NewIndex())
			if err != nil {
				t.Fatal(err)
			}
			ctx := as(t.Context(), "jane", "acme", "acme")
			for what, err := range map[string]error{"creation": r.Confirm(ctx, newUser(), nil), "update": r.Confirm(ctx, newUser(), newUser())} {
				if (err == nil) != (tc.refused == "") || err != nil && !strings.Contains(err.Error(), `"`+tc.refused+`"`) {
					t.Errorf("%s: error %v", what, err)
				}
			}
		})
	}
	nobody := tenant.WithSpace(t.Context(), "acme")
	if err := (escalation{binders{"tenantry:namespace-creator", "cluster-admin"}}).confirm(nobody, newUser(), nil); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "no user on context") {
		t.Errorf("nobody may bind: %v", err)
	}
}
