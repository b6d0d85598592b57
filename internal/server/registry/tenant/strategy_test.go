package tenant

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/ptr"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/config/crd"
	"github.com/tenantry/tenantry/internal/server/registry/definition"
)

func newTenant(name string, change ...func(*v1alpha1.Tenant)) *v1alpha1.Tenant {
	t := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, f := range change {
		f(t)
	}
	return t
}

func auditPolicy(level auditv1.Level) *v1alpha1.AuditPolicy {
	return &v1alpha1.AuditPolicy{Rules: []auditv1.PolicyRule{{Level: level}}}
}

func newStrategy(t *testing.T) strategy {
	t.Helper()
	rules, err := definition.NewRules(crd.Tenants)
	if err != nil {
		t.Fatal(err)
	}
	return strategy{Strategy: definition.Strategy{Rules: rules}, earlier: func(_ context.Context, name string) bool { return name == "again" }}
}

func TestValidate(t *testing.T) {
	s := newStrategy(t)
	for name, tc := range map[string]struct {
		tenant *v1alpha1.Tenant
		want   string // part of the error, empty for none
	}{
		"the seed's sample":          {tenant: newTenant("sample-tenant-1")},
		"digits":                     {tenant: newTenant("1")},
		"63 characters":              {tenant: newTenant(strings.Repeat("a", 63))},
		"built in":                   {tenant: newTenant("system")},
		"reserved":                   {tenant: newTenant("all"), want: "reserved"},
		"64 characters":              {tenant: newTenant(strings.Repeat("a", 64)), want: "DNS-1123"},
		"dot":                        {tenant: newTenant("a.b"), want: "DNS-1123"},
		"upper case":                 {tenant: newTenant("A"), want: "DNS-1123"},
		"leading dash":               {tenant: newTenant("-a"), want: "DNS-1123"},
		"line end":                   {tenant: newTenant("a\n"), want: "DNS-1123"},
		"flattening":                 {tenant: newTenant("a|b"), want: "DNS-1123"},
		"suspended":                  {tenant: newTenant("a", func(t *v1alpha1.Tenant) { t.Spec.Suspended, t.Spec.SuspendedReason = true, "unpaid" })},
		"reason alone":               {tenant: newTenant("a", func(t *v1alpha1.Tenant) { t.Spec.SuspendedReason = "unpaid" }), want: "suspendedReason needs"},
		"system suspended":           {tenant: newTenant("system", func(t *v1alpha1.Tenant) { t.Spec.Suspended = true }), want: "built-in"},
		"admin":                      {tenant: newTenant("a", func(t *v1alpha1.Tenant) { t.Spec.Admins = []v1alpha1.Subject{{Kind: "Group", Name: "g"}} })},
		"admin of no kind":           {tenant: newTenant("a", func(t *v1alpha1.Tenant) { t.Spec.Admins = []v1alpha1.Subject{{Name: "g"}} }), want: "kind"},
		"admin of no name":           {tenant: newTenant("a", func(t *v1alpha1.Tenant) { t.Spec.Admins = []v1alpha1.Subject{{Kind: "User"}} }), want: "name"},
		"service account":            {tenant: newTenant("a", func(t *v1alpha1.Tenant) { t.Spec.Admins = []v1alpha1.Subject{{Kind: "ServiceAccount", Name: "x"}} }), want: "kind"},
		"too many admins":            {tenant: newTenant("a", func(t *v1alpha1.Tenant) { t.Spec.Admins = make([]v1alpha1.Subject, 65) }), want: "admins"},
		"quota":                      {tenant: newTenant("a", func(t *v1alpha1.Tenant) { t.Spec.Quota = corev1.ResourceList{"pods": resource.MustParse("5")} })},
		"audit policy":               {tenant: newTenant("a", func(t *v1alpha1.Tenant) { t.Spec.AuditPolicy = auditPolicy(auditv1.LevelMetadata) })},
		"audit policy of no rules":   {tenant: newTenant("a", func(t *v1alpha1.Tenant) { t.Spec.AuditPolicy = &v1alpha1.AuditPolicy{} }), want: "spec.auditPolicy.rules"},
		"audit policy of no level":   {tenant: newTenant("a", func(t *v1alpha1.Tenant) { t.Spec.AuditPolicy = auditPolicy("All") }), want: "spec.auditPolicy.rules[0].level"},
		"audit policy of the system": {tenant: newTenant("system", func(t *v1alpha1.Tenant) { t.Spec.AuditPolicy = auditPolicy(auditv1.LevelNone) }), want: "--audit-policy-file"},
		"small bodies": {tenant: newTenant("a", func(t *v1alpha1.Tenant) {
			t.Spec.RequestLimit = &v1alpha1.RequestLimit{BodyBytes: ptr.To[int64](1 << 10)}
		})},
		"no bodies": {tenant: newTenant("a", func(t *v1alpha1.Tenant) { t.Spec.RequestLimit = &v1alpha1.RequestLimit{BodyBytes: ptr.To[int64](0)} }), want: "spec.requestLimit.bodyBytes"},
		"bodies beyond the server's": {tenant: newTenant("a", func(t *v1alpha1.Tenant) {
			t.Spec.RequestLimit = &v1alpha1.RequestLimit{BodyBytes: ptr.To[int64](3<<20 + 1)}
		}), want: "spec.requestLimit.bodyBytes"},
		"negative lists": {tenant: newTenant("a", func(t *v1alpha1.Tenant) { t.Spec.RequestLimit = &v1alpha1.RequestLimit{ListObjects: ptr.To[int32](-1)} }), want: "spec.requestLimit.listObjects"},
		"suspension too long": {tenant: newTenant("a", func(t *v1alpha1.Tenant) {
			t.Spec.Suspended, t.Spec.SuspendedReason = true, strings.Repeat("x", 257)
		}), want: "suspendedReason"},
	} {
		t.Run(name, func(t *testing.T) {
			err := s.Validate(context.Background(), tc.tenant).ToAggregate()
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("unexpected error: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestPrepareForCreate(t *testing.T) {
	s := newStrategy(t)
	got := newTenant("a", func(t *v1alpha1.Tenant) { t.Status.ObservedGeneration = 7 })
	s.PrepareForCreate(context.Background(), got)
	want := newTenant("a", func(t *v1alpha1.Tenant) { t.Generation, t.Finalizers = 1, []string{v1alpha1.SpaceFinalizer} })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	system := newTenant("system")
	s.PrepareForCreate(context.Background(), system)
	if len(system.Finalizers) > 0 {
		t.Errorf("the built-in tenant has finalizers %q; its space is never emptied", system.Finalizers)
	}
}

func TestCredentialsOfAnEarlierTenant(t *testing.T) {
	s := newStrategy(t)
	before := metav1.Now().Rfc3339Copy()
	got := newTenant("again")
	s.PrepareForCreate(context.Background(), got)
	since := got.Status.CredentialsNotBefore
	if since == nil || since.Before(&before) || since.After(time.Now()) {
		t.Fatalf("credentials are good since %v, want now, %v", since, before)
	}
	changed := newTenant("again")
	statusStrategy{s}.PrepareForUpdate(context.Background(), changed, got)
	if changed := changed.Status.CredentialsNotBefore; changed == nil || !changed.Equal(since) {
		t.Errorf("after a change of the status, credentials are good since %v, want %v", changed, since)
	}
}

func TestPrepareForUpdate(t *testing.T) {
	old := newTenant("a", func(t *v1alpha1.Tenant) {
		t.Generation, t.Finalizers, t.Status.ObservedGeneration = 3, []string{v1alpha1.SpaceFinalizer}, 3
	})
	changed := newTenant("a", func(t *v1alpha1.Tenant) {
		t.Generation, t.Labels, t.Spec.Suspended, t.Status.ObservedGeneration = 3, map[string]string{"l": "v"}, true, 9
	})
	main := newStrategy(t)
	for name, tc := range map[string]struct {
		update interface {
			PrepareForUpdate(ctx context.Context, obj, old runtime.Object)
		}
		want *v1alpha1.Tenant
	}{
		"main resource": {update: main, want: newTenant("a", func(t *v1alpha1.Tenant) {
			t.Generation, t.Labels, t.Spec.Suspended, t.Status.ObservedGeneration = 4, map[string]string{"l": "v"}, true, 3
		})},
		"status changes status alone": {update: statusStrategy{main}, want: newTenant("a", func(t *v1alpha1.Tenant) {
			t.Generation, t.Finalizers, t.Status.ObservedGeneration = 3, []string{v1alpha1.SpaceFinalizer}, 9
		})},
		"finalize changes finalizers alone": {update: finalizeStrategy{main}, want: newTenant("a", func(t *v1alpha1.Tenant) {
			t.Generation, t.Status.ObservedGeneration = 3, 3
		})},
	} {
		t.Run(name, func(t *testing.T) {
			got := changed.DeepCopy()
			tc.update.PrepareForUpdate(context.Background(), got, old.DeepCopy())
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReleases(t *testing.T) {
	held := newTenant("a", func(t *v1alpha1.Tenant) { t.Finalizers = []string{"other", v1alpha1.SpaceFinalizer} })
	other := newTenant("a", func(t *v1alpha1.Tenant) { t.Finalizers = []string{"other"} })
	for _, tc := range []struct {
		obj, old *v1alpha1.Tenant
		want     bool
	}{
		{held, held, false}, {other, held, true}, {other, other, false}, {newTenant("a"), held, true}, {held, other, false},
	} {
		if got := releases(tc.obj, tc.old); got != tc.want {
			t.Errorf("releases(%q, %q) = %v", tc.obj.Finalizers, tc.old.Finalizers, got)
		}
	}
}

// TestScheme checks that one Go type serves every version: encoding to a version
// sets its apiVersion, and decoding gives the same object.
func TestScheme(t *testing.T) {
	scheme := runtime.NewScheme()
	AddToScheme(scheme)
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	codecs := serializer.NewCodecFactory(scheme)
	want := newTenant("a", func(t *v1alpha1.Tenant) { t.Spec.Suspended = true })
	for _, gv := range []schema.GroupVersion{{Version: "v1"}, v1alpha1.GroupVersion} {
		encoded, err := runtime.Encode(codecs.LegacyCodec(gv), want.DeepCopy())
		if err != nil {
			t.Fatal(err)
		}
		if apiVersion := `"apiVersion":"` + gv.String() + `"`; !strings.Contains(string(encoded), apiVersion) {
			t.Errorf("encoded for %s: %s", gv, encoded)
		}
		decoded, err := runtime.Decode(codecs.UniversalDecoder(), encoded)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := decoded.(*v1alpha1.Tenant)
		if !ok {
			t.Fatalf("decoded a %T", decoded)
		}
		got.TypeMeta = metav1.TypeMeta{}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}
