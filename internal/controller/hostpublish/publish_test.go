package hostpublish

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/conditions"
	"github.com/tenantry/tenantry/internal/controller/controlplane"
	"github.com/tenantry/tenantry/internal/tenant"
)

const policies = "validatingadmissionpolicies.admissionregistration.k8s.io"

// mapper knows some kinds of the host.
func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"ConfigMap", "Secret", "LimitRange", "Pod"} {
		m.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	m.Add(rbacv1.SchemeGroupVersion.WithKind("Role"), meta.RESTScopeNamespace)
	m.Add(rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), meta.RESTScopeNamespace)
	m.Add(rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), meta.RESTScopeRoot)
	m.Add(rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"), meta.RESTScopeRoot)
	m.AddSpecific(admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingAdmissionPolicy"),
		admissionregistrationv1.SchemeGroupVersion.WithResource("validatingadmissionpolicies"),
		admissionregistrationv1.SchemeGroupVersion.WithResource("validatingadmissionpolicy"), meta.RESTScopeRoot)
	m.Add(v1alpha1.GroupVersion.WithKind("ControlPlane"), meta.RESTScopeNamespace)
	return m
}

// publishing returns own/a, which publishes what is named as RESOURCE or RESOURCE/NAME.
func publishing(all ...string) *v1alpha1.ControlPlane {
	cp := &v1alpha1.ControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: "a", UID: "uid-of-a", Generation: 1}}
	cp.Spec.Publish = &v1alpha1.ControlPlanePublish{Namespace: "default"}
	for _, one := range all {
		if resource, name, named := strings.Cut(one, "/"); named {
			cp.Spec.Publish.Objects = append(cp.Spec.Publish.Objects, v1alpha1.HostObject{Resource: resource, Name: name})
		} else {
			cp.Spec.Publish.Resources = append(cp.Spec.Publish.Resources, one)
		}
	}
	return cp
}

func published(o metav1.ObjectMeta) metav1.ObjectMeta {
	o.Annotations = map[string]string{tenant.PublishedAnnotation: tenant.PublishedTrue}
	return o
}

func in(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func labelled(o metav1.ObjectMeta, labels ...string) metav1.ObjectMeta {
	o.Labels = map[string]string{}
	for i := 0; i < len(labels); i += 2 {
		o.Labels[labels[i]] = labels[i+1]
	}
	return o
}

func configMap(o metav1.ObjectMeta, data string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: o, Data: map[string]string{"data": data}}
}

type fixture struct {
	host, space client.WithWatch
	reconciler  *Reconciler
	followed    []string
}

func newFixture(t *testing.T, cp *v1alpha1.ControlPlane, onHost, inSpace []client.Object) *fixture {
	t.Helper()
	hostScheme := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(hostScheme), v1alpha1.AddHostToScheme(hostScheme)); err != nil {
		t.Fatal(err)
	}
	build := func(objects []client.Object) client.WithWatch {
		return fake.NewClientBuilder().WithScheme(hostScheme).WithRESTMapper(mapper()).
			WithStatusSubresource(&v1alpha1.ControlPlane{}).
			WithIndex(&rbacv1.Role{}, metav1.ObjectNameField, nameOf).WithIndex(&rbacv1.RoleBinding{}, metav1.ObjectNameField, nameOf).WithObjects(objects...).Build()
	}
	f := &fixture{host: build(append(onHost, cp)), space: build(inSpace)}
	f.reconciler = &Reconciler{
		Client: f.host, Host: f.host, Mapper: mapper(), conflicts: conditions.NewConflicts(conflictPeriod, conflictLimit),
		Connect: func(context.Context, *v1alpha1.ControlPlane) (*Space, error) {
			return &Space{Admin: f.space, Publisher: f.space}, nil
		},
		Follow: func(_ *v1alpha1.ControlPlane, all []*kind) {
			f.followed = nil
			for _, k := range all {
				f.followed = append(f.followed, k.String())
			}
		},
	}
	return f
}

func nameOf(o client.Object) []string { return []string{o.GetName()} }

// reconcile returns the condition of the ControlPlane afterwards.
func (f *fixture) reconcile(t *testing.T) *metav1.Condition {
	t.Helper()
	key := types.NamespacedName{Namespace: "own", Name: "a"}
	if _, err := f.reconciler.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	cp := &v1alpha1.ControlPlane{}
	if err := f.host.Get(t.Context(), key, cp); err != nil {
		t.Fatal(err)
	}
	return meta.FindStatusCondition(cp.Status.Conditions, v1alpha1.ConditionHostPublished)
}

// copies returns what there is of some kinds in the system space, as NAMESPACE/NAME.
func (f *fixture) copies(t *testing.T) []string {
	t.Helper()
	return namesOf(t, f.space, &corev1.ConfigMapList{}, &corev1.SecretList{}, &admissionregistrationv1.ValidatingAdmissionPolicyList{})
}

func namesOf(t *testing.T, in client.Client, lists ...client.ObjectList) []string {
	t.Helper()
	var all []string
	for _, list := range lists {
		if err := in.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		objects, err := meta.ExtractList(list)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			object := o.(client.Object)
			all = append(all, object.GetNamespace()+"/"+object.GetName())
		}
	}
	slices.Sort(all)
	return all
}

// TestPublished checks what of the host is published: what the ControlPlane names and somebody who may
// write it has annotated.
func TestPublished(t *testing.T) {
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: published(in("", "policy"))}
	given := func(o metav1.ObjectMeta) metav1.ObjectMeta { return labelled(published(o), controlplane.OfLabel, "a") }
	onHost := []client.Object{
		configMap(published(in("own", "wanted")), "x"), configMap(in("own", "unwanted"), "x"), configMap(published(in("other", "others")), "x"),
		configMap(metav1.ObjectMeta{Namespace: "own", Name: "forced", Annotations: map[string]string{tenant.PublishedAnnotation: tenant.PublishedForce}}, "x"),
		policy, &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: in("", "unwanted-policy")},
		&corev1.Secret{ObjectMeta: given(in("own", "given"))},
		&corev1.Secret{ObjectMeta: published(in("own", "not-given"))},
		&corev1.Secret{ObjectMeta: labelled(in("own", "etcd"), controlplane.OfLabel, "a")},
		&corev1.Secret{ObjectMeta: labelled(published(in("own", "a-keys")), controlplane.OfLabel, "a", controlplane.ManagedLabel, controlplane.FieldManager)},
		&corev1.Secret{ObjectMeta: labelled(published(in("own", "of-b")), controlplane.OfLabel, "b")},
		&corev1.Secret{ObjectMeta: given(in("own", "token")), Type: corev1.SecretTypeServiceAccountToken},
	}
	for name, tc := range map[string]struct {
		publish []string
		want    []string
		// message is what the condition says, empty if all is well.
		message string
	}{
		"nothing":                {},
		"by its annotation":      {publish: []string{"configmaps"}, want: []string{"default/wanted"}},
		"by its name":            {publish: []string{"configmaps/wanted", "configmaps/missing"}, want: []string{"default/wanted"}, message: `configmaps "missing" is not published: namespace "own" has none of this name`},
		"by name, unwanted":      {publish: []string{"configmaps/unwanted", policies + "/unwanted-policy"}, message: "needs the annotation multi-tenancy.k8s.io/published=true"},
		"by name, forced":        {publish: []string{"configmaps/forced"}, message: "needs the annotation multi-tenancy.k8s.io/published=true"},
		"of another namespace":   {publish: []string{"configmaps/others"}, message: `namespace "own" has none`},
		"no policy of the host":  {publish: []string{policies + "/missing"}, message: "the host has none of this name"},
		"without a namespace":    {publish: []string{policies + "/policy"}, want: []string{"/policy"}},
		"a Secret":               {publish: []string{"secrets/given"}, want: []string{"default/given"}},
		"a Secret of nobody":     {publish: []string{"secrets/not-given"}, message: "needs the label tenantry.io/control-plane=a"},
		"an unwanted Secret":     {publish: []string{"secrets/etcd"}, message: "needs the annotation"},
		"the operator's Secret":  {publish: []string{"secrets/a-keys"}, message: "needs the label tenantry.io/control-plane=a, and cannot be one that the operator has made"},
		"a Secret of another":    {publish: []string{"secrets/of-b"}, message: "needs the label tenantry.io/control-plane=a"},
		"a token":                {publish: []string{"secrets/token"}, message: `Secrets of type "kubernetes.io/service-account-token" are credentials`},
		"all Secrets":            {publish: []string{"secrets"}, message: "secrets are published by name alone"},
		"all Roles":              {publish: []string{"roles.rbac.authorization.k8s.io"}, message: "are published by name alone"},
		"all policies":           {publish: []string{policies}, message: "are published by name alone"},
		"what is not published":  {publish: []string{"pods"}, message: "pods cannot be published"},
		"what there is not":      {publish: []string{"foos.example.com/x"}, message: `the host has no resource "foos.example.com"`},
		"what is not the host's": {publish: []string{"tenants.tenantry.io/x"}, message: "tenants.tenantry.io cannot be published"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, publishing(tc.publish...), slices.Clone(onHost), nil)
			c := f.reconcile(t)
			if got := c != nil && c.Status == metav1.ConditionTrue; c == nil && len(tc.publish) > 0 || c != nil && (got != (tc.message == "") || !strings.Contains(c.Message, tc.message)) {
				t.Errorf("condition %+v, want the message %q", c, tc.message)
			}
			if diff := cmp.Diff(tc.want, f.copies(t)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestCopy checks what of an object is copied, and how a copy is marked.
func TestCopy(t *testing.T) {
	original := configMap(published(in("own", "c")), "x")
	original.Labels = map[string]string{"team": "a", v1alpha1.HostPublishedLabel: "forged"}
	original.Annotations[tenant.ScopeAnnotation], original.Annotations[tenant.Former(tenant.ScopeAnnotation)] = "All", "All"
	original.Annotations["tenantry.io/published-from"], original.Annotations[corev1.LastAppliedConfigAnnotation] = "forged", "{}"
	original.Finalizers, original.OwnerReferences = []string{"example.com/f"}, []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "o", UID: "u"}}
	f := newFixture(t, publishing("configmaps"), []client.Object{original}, nil)
	f.reconcile(t)
	found := &corev1.ConfigMap{}
	if err := f.space.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "c"}, found); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"team": "a", v1alpha1.HostPublishedLabel: "true"}, found.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	hash := found.Annotations[v1alpha1.HostContentAnnotation]
	if diff := cmp.Diff(map[string]string{tenant.PublishedAnnotation: "true", v1alpha1.HostObjectAnnotation: "own/c", v1alpha1.HostContentAnnotation: hash}, found.Annotations); diff != "" || hash == "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if len(found.Finalizers) > 0 || len(found.OwnerReferences) > 0 || found.Data["data"] != "x" {
		t.Errorf("got %+v", found)
	}
}

// TestFollowing checks that edits and deletions follow, that nothing of others is touched, and that
// nothing is written that is as it should be.
func TestFollowing(t *testing.T) {
	others := configMap(in("default", "theirs"), "theirs")
	f := newFixture(t, publishing("configmaps"),
		[]client.Object{configMap(published(in("own", "c")), "1"), configMap(published(in("own", "theirs")), "ours")}, []client.Object{others})
	writes := 0
	f.space = interceptor.NewClient(f.space, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			writes++
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			writes++
			return c.Update(ctx, o, opts...)
		},
	})
	step := func(data string, wrote bool) {
		t.Helper()
		before := writes
		if c := f.reconcile(t); c == nil || !strings.Contains(c.Message, `has ConfigMap "theirs", which is not of the host`) {
			t.Errorf("condition %+v", c)
		}
		found := &corev1.ConfigMap{}
		err := f.space.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "c"}, found)
		if client.IgnoreNotFound(err) != nil || found.Data["data"] != data || (writes > before) != wrote {
			t.Errorf("got %v with error %v and %d writes, want %q", found.Data, err, writes-before, data)
		}
		if err := f.space.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "theirs"}, found); err != nil || found.Data["data"] != "theirs" {
			t.Errorf("somebody else's is %v, error %v", found.Data, err)
		}
	}
	change := func(c client.Client, key types.NamespacedName, how func(*corev1.ConfigMap)) {
		t.Helper()
		found := &corev1.ConfigMap{}
		if err := c.Get(t.Context(), key, found); err != nil {
			t.Fatal(err)
		}
		how(found)
		if err := c.Update(t.Context(), found); err != nil {
			t.Fatal(err)
		}
	}
	own, copied := types.NamespacedName{Namespace: "own", Name: "c"}, types.NamespacedName{Namespace: "default", Name: "c"}
	step("1", true)
	step("1", false)
	change(f.host, own, func(c *corev1.ConfigMap) { c.Data["data"] = "2" })
	step("2", true)
	change(f.space, copied, func(c *corev1.ConfigMap) { c.Data["data"] = "edited" })
	step("2", true)
	change(f.space, copied, func(c *corev1.ConfigMap) { c.Data["more"] = "added" })
	step("2", true)
	change(f.host, own, func(c *corev1.ConfigMap) { c.Annotations = nil })
	step("", false)
	change(f.host, own, func(c *corev1.ConfigMap) { c.Annotations = published(c.ObjectMeta).Annotations })
	step("2", true)
	if err := f.host.Delete(t.Context(), configMap(in("own", "c"), "")); err != nil {
		t.Fatal(err)
	}
	step("", false)
}

// TestRetraction checks that copies go with the kind that is no longer named, and with all of
// spec.publish, and that nothing is watched then.
func TestRetraction(t *testing.T) {
	f := newFixture(t, publishing("configmaps", policies+"/policy"), []client.Object{
		configMap(published(in("own", "c")), "1"), &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: published(in("", "policy"))},
	}, nil)
	for _, step := range []struct {
		publish, want, followed []string
	}{
		{[]string{"configmaps", policies + "/policy"}, []string{"/policy", "default/c"}, []string{"configmaps", policies}},
		{[]string{policies + "/policy"}, []string{"/policy"}, []string{policies}},
		{nil, nil, nil},
	} {
		cp := &v1alpha1.ControlPlane{}
		if err := f.host.Get(t.Context(), types.NamespacedName{Namespace: "own", Name: "a"}, cp); err != nil {
			t.Fatal(err)
		}
		if cp.Spec.Publish = publishing(step.publish...).Spec.Publish; step.publish == nil {
			cp.Spec.Publish = nil
		}
		if err := f.host.Update(t.Context(), cp); err != nil {
			t.Fatal(err)
		}
		if c := f.reconcile(t); (c != nil) != (step.publish != nil) {
			t.Errorf("condition %+v", c)
		}
		if diff := cmp.Diff(step.want, f.copies(t)); diff != "" {
			t.Errorf("copies (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(step.followed, f.followed); diff != "" {
			t.Errorf("watched (-want +got):\n%s", diff)
		}
	}
}

// TestRightsGo checks that the operator's user has rights where it writes copies alone, and none when there are none.
func TestRightsGo(t *testing.T) {
	others := &rbacv1.Role{ObjectMeta: in("default", "others")}
	f := newFixture(t, publishing("configmaps"), []client.Object{configMap(published(in("own", "c")), "1")}, []client.Object{others})
	for _, step := range []struct {
		publish *v1alpha1.ControlPlanePublish
		want    []string
	}{
		{publishing("configmaps").Spec.Publish, []string{"/tenantry-host-publisher", "/tenantry-host-publisher",
			"default/others", "default/tenantry-host-publisher", "default/tenantry-host-publisher"}},
		{&v1alpha1.ControlPlanePublish{Namespace: "shared", Resources: []string{"configmaps"}}, []string{"/tenantry-host-publisher", "/tenantry-host-publisher",
			"default/others", "shared/tenantry-host-publisher", "shared/tenantry-host-publisher"}},
		{nil, []string{"default/others"}},
	} {
		cp := &v1alpha1.ControlPlane{}
		if err := f.host.Get(t.Context(), types.NamespacedName{Namespace: "own", Name: "a"}, cp); err != nil {
			t.Fatal(err)
		}
		cp.Spec.Publish = step.publish
		if err := f.host.Update(t.Context(), cp); err != nil {
			t.Fatal(err)
		}
		f.reconcile(t)
		if diff := cmp.Diff(step.want, namesOf(t, f.space, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{})); diff != "" {
			t.Errorf("rights (-want +got):\n%s", diff)
		}
	}
}

// TestConflicts checks that servers which always conflict have the host read less and less often.
func TestConflicts(t *testing.T) {
	f := newFixture(t, publishing("configmaps"), []client.Object{configMap(published(in("own", "c")), "1")}, nil)
	conflicts := true
	f.space = interceptor.NewClient(f.space, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if _, is := o.(*unstructured.Unstructured); is && conflicts {
				return apierrors.NewConflict(corev1.Resource("configmaps"), "c", errors.New("again"))
			}
			return c.Create(ctx, o, opts...)
		},
	})
	after := func(want time.Duration) {
		t.Helper()
		result, err := f.reconciler.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "own", Name: "a"}})
		if err != nil || result.RequeueAfter != want {
			t.Errorf("got %+v and error %v, want %s", result, err, want)
		}
	}
	for wait := conflictPeriod; wait < conflictLimit; wait *= 2 {
		after(wait)
	}
	after(conflictLimit)
	conflicts = false
	after(driftPeriod)
}

// TestUnreadable checks that nothing is deleted because the host does not let the operator read it.
func TestUnreadable(t *testing.T) {
	f := newFixture(t, publishing("configmaps"), []client.Object{configMap(published(in("own", "c")), "1")}, nil)
	f.reconcile(t)
	refused := apierrors.NewForbidden(corev1.Resource("configmaps"), "", errors.New("no"))
	f.reconciler.Host = interceptor.NewClient(f.host, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return refused },
	})
	if c := f.reconcile(t); c == nil || c.Reason != v1alpha1.ReasonNotPublished || !strings.Contains(c.Message, `may not list configmaps of namespace "own": give its account`) {
		t.Errorf("condition %+v", c)
	}
	if diff := cmp.Diff([]string{"default/c"}, f.copies(t)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRights checks what the operator's user may that writes copies.
func TestRights(t *testing.T) {
	kindOf := func(group, resource string, namespaced bool) *kind {
		return &kind{GroupVersionResource: schema.GroupVersionResource{Group: group, Resource: resource}, namespaced: namespaced}
	}
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	everywhere, within := rulesFor([]*kind{
		kindOf("", "configmaps", true), kindOf("admissionregistration.k8s.io", "validatingadmissionpolicies", false),
	})
	if diff := cmp.Diff([]rbacv1.PolicyRule{
		rule("", "configmaps", "publish"),
		rule("admissionregistration.k8s.io", "validatingadmissionpolicies", "publish", "get", "create", "update"),
	}, everywhere); diff != "" {
		t.Errorf("everywhere (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]rbacv1.PolicyRule{rule("", "configmaps", "get", "create", "update")}, within); diff != "" {
		t.Errorf("within (-want +got):\n%s", diff)
	}
}
