package tenant

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

var (
	one = resource.MustParse("1")
	two = resource.MustParse("2")
)

var quotas = schema.GroupResource{Resource: "resourcequotas"}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "acme|" + name}}
}

// children is a complete space as the cache shows it, with changes.
func children(change ...func(map[string]client.Object)) []client.Object {
	all := map[string]client.Object{
		"default":         namespace("default"),
		"kube-system":     namespace("kube-system"),
		"kube-public":     namespace("kube-public"),
		"kube-node-lease": namespace("kube-node-lease"),
		"account":         &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "acme|default", Name: "default"}},
		"quota": &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: "acme|default", Name: v1alpha1.TenantQuota},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": one}},
		},
		"binding": &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "acme|" + adminBindingName},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects:   []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "admin"}},
		},
	}
	for _, f := range change {
		f(all)
	}
	objects := make([]client.Object, 0, len(all))
	for _, object := range all {
		objects = append(objects, object)
	}
	return objects
}

func without(name string) func(map[string]client.Object) {
	return func(all map[string]client.Object) { delete(all, name) }
}

func exists(resource schema.GroupResource) error { return apierrors.NewAlreadyExists(resource, "x") }

func TestReconcile(t *testing.T) {
	everything := []string{
		"apply binding", "create namespace default", "create namespace kube-node-lease", "create namespace kube-public",
		"create namespace kube-system", "create quota", "create service account default/default",
	}
	for name, tc := range map[string]struct {
		tenant   *v1alpha1.Tenant
		children []client.Object
		errors   map[string]error
		// powerless are administrators whose rights the server has yet to see.
		powerless []string
		// publishing is what the copying of published objects waits for.
		publishing string
		again      bool
		calls      []string
		ready      metav1.ConditionStatus
		reason     string
		terminal   bool
		failed     bool
	}{
		"new":        {calls: everything, ready: "True", reason: v1alpha1.ReasonReady},
		"complete":   {children: children(), ready: "True", reason: v1alpha1.ReasonReady},
		"stale view": {errors: map[string]error{"create namespace default": exists(namespaces)}, calls: everything, ready: "True", reason: v1alpha1.ReasonReady},
		"namespace removed": {
			children: children(without("kube-public")), calls: []string{"create namespace kube-public"},
			ready: "True", reason: v1alpha1.ReasonReady,
		},
		"namespace on its way out": {
			children: children(func(all map[string]client.Object) {
				now := metav1.Now()
				all["kube-node-lease"].SetDeletionTimestamp(&now)
				all["kube-node-lease"].SetFinalizers([]string{"kubernetes"})
			}),
			ready: "False", reason: v1alpha1.ReasonProgressing,
		},
		"account removed": {
			children: children(without("account")), calls: []string{"create service account default/default"},
			ready: "True", reason: v1alpha1.ReasonReady,
		},
		"quota raised by the tenant": {
			children: children(func(all map[string]client.Object) {
				all["quota"].(*corev1.ResourceQuota).Spec.Hard = corev1.ResourceList{"pods": two}
			}),
			calls: []string{"update quota"}, ready: "True", reason: v1alpha1.ReasonReady,
		},
		"quota replaced by the tenant before the cache has seen it": {
			children: children(without("quota")), errors: map[string]error{"create quota": exists(quotas)},
			calls: []string{"create quota", "update quota"}, ready: "True", reason: v1alpha1.ReasonReady,
		},
		"quota that the server refuses": {
			children: children(without("quota")),
			errors:   map[string]error{"create quota": apierrors.NewInvalid(schema.GroupKind{Kind: "ResourceQuota"}, "x", nil)},
			calls:    []string{"create quota"}, ready: "False", reason: v1alpha1.ReasonInvalid, failed: true, terminal: true,
		},
		"admins changed": {
			tenant: newTenant(func(t *v1alpha1.Tenant) {
				t.Spec.Admins = []v1alpha1.Subject{{Kind: "Group", Name: "g"}, {Kind: "Group", Name: "g"}}
			}),
			children: children(), calls: []string{"apply binding"}, ready: "True", reason: v1alpha1.ReasonReady,
		},
		"binding to another role": {
			children: children(func(all map[string]client.Object) { all["binding"].(*rbacv1.ClusterRoleBinding).RoleRef.Name = "view" }),
			calls:    []string{"apply binding"}, ready: "True", reason: v1alpha1.ReasonReady,
		},
		"binding that is refused": {
			children: children(without("binding")),
			errors:   map[string]error{"apply binding": apierrors.NewInvalid(schema.GroupKind{}, "x", nil)},
			calls:    []string{"apply binding"},
			ready:    "False", reason: v1alpha1.ReasonInvalid, failed: true, terminal: true,
		},
		"server away": {
			errors: map[string]error{"create namespace default": errors.New("connection refused")},
			calls:  []string{"create namespace default"}, ready: "False", reason: v1alpha1.ReasonFailed, failed: true,
		},
		"rights not seen yet": {
			tenant: newTenant(func(t *v1alpha1.Tenant) {
				t.Spec.Admins = []v1alpha1.Subject{{Kind: "User", Name: "u"}, {Kind: "Group", Name: "g"}}
			}),
			powerless: []string{"g"}, calls: everything, ready: "False", reason: v1alpha1.ReasonProgressing, again: true,
		},
		"published objects not copied yet": {
			publishing: "a copy", calls: everything, ready: "False", reason: v1alpha1.ReasonProgressing, again: true,
		},
		"published objects copied before": {
			tenant:     newTenant(func(t *v1alpha1.Tenant) { ready(t)(&t.Status, t.Generation) }),
			publishing: "a new one", children: children(), ready: "True", reason: v1alpha1.ReasonReady,
		},
		"published objects copied before a suspension": {
			tenant: newTenant(func(t *v1alpha1.Tenant) {
				t.Spec.Suspended = true
				ready(t)(&t.Status, t.Generation)
			}),
			publishing: "a new one", children: children(), ready: "False", reason: v1alpha1.ReasonSuspended,
		},
		"rights cannot be reviewed": {
			errors: map[string]error{"review admin": errors.New("connection refused")},
			calls:  everything, ready: "False", reason: v1alpha1.ReasonFailed, failed: true,
		},
		"rights seen before": {
			tenant: newTenant(func(t *v1alpha1.Tenant) {
				t.Status.ObservedGeneration = t.Generation
				ready(t)(&t.Status, t.Generation)
			}),
			children: children(), powerless: []string{"admin"}, ready: "True", reason: v1alpha1.ReasonReady,
		},
		"suspended": {
			tenant:   newTenant(func(t *v1alpha1.Tenant) { t.Spec.Suspended = true }),
			children: children(), ready: "False", reason: v1alpha1.ReasonSuspended,
		},
		"built in": {
			tenant: newTenant(func(t *v1alpha1.Tenant) { t.Name, t.Finalizers = "system", nil }),
			ready:  "True", reason: v1alpha1.ReasonReady,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.tenant == nil {
				tc.tenant = newTenant()
			}
			f := newFixture(t, tc.tenant, tc.children...)
			f.spaces.errors, f.spaces.powerless, f.publishing = tc.errors, tc.powerless, tc.publishing
			key := client.ObjectKeyFromObject(tc.tenant)
			result, err := f.Reconcile(context.Background(), reconcile.Request{NamespacedName: key})
			if (result.RequeueAfter > 0) != tc.again {
				t.Errorf("requeued after %v, want it: %v", result.RequeueAfter, tc.again)
			}
			if (err != nil) != tc.failed || errors.Is(err, reconcile.TerminalError(nil)) != tc.terminal {
				t.Errorf("unexpected error %v", err)
			}
			if diff := cmp.Diff(tc.calls, f.spaces.sorted(), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("calls: %s", diff)
			}
			got := &v1alpha1.Tenant{}
			if err := f.Client.Get(context.Background(), key, got); err != nil {
				t.Fatal(err)
			}
			c := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionReady)
			if c == nil || c.Status != tc.ready || c.Reason != tc.reason || c.ObservedGeneration != 2 {
				t.Errorf("condition %+v, want %s, %s of generation 2", c, tc.ready, tc.reason)
			}
			if got.Status.ObservedGeneration != 2 {
				t.Errorf("observed generation %d", got.Status.ObservedGeneration)
			}
		})
	}
}

func TestDesired(t *testing.T) {
	f := newFixture(t, newTenant())
	if diff := cmp.Diff(corev1.ResourceList{"pods": one}, f.quotaOf(newTenant()).Spec.Hard); diff != "" {
		t.Errorf("default quota: %s", diff)
	}
	own := newTenant(func(t *v1alpha1.Tenant) { t.Spec.Quota = corev1.ResourceList{"pods": two} })
	if diff := cmp.Diff(corev1.ResourceList{"pods": two}, f.quotaOf(own).Spec.Hard); diff != "" {
		t.Errorf("own quota: %s", diff)
	}
	want := []rbacv1.Subject{
		{Kind: "Group", APIGroup: rbacv1.GroupName, Name: "g"}, {Kind: "User", APIGroup: rbacv1.GroupName, Name: "g"},
	}
	got := adminBinding([]v1alpha1.Subject{{Kind: "Group", Name: "g"}, {Kind: "User", Name: "g"}, {Kind: "Group", Name: "g"}}).Subjects
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("admins: %s", diff)
	}
}

func TestContentChanged(t *testing.T) {
	quota := func(hard corev1.ResourceList, used resource.Quantity) client.Object {
		return &corev1.ResourceQuota{
			Spec:   corev1.ResourceQuotaSpec{Hard: hard},
			Status: corev1.ResourceQuotaStatus{Used: corev1.ResourceList{"pods": used}},
		}
	}
	binding := func(role, user string) client.Object {
		return &rbacv1.ClusterRoleBinding{RoleRef: rbacv1.RoleRef{Name: role}, Subjects: []rbacv1.Subject{{Name: user}}}
	}
	for name, tc := range map[string]struct {
		before, after client.Object
		want          bool
	}{
		"quota used":      {quota(corev1.ResourceList{"pods": one}, one), quota(corev1.ResourceList{"pods": one}, two), false},
		"quota changed":   {quota(corev1.ResourceList{"pods": one}, one), quota(corev1.ResourceList{"pods": two}, one), true},
		"binding same":    {binding("r", "u"), binding("r", "u"), false},
		"binding subject": {binding("r", "u"), binding("r", "v"), true},
		"binding role":    {binding("r", "u"), binding("s", "u"), true},
		"namespace":       {namespace("a"), namespace("b"), false},
	} {
		if got := contentChanged(tc.before, tc.after); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
