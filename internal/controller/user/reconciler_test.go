package user

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/process/backlog"
	"github.com/tenantry/tenantry/internal/tenant"
)

// memory is a space that the cache knows at once.
type memory struct {
	client.Client
	// live, if set, is what the space has, of which the cache does not know yet.
	live client.Client
	mu   sync.Mutex
	// done are all writes that were made, and failing is what they return.
	done    []string
	failing error
	status  v1alpha1.UserStatus
	// meanwhile is what somebody does after the next list of RoleBindings.
	meanwhile func()
	// stuck is a namespace in which nothing can be deleted.
	stuck string
	// slow is how long a patch takes, and slowList how long a list.
	slow, slowList time.Duration
}

func flatten(n tenant.Name, o client.Object) client.Object {
	o = o.DeepCopyObject().(client.Object)
	if o.GetNamespace() != "" {
		o.SetNamespace(tenant.Flatten(n, o.GetNamespace()).String())
	} else {
		o.SetName(tenant.Flatten(n, o.GetName()).String())
	}
	return o
}

func (m *memory) note(n tenant.Name, verb string, o client.Object) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failing == nil {
		m.done = append(m.done, fmt.Sprintf("%s %T %s", verb, o, pathOf(o)))
	}
	return m.failing
}

// pathOf returns the path of an object in its space.
func pathOf(o client.Object) string {
	const rbac = "/apis/" + rbacv1.GroupName + "/v1"
	switch o.(type) {
	case *v1alpha1.User:
		return "/apis/" + v1alpha1.GroupVersion.String() + "/users/" + o.GetName()
	case *corev1.Namespace:
		return "/api/v1/namespaces/" + o.GetName()
	case *rbacv1.ClusterRoleBinding:
		return rbac + "/clusterrolebindings/" + o.GetName()
	case *rbacv1.RoleBinding:
		return rbac + "/namespaces/" + o.GetNamespace() + "/rolebindings/" + o.GetName()
	default:
		return rbac + "/namespaces/" + o.GetNamespace() + "/roles/" + o.GetName()
	}
}

func (m *memory) Apply(ctx context.Context, n tenant.Name, o client.Object) error {
	if err := m.note(n, "apply", o); err != nil {
		return err
	}
	flat := flatten(n, o)
	if err := client.IgnoreNotFound(m.Client.Delete(ctx, flat)); err != nil {
		return err
	}
	return m.Create(ctx, flat)
}

func (m *memory) Read(ctx context.Context, n tenant.Name, o client.Object) (bool, error) {
	from := m.Client
	if m.live != nil {
		from = m.live
	}
	err := from.Get(ctx, client.ObjectKeyFromObject(flatten(n, o)), o)
	return err == nil, client.IgnoreNotFound(err)
}

func (m *memory) Delete(ctx context.Context, n tenant.Name, o client.Object) error {
	if o.GetNamespace() != "" && o.GetNamespace() == m.stuck {
		return errors.New("stuck")
	}
	if err := m.note(n, "delete", o); err != nil {
		return err
	}
	return client.IgnoreNotFound(m.Client.Delete(ctx, flatten(n, o)))
}

func (m *memory) Patch(ctx context.Context, n tenant.Name, o client.Object, subresource string, change any) error {
	to := change.(map[string]any)
	if status, ok := to["status"]; ok {
		m.status = *status.(*v1alpha1.UserStatus)
		return nil
	}
	time.Sleep(m.slow)
	if err := m.note(n, "patch"+subresource, o); err != nil {
		return err
	}
	found := flatten(n, o)
	if err := m.Get(ctx, client.ObjectKeyFromObject(found), found); err != nil {
		return client.IgnoreNotFound(err)
	}
	switch found := found.(type) {
	case *rbacv1.ClusterRoleBinding:
		found.Subjects = to["subjects"].([]rbacv1.Subject)
	case *rbacv1.RoleBinding:
		found.Subjects = to["subjects"].([]rbacv1.Subject)
	case *v1alpha1.User:
		metadata := to["metadata"].(map[string]any)
		if found.UID != metadata["uid"] || found.ResourceVersion != metadata["resourceVersion"] {
			return errors.New("it is another one")
		}
		found.Finalizers = metadata["finalizers"].([]string)
	}
	return m.Update(ctx, found)
}

func (m *memory) RoleBindings(ctx context.Context, n tenant.Name, namespace, page string) ([]rbacv1.RoleBinding, string, error) {
	time.Sleep(m.slowList)
	list := &rbacv1.RoleBindingList{}
	if err := m.List(ctx, list, client.InNamespace(tenant.Flatten(n, namespace).String())); err != nil {
		return nil, "", err
	}
	for i := range list.Items {
		list.Items[i].Namespace = namespace
	}
	if m.meanwhile != nil {
		m.meanwhile()
		m.meanwhile = nil
	}
	from, _ := strconv.Atoi(page)
	if to := from + bindingsAtOnce; to < len(list.Items) {
		return list.Items[from:to], strconv.Itoa(to), nil
	}
	return list.Items[from:], "", nil
}

func alice(changes ...func(*v1alpha1.User)) *v1alpha1.User {
	u := &v1alpha1.User{
		ObjectMeta: metav1.ObjectMeta{Name: "acme|alice", UID: "a", Finalizers: []string{v1alpha1.UserFinalizer}},
		Spec:       v1alpha1.UserSpec{Username: "keystone:1"},
	}
	for _, change := range changes {
		change(u)
	}
	return u
}

func deleted(u *v1alpha1.User) { u.DeletionTimestamp = new(metav1.Now()) }

func namespace(name, by string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "acme|" + name, UID: types.UID(name), Labels: map[string]string{tenant.CreatedByLabel: by}}}
}

// world returns the controller of a space with objects, which it is to look at.
func world(t *testing.T, objects ...client.Object) (*Reconciler, *memory) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	b := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
	for _, kind := range []client.Object{&v1alpha1.User{}, &corev1.Namespace{}, &rbacv1.ClusterRoleBinding{}, &rbacv1.RoleBinding{}, &rbacv1.Role{}} {
		b = b.WithIndex(kind, byUser, func(o client.Object) []string { return []string{keyOf(o).String()} })
	}
	m := &memory{Client: b.Build()}
	r := &Reconciler{Tenants: m, Children: m, spaces: m, backlog: newBacklog()}
	for _, o := range objects {
		if _, isTenant := o.(*v1alpha1.Tenant); !isTenant {
			r.backlog.Add("acme", itemOf(o))
		}
	}
	return r, m
}

// run gives the tenant turns until it has had enough, and returns what was written.
func (m *memory) run(t *testing.T, r *Reconciler) []string {
	t.Helper()
	m.done = nil
	for range 100 {
		result, err := r.Reconcile(t.Context(), "acme")
		if err != nil {
			t.Fatal(err)
		}
		if result.RequeueAfter == 0 {
			return m.done
		}
	}
	t.Fatal("it has no end")
	return nil
}

const (
	toRole     = "*v1.Role /apis/rbac.authorization.k8s.io/v1/namespaces/hers/roles/tenantry:user"
	toBinding  = "*v1.RoleBinding /apis/rbac.authorization.k8s.io/v1/namespaces/hers/rolebindings/tenantry:user"
	toCreator  = "*v1.ClusterRoleBinding /apis/rbac.authorization.k8s.io/v1/clusterrolebindings/tenantry:user:alice"
	toFinalize = "patch *v1alpha1.User /apis/tenantry.io/v1alpha1/users/alice"
)

// TestRightsOfOthers checks that a cache which lags behind gives no rights to somebody who is another one by now, or in
// another's namespace.
func TestRightsOfOthers(t *testing.T) {
	another := func(u *v1alpha1.User) { u.UID = "b" }
	for name, tc := range map[string]struct {
		live []client.Object
		want []string
	}{
		"as observed":              {live: []client.Object{alice(), namespace("hers", "a")}, want: []string{"apply " + toCreator, "apply " + toRole, "apply " + toBinding}},
		"another User of the name": {live: []client.Object{alice(another), namespace("hers", "a")}},
		"a deleted User":           {live: []client.Object{alice(deleted), namespace("hers", "a")}},
		"no User":                  {live: []client.Object{namespace("hers", "a")}},
		"another namespace": {live: []client.Object{alice(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "acme|hers", UID: "another"}}},
			want: []string{"apply " + toCreator}},
		"a deleted namespace": {live: []client.Object{alice(), func() client.Object {
			ns := namespace("hers", "a")
			ns.DeletionTimestamp, ns.Finalizers = new(metav1.Now()), []string{"x/y"}
			return ns
		}()}, want: []string{"apply " + toCreator}},
		"no namespace": {live: []client.Object{alice()}, want: []string{"apply " + toCreator}},
	} {
		t.Run(name, func(t *testing.T) {
			r, m := world(t, alice(), namespace("hers", "a"))
			_, live := world(t, tc.live...)
			m.live = live.Client
			got := m.run(t, r)
			slices.Sort(got)
			slices.Sort(tc.want)
			if diff := cmp.Diff(tc.want, slices.Compact(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRights(t *testing.T) {
	terminating := namespace("terminating", "a")
	terminating.DeletionTimestamp, terminating.Finalizers = new(metav1.Now()), []string{"x"}
	r, m := world(t, alice(), namespace("hers", "a"), namespace("theirs", "b"), terminating)
	r.backlog.Add("acme", item{uid: "a", namespace: "theirs"})
	want := []string{"apply " + toCreator, "apply " + toRole, "apply " + toBinding}
	slices.Sort(want)
	got := m.run(t, r)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if m.status.Namespaces != 2 || !meta.IsStatusConditionTrue(m.status.Conditions, v1alpha1.ConditionReady) {
		t.Errorf("status %+v", m.status)
	}
	var role rbacv1.Role
	var binding rbacv1.RoleBinding
	var creator rbacv1.ClusterRoleBinding
	for o, key := range map[client.Object]client.ObjectKey{
		&role: {Namespace: "acme|hers", Name: "tenantry:user"}, &binding: {Namespace: "acme|hers", Name: "tenantry:user"}, &creator: {Name: "acme|tenantry:user:alice"},
	} {
		if err := m.Get(t.Context(), key, o); err != nil {
			t.Fatal(err)
		}
		if o.GetLabels()[tenant.UserLabel] != "a" {
			t.Errorf("%T is marked %v", o, o.GetLabels())
		}
	}
	subjects := []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "keystone:1"}}
	if diff := cmp.Diff([][]rbacv1.Subject{subjects, subjects}, [][]rbacv1.Subject{binding.Subjects, creator.Subjects}); diff != "" {
		t.Error(diff)
	}
	if creator.RoleRef.Name != "tenantry:namespace-creator" || binding.RoleRef.Kind != "Role" || binding.RoleRef.Name != role.Name {
		t.Errorf("bound are %v, %v", creator.RoleRef, binding.RoleRef)
	}

	for what, disturb := range map[string]func() error{
		toRole:    func() error { role.Rules[0].Verbs = []string{"get"}; return m.Update(t.Context(), &role) },
		toBinding: func() error { binding.Subjects[0].Name = "mallory"; return m.Update(t.Context(), &binding) },
		toCreator: func() error { return m.Client.Delete(t.Context(), &creator) },
	} {
		if err := disturb(); err != nil {
			t.Fatal(err)
		}
		r.backlog.Add("acme", item{uid: "a"})
		if diff := cmp.Diff([]string{"apply " + what}, m.run(t, r)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestEnd(t *testing.T) {
	away := []string{"patch " + toCreator, "delete " + toCreator, "delete " + toBinding, "delete " + toRole}
	deletes := func(u *v1alpha1.User) { u.Spec.NamespacePolicy = v1alpha1.UserNamespacesDelete }
	for name, tc := range map[string]struct {
		user *v1alpha1.User
		want []string
	}{
		"kept":                  {alice(deleted), append(slices.Clone(away), toFinalize)},
		"deleted":               {alice(deleted, deletes), append(slices.Clone(away), "delete *v1.Namespace /api/v1/namespaces/hers", toFinalize)},
		"held by somebody else": {alice(deleted, func(u *v1alpha1.User) { u.Finalizers = []string{"x"} }), nil},
	} {
		t.Run(name, func(t *testing.T) {
			r, m := world(t, tc.user, namespace("hers", "a"), namespace("theirs", "b"))
			r.backlog = newBacklog()
			r.backlog.Add("acme", item{uid: "a"})
			if diff := cmp.Diff(tc.want, m.run(t, r)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestUnbind checks that nobody keeps rights by what they have bound or held themselves.
func TestUnbind(t *testing.T) {
	bound := func(name string, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
		return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "acme|hers", Name: name}, Subjects: subjects}
	}
	her, group := subjects(alice())[0], rbacv1.Subject{Kind: "Group", Name: "keystone:1"}
	other := rbacv1.Subject{Kind: "User", Name: "bob"}
	held := flatten("acme", ownerBinding(alice(), "hers"))
	held.SetFinalizers([]string{"x/y"})
	r, m := world(t, alice(deleted), namespace("hers", "a"), held, bound("mine", other, her), bound("others", other, group))
	r.backlog = newBacklog() // unmarked bindings are not in the cache
	r.backlog.Add("acme", item{uid: "a"})
	m.meanwhile = func() {
		if err := m.Create(t.Context(), bound("late", her)); err != nil {
			t.Error(err)
		}
	}
	m.run(t, r)
	list := &rbacv1.RoleBindingList{}
	if err := m.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	got := map[string][]rbacv1.Subject{}
	for _, b := range list.Items {
		got[b.Name] = b.Subjects
	}
	want := map[string][]rbacv1.Subject{"tenantry:user": nil, "mine": {other}, "others": {other, group}, "late": nil}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

// TestManyBindings checks that a User that is bound many times keeps other tenants waiting for a turn alone.
func TestManyBindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := []client.Object{alice(deleted), namespace("hers", "a")}
		const many = 100
		for i := range many {
			binding := ownerBinding(alice(), "hers")
			binding.Name = fmt.Sprint("mine-", i)
			objects = append(objects, flatten("acme", binding))
		}
		r, m := world(t, objects...)
		m.slow, m.slowList = 100*time.Millisecond, 2*turnTime
		r.backlog = newBacklog()
		r.backlog.Add("acme", item{uid: "a"})
		begin := time.Now()
		result, err := r.Reconcile(t.Context(), "acme")
		if took := time.Since(begin); err != nil || result.RequeueAfter != backlog.Soon || took > m.slowList+turnTime+3*m.slow {
			t.Errorf("got %v, %v after %s", result, err, took)
		}
		if len(m.done) < patchesAtOnce || len(m.done) >= many || slices.Contains(m.done, toFinalize) {
			t.Errorf("a turn does %d", len(m.done))
		}
		m.run(t, r)
		left := &rbacv1.RoleBindingList{}
		if err := m.List(t.Context(), left); err != nil || slices.ContainsFunc(left.Items, func(b rbacv1.RoleBinding) bool { return len(b.Subjects) > 0 }) {
			t.Errorf("the user is still bound: %v, %v", left, err)
		}
	})
}

// TestFailedEnd checks that a User has no rights in namespaces after one in which they cannot be taken away, and stays.
func TestFailedEnd(t *testing.T) {
	objects := []client.Object{alice(deleted)}
	const many = 2 * perTurn
	for i := range many {
		name := fmt.Sprintf("ns-%02d", i)
		objects = append(objects, namespace(name, "a"), flatten("acme", ownerBinding(alice(), name)))
	}
	r, m := world(t, objects...)
	m.stuck = "ns-00"
	r.backlog = newBacklog()
	r.backlog.Add("acme", item{uid: "a"})
	var after time.Duration
	for turn := 0; after <= backlog.Soon && turn < many; turn++ {
		result, err := r.Reconcile(t.Context(), "acme")
		if err != nil {
			t.Fatal(err)
		}
		after = result.RequeueAfter
	}
	if after <= backlog.Soon || slices.Contains(m.done, toFinalize) {
		t.Errorf("it is tried again after %v", after)
	}
	left := &rbacv1.RoleBindingList{}
	if err := m.List(t.Context(), left); err != nil || len(left.Items) != 1 {
		t.Errorf("%d bindings are left, want one: %v", len(left.Items), err)
	}
	m.stuck = ""
	r.backlog.Add("acme", item{uid: "a"})
	m.run(t, r)
	if !slices.Contains(m.done, toFinalize) {
		t.Error("the User stays")
	}
}

// TestEndLate checks what becomes of a namespace that appears while its User is being deleted.
func TestEndLate(t *testing.T) {
	deletes := func(u *v1alpha1.User) { u.Spec.NamespacePolicy = v1alpha1.UserNamespacesDelete }
	bound := flatten("acme", ownerBinding(alice(), "hers"))
	away := []string{"delete " + toBinding, "delete " + toRole}
	for name, tc := range map[string]struct {
		objects []client.Object
		want    []string
	}{
		"nothing is left":  {[]client.Object{alice(deleted), namespace("hers", "a")}, nil},
		"a binding is":     {[]client.Object{alice(deleted), namespace("hers", "a"), bound}, append([]string{"patch " + toBinding}, away...)},
		"it is to go":      {[]client.Object{alice(deleted, deletes), namespace("hers", "a")}, append(slices.Clone(away), "delete *v1.Namespace /api/v1/namespaces/hers")},
		"it is another's":  {[]client.Object{alice(deleted, deletes), namespace("hers", "b")}, nil},
		"it is gone again": {[]client.Object{alice(deleted, deletes)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r, m := world(t, tc.objects...)
			r.backlog = newBacklog()
			r.backlog.Add("acme", item{uid: "a", namespace: "hers"})
			if diff := cmp.Diff(tc.want, m.run(t, r)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestEndOfMany checks that a User with many namespaces ends in turns, and goes last.
func TestEndOfMany(t *testing.T) {
	objects := []client.Object{alice(deleted)}
	for i := range 2*perTurn + 1 {
		objects = append(objects, namespace(fmt.Sprint("hers-", i), "a"))
	}
	r, m := world(t, objects...)
	r.backlog = newBacklog()
	r.backlog.Add("acme", item{uid: "a"})
	if _, err := r.Reconcile(t.Context(), "acme"); err != nil || len(m.done) != 2*perTurn+2 {
		t.Errorf("a turn does %d: %v", len(m.done), err)
	}
	ended := m.done
	ended = append(ended, m.run(t, r)...)
	if last := ended[len(ended)-1]; last != toFinalize {
		t.Errorf("the last is %q", last)
	}
	roles := 0
	for _, what := range ended {
		if strings.HasPrefix(what, "delete *v1.RoleBinding") {
			roles++
		}
	}
	if roles != 2*perTurn+1 {
		t.Errorf("%d bindings were deleted", roles)
	}
}

// TestGone checks that nothing is left of a User that somebody has let go, or that is another one
// of its name.
func TestGone(t *testing.T) {
	before := alice(func(u *v1alpha1.User) { u.UID = "before" })
	var left []client.Object
	for _, o := range []client.Object{creatorBinding(before), ownerRole(before, "hers"), ownerBinding(before, "hers")} {
		left = append(left, flatten("acme", o))
	}
	r, m := world(t, append(left, namespace("hers", "before"))...)
	got := m.run(t, r)
	slices.Sort(got)
	want := []string{"delete " + toCreator, "delete " + toRole, "delete " + toBinding}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	r, m = world(t, alice(), namespace("hers", "before"))
	if diff := cmp.Diff([]string{"apply " + toCreator}, m.run(t, r)); diff != "" {
		t.Error(diff)
	}
}

func TestEndingTenant(t *testing.T) {
	ending := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "acme", DeletionTimestamp: new(metav1.Now()), Finalizers: []string{"x"}}}
	r, m := world(t, ending, alice(), namespace("hers", "a"))
	if got := m.run(t, r); len(got) > 0 {
		t.Errorf("it writes %v", got)
	}
	r, m = world(t, ending, alice(deleted))
	if diff := cmp.Diff([]string{"patch " + toCreator, "delete " + toCreator, toFinalize}, m.run(t, r)); diff != "" {
		t.Error(diff)
	}
}

// TestTurns checks that a tenant does as much in a turn whatever there is to do, and that what
// fails is kept.
func TestTurns(t *testing.T) {
	r, m := world(t, alice())
	for i := range 2 * perTurn {
		r.backlog.Add("acme", item{uid: "a", namespace: fmt.Sprint(i)})
	}
	r.backlog.Add("globex", item{uid: "b"})
	if result, err := r.Reconcile(t.Context(), "acme"); err != nil || result.RequeueAfter == 0 || r.backlog.Len("acme") != perTurn+1 || r.backlog.Next("globex") == 0 {
		t.Errorf("%v, %v; %d are left", result, err, r.backlog.Len("acme"))
	}
	m.run(t, r)
	m.failing = errors.New("etcd is away")
	r, _ = world(t, alice())
	r.spaces = m
	if result, err := r.Reconcile(t.Context(), "acme"); err != nil || result.RequeueAfter <= backlog.Soon || result.RequeueAfter > minBackoff {
		t.Errorf("what has failed comes again: %v, %v", result, err)
	}
	if c := meta.FindStatusCondition(m.status.Conditions, v1alpha1.ConditionReady); c == nil || c.Reason != v1alpha1.ReasonFailed {
		t.Errorf("conditions %v", m.status.Conditions)
	}
}

func TestKeep(t *testing.T) {
	kept := metav1.ObjectMeta{Name: "acme|x", UID: "u"}
	marked := func(key string) metav1.ObjectMeta {
		o := kept
		o.Labels = map[string]string{key: "1"}
		return o
	}
	full := metav1.ObjectMeta{Name: "x", Generation: 3, Finalizers: []string{"f"}, Labels: map[string]string{"l": "v"}, Annotations: map[string]string{"a": "b"}}
	with := func(key string) metav1.ObjectMeta {
		o := *full.DeepCopy()
		o.Labels[key] = "1"
		return o
	}
	subjects := []rbacv1.Subject{{Name: "s"}}
	user := kept
	user.Generation, user.Finalizers = 3, full.Finalizers
	for obj, want := range map[client.Object]client.Object{
		&v1alpha1.User{ObjectMeta: full, Spec: v1alpha1.UserSpec{Username: "x"}}:           &v1alpha1.User{ObjectMeta: user, Spec: v1alpha1.UserSpec{Username: "x"}},
		&corev1.Namespace{ObjectMeta: with(tenant.CreatedByLabel)}:                         &corev1.Namespace{ObjectMeta: marked(tenant.CreatedByLabel)},
		&rbacv1.Role{ObjectMeta: with(tenant.UserLabel), Rules: []rbacv1.PolicyRule{{}}}:   &rbacv1.Role{ObjectMeta: marked(tenant.UserLabel), Rules: []rbacv1.PolicyRule{{}}},
		&rbacv1.RoleBinding{ObjectMeta: with(tenant.UserLabel), Subjects: subjects}:        &rbacv1.RoleBinding{ObjectMeta: marked(tenant.UserLabel), Subjects: subjects},
		&rbacv1.ClusterRoleBinding{ObjectMeta: with(tenant.UserLabel), Subjects: subjects}: &rbacv1.ClusterRoleBinding{ObjectMeta: marked(tenant.UserLabel), Subjects: subjects},
	} {
		if err := keep(obj, kept); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, obj); diff != "" {
			t.Error(diff)
		}
	}
	if err := keep(&corev1.Pod{}, kept); err == nil {
		t.Error("another kind is no error")
	}
}
