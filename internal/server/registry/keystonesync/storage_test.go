package keystonesync

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

func sync(changes ...func(*v1alpha1.KeystoneSync)) *v1alpha1.KeystoneSync {
	s := &v1alpha1.KeystoneSync{
		ObjectMeta: metav1.ObjectMeta{Name: "cloud", Generation: 1},
		Spec: v1alpha1.KeystoneSyncSpec{
			Mode:    v1alpha1.KeystoneSyncPreview,
			Domains: v1alpha1.KeystoneDomains{IDs: []string{"default"}},
			RoleMappings: []v1alpha1.KeystoneRoleMapping{
				{RoleID: "r1", Scope: v1alpha1.KeystoneScopeProject, ClusterRole: "edit"},
				{RoleID: "r1", Scope: v1alpha1.KeystoneScopeDomain, ClusterRole: "view"},
			},
		},
	}
	for _, change := range changes {
		change(s)
	}
	return s
}

// TestPrepare checks that a request of one resource leaves to the other what is its own.
func TestPrepare(t *testing.T) {
	counted := func(s *v1alpha1.KeystoneSync) { s.Status.Domains = 7 }
	synced := func(s *v1alpha1.KeystoneSync) { s.Spec.Mode = v1alpha1.KeystoneSyncSync }
	second := func(s *v1alpha1.KeystoneSync) { s.Generation = 2 }
	created := sync(counted, second, func(s *v1alpha1.KeystoneSync) { s.Spec.Mode = "" })
	main := strategy{Strategy: definition.Strategy[v1alpha1.KeystoneSync, v1alpha1.KeystoneSyncStatus]{Parts: parts}}
	main.PrepareForCreate(t.Context(), created)
	if diff := cmp.Diff(sync(), created); diff != "" {
		t.Error(diff)
	}
	for name, tc := range map[string]struct {
		update   rest.RESTUpdateStrategy
		to, want *v1alpha1.KeystoneSync
	}{
		"the spec":                 {main, sync(synced, counted), sync(synced, second)},
		"the same spec":            {main, sync(counted), sync()},
		"the default":              {main, sync(func(s *v1alpha1.KeystoneSync) { s.Spec.Mode = "" }), sync()},
		"the status":               {definition.NewStatusStrategy(main, parts), sync(synced, counted), sync(counted)},
		"no labels by the status":  {definition.NewStatusStrategy(main, parts), sync(counted, func(s *v1alpha1.KeystoneSync) { s.Labels = map[string]string{"a": "b"} }), sync(counted)},
		"no mapping by the status": {definition.NewStatusStrategy(main, parts), sync(func(s *v1alpha1.KeystoneSync) { s.Spec.RoleMappings = nil }), sync()},
	} {
		t.Run(name, func(t *testing.T) {
			tc.update.PrepareForUpdate(t.Context(), tc.to, sync())
			if diff := cmp.Diff(tc.want, tc.to); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	rules, err := definition.NewRules(crd.KeystoneSyncs)
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	definition.AddToScheme(scheme)
	s := strategy{definition.Strategy[v1alpha1.KeystoneSync, v1alpha1.KeystoneSyncStatus]{ObjectTyper: scheme, Rules: rules}, Spaces{Counted: func(r schema.GroupResource) bool { return r.Resource == "pods" }}}
	template := func(template v1alpha1.KeystoneTenantTemplate) func(*v1alpha1.KeystoneSync) {
		return func(s *v1alpha1.KeystoneSync) { s.Spec.TenantTemplate = &template }
	}
	quota := func(name corev1.ResourceName, value string) func(*v1alpha1.KeystoneSync) {
		return template(v1alpha1.KeystoneTenantTemplate{Quota: corev1.ResourceList{name: resource.MustParse(value)}})
	}
	seconds := func(n time.Duration) *metav1.Duration { return &metav1.Duration{Duration: n} }
	for name, tc := range map[string]struct {
		space  tenant.Name
		change func(*v1alpha1.KeystoneSync)
		// want is what is wrong: the kind of each error, and its field.
		want []string
	}{
		"complete": {change: func(*v1alpha1.KeystoneSync) {}},
		"every domain": {change: func(s *v1alpha1.KeystoneSync) {
			s.Spec.Domains = v1alpha1.KeystoneDomains{AllExcept: &v1alpha1.KeystoneExcluded{}}
		}},
		"ten seconds":          {change: func(s *v1alpha1.KeystoneSync) { s.Spec.Interval = seconds(10 * time.Second) }},
		"in a space":           {space: "acme", change: func(*v1alpha1.KeystoneSync) {}, want: []string{"FieldValueForbidden metadata"}},
		"no name":              {change: func(s *v1alpha1.KeystoneSync) { s.Name = "a/b" }, want: []string{"FieldValueInvalid metadata.name"}},
		"no domains":           {change: func(s *v1alpha1.KeystoneSync) { s.Spec.Domains = v1alpha1.KeystoneDomains{} }, want: []string{"FieldValueInvalid spec.domains"}},
		"some and all domains": {change: func(s *v1alpha1.KeystoneSync) { s.Spec.Domains.AllExcept = &v1alpha1.KeystoneExcluded{} }, want: []string{"FieldValueInvalid spec.domains"}},
		"often":                {change: func(s *v1alpha1.KeystoneSync) { s.Spec.Interval = seconds(9 * time.Second) }, want: []string{"FieldValueInvalid spec.interval"}},
		"a role twice": {change: func(s *v1alpha1.KeystoneSync) {
			s.Spec.RoleMappings = append(s.Spec.RoleMappings, s.Spec.RoleMappings[0])
		},
			want: []string{"FieldValueDuplicate spec.roleMappings[2].roleID"}},
		"a role with a colon": {change: func(s *v1alpha1.KeystoneSync) { s.Spec.RoleMappings[0].RoleID = "a:b" }, want: []string{"FieldValueInvalid spec.roleMappings[0].roleID"}},
		"no ClusterRole":      {change: func(s *v1alpha1.KeystoneSync) { s.Spec.RoleMappings[0].ClusterRole = "" }, want: []string{"FieldValueInvalid spec.roleMappings[0].clusterRole"}},
		"a path":              {change: func(s *v1alpha1.KeystoneSync) { s.Spec.RoleMappings[0].ClusterRole = "a/b" }, want: []string{"FieldValueInvalid spec.roleMappings[0].clusterRole"}},
		"no scope":            {change: func(s *v1alpha1.KeystoneSync) { s.Spec.RoleMappings[0].Scope = "System" }, want: []string{"FieldValueNotSupported spec.roleMappings[0].scope"}},
		"grace for what is kept": {change: func(s *v1alpha1.KeystoneSync) { s.Spec.Deletion.Tenants.GracePeriod = seconds(time.Second) },
			want: []string{"FieldValueInvalid spec.deletion.tenants"}},
		"grace for a namespace that is kept": {change: func(s *v1alpha1.KeystoneSync) { s.Spec.Deletion.Namespaces.GracePeriod = seconds(time.Second) },
			want: []string{"FieldValueInvalid spec.deletion.namespaces"}},
		"a template":                   {change: quota("pods", "10")},
		"a limit that there is not":    {change: quota("cpus", "10"), want: []string{"FieldValueInvalid spec.tenantTemplate.quota[cpus]"}},
		"a count of what there is not": {change: quota("count/pots", "10"), want: []string{"FieldValueInvalid spec.tenantTemplate.quota[count/pots]"}},
		"a negative limit":             {change: quota("pods", "-1"), want: []string{"FieldValueInvalid spec.tenantTemplate.quota[pods]"}},
		"a burst without rate": {change: template(v1alpha1.KeystoneTenantTemplate{RateLimit: &v1alpha1.RateLimit{Burst: new(int32(1))}}),
			want: []string{"FieldValueInvalid spec.tenantTemplate.rateLimit"}},
		"labels in another mode": {change: template(v1alpha1.KeystoneTenantTemplate{NodePlacement: &v1alpha1.NodePlacement{Mode: "Enabled", AllowedLabels: []string{"a"}}}),
			want: []string{"FieldValueInvalid spec.tenantTemplate.nodePlacement"}},
		"more than all": {change: func(s *v1alpha1.KeystoneSync) { s.Spec.Guard.MaxRemovedPercent = new(int32(101)) }, want: []string{"FieldValueInvalid spec.guard.maxRemovedPercent"}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.space == "" {
				tc.space = tenant.System
			}
			errs := s.Validate(tenant.WithSpace(t.Context(), tc.space), sync(tc.change))
			var got []string
			for _, err := range errs {
				got = append(got, string(err.Type)+" "+err.Field)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%v (-want +got):\n%s", errs, diff)
			}
		})
	}
	twice := sync(func(s *v1alpha1.KeystoneSync) { s.Spec.RoleMappings[1].Scope = s.Spec.RoleMappings[0].Scope })
	if errs := s.ValidateUpdate(tenant.WithSpace(t.Context(), tenant.System), twice, sync()); len(errs) != 1 {
		t.Errorf("an update: %v", errs)
	}
}

// TestWarnings: a ClusterRole that somebody has to make is not refused.
func TestWarnings(t *testing.T) {
	s := strategy{spaces: Spaces{HasClusterRole: func(name string) bool { return name == "edit" }}}
	want := []string{`spec.roleMappings[1].clusterRole: not every space has a ClusterRole "view": bindings of it give nothing where there is none`}
	for _, got := range [][]string{s.WarningsOnCreate(t.Context(), sync()), s.WarningsOnUpdate(t.Context(), sync(), sync())} {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	if got := definition.NewStatusStrategy(s, parts).WarningsOnUpdate(t.Context(), sync(), sync()); got != nil {
		t.Errorf("a status: %q", got)
	}
}

// binders may bind ClusterRoles in tenants' spaces, by name.
type binders []string

func (b binders) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	in, err := tenant.ScopeFrom(ctx)
	if err != nil || in != tenant.All || a.GetVerb() != "bind" || a.GetAPIGroup() != "rbac.authorization.k8s.io" || a.GetResource() != "clusterroles" || a.GetNamespace() != "" {
		return authorizer.DecisionDeny, "", err
	}
	for _, name := range b {
		if name == a.GetName() {
			return authorizer.DecisionAllow, "", nil
		}
	}
	return authorizer.DecisionNoOpinion, "", nil
}

func TestEscalation(t *testing.T) {
	admin := func(s *v1alpha1.KeystoneSync) { s.Spec.TenantAdminRoleID = "r2" }
	none := func(s *v1alpha1.KeystoneSync) { s.Spec.RoleMappings = nil }
	for name, tc := range map[string]struct {
		may    binders
		change func(*v1alpha1.KeystoneSync)
		// refused is the ClusterRole that may not be bound.
		refused string
	}{
		"all":                      {may: binders{"edit", "view"}, change: func(*v1alpha1.KeystoneSync) {}},
		"none":                     {change: func(*v1alpha1.KeystoneSync) {}, refused: "edit"},
		"one":                      {may: binders{"edit"}, change: func(*v1alpha1.KeystoneSync) {}, refused: "view"},
		"nothing is bound":         {change: none},
		"administrators":           {may: binders{"edit", "view"}, change: admin, refused: "cluster-admin"},
		"administrators, by right": {may: binders{"edit", "view", "cluster-admin"}, change: admin},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := request.WithUser(tenant.WithSpace(t.Context(), tenant.System), &user.DefaultInfo{Name: "jane"})
			err := escalation{tc.may}.confirm(ctx, sync(tc.change), nil)
			if (err == nil) != (tc.refused == "") || err != nil && !strings.Contains(err.Error(), `"`+tc.refused+`"`) {
				t.Errorf("error %v", err)
			}
			if err := (escalation{binders{"edit", "view"}}).confirm(tenant.WithSpace(t.Context(), tenant.System), sync(), nil); !refusedFor(err, "no user on context") {
				t.Errorf("nobody may bind: %v", err)
			}
		})
	}
}

// options are those of a storage that is not asked for anything.
var options = generic.RESTOptions{
	StorageConfig: &storagebackend.ConfigForResource{}, ResourcePrefix: "/keystonesyncs",
	Decorator: func(*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error), func() runtime.Object, func() runtime.Object,
		storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
		return nil, func() {}, nil
	},
}

// TestConfirmed checks that the storage confirms what is stored.
func TestConfirmed(t *testing.T) {
	r, err := NewREST(runtime.NewScheme(), options, binders{}, Spaces{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := request.WithUser(tenant.WithSpace(t.Context(), tenant.System), &user.DefaultInfo{Name: "jane"})
	const why = `user "jane" needs the verb "bind"`
	if err := r.Confirm(ctx, sync(), nil); !refusedFor(err, why) {
		t.Errorf("a creation: %v", err)
	}
	if err := r.Confirm(ctx, sync(), sync()); !refusedFor(err, why) {
		t.Errorf("an update: %v", err)
	}
}

// refusedFor reports whether something is forbidden, and that for a reason.
func refusedFor(err error, why string) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), why)
}
