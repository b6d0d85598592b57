package keystone

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/keystone"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/keystone/fake"
)

// memory is a cluster.
type memory struct {
	mu      sync.Mutex
	tenants map[string]*v1alpha1.Tenant
	// objects are those in spaces, by tenant, kind, namespace and name.
	objects map[[4]string]client.Object
	// applied are all changes that were made.
	applied []string
	// meanwhile changes the next Tenant that is to be changed, which fails then.
	meanwhile func(*v1alpha1.Tenant)
	// failing is what Apply returns for changes of a tenant, or of an object by TENANT/NAME.
	failing map[string]error
	// lacking are ClusterRoles that no space has.
	lacking map[string]bool
}

func newMemory() *memory {
	return &memory{tenants: map[string]*v1alpha1.Tenant{}, objects: map[[4]string]client.Object{}, failing: map[string]error{}}
}

func (m *memory) Tenants(context.Context) ([]v1alpha1.Tenant, error) {
	var all []v1alpha1.Tenant
	for _, name := range slices.Sorted(maps.Keys(m.tenants)) {
		all = append(all, *m.tenants[name].DeepCopy())
	}
	return all, nil
}

func (m *memory) Tenant(_ context.Context, name string) (*v1alpha1.Tenant, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tenants[name].DeepCopy(), nil
}

func (m *memory) Namespaces(context.Context) ([]corev1.Namespace, error) {
	var all []corev1.Namespace
	for key, o := range m.objects {
		if ns, ok := o.(*corev1.Namespace); ok && ns.Labels[tenant.KeystoneLabel] != "" {
			copied := ns.DeepCopy()
			annotate(copied, tenant.Annotation, key[0])
			all = append(all, *copied)
		}
	}
	return all, nil
}

func (m *memory) Bindings(_ context.Context, n tenant.Name) (bindings []rbacv1.RoleBinding, clusterBindings []rbacv1.ClusterRoleBinding, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, o := range m.objects {
		if key[0] != string(n) || o.GetLabels()[tenant.KeystoneLabel] == "" {
			continue
		}
		switch o := o.(type) {
		case *rbacv1.RoleBinding:
			bindings = append(bindings, *o.DeepCopy())
		case *rbacv1.ClusterRoleBinding:
			clusterBindings = append(clusterBindings, *o.DeepCopy())
		}
	}
	return bindings, clusterBindings, nil
}

func (m *memory) HasClusterRole(_ context.Context, _ tenant.Name, name string) (bool, error) {
	return !m.lacking[name], nil
}

func (m *memory) Apply(_ context.Context, c change) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := errors.Join(m.failing[c.tenant], m.failing[c.tenant+"/"+c.object().GetName()]); err != nil {
		return err
	}
	o := c.object()
	if t, ok := o.(*v1alpha1.Tenant); ok {
		if meanwhile := m.meanwhile; meanwhile != nil && c.before != nil {
			m.meanwhile = nil
			meanwhile(m.tenants[t.Name])
			return fmt.Errorf("wrapped: %w", apierrors.NewConflict(schema.GroupResource{Resource: "tenants"}, t.Name, errors.New("changed")))
		}
		switch {
		case c.after == nil:
			delete(m.tenants, t.Name)
		case c.before == nil && m.tenants[t.Name] != nil:
			return conflict("taken")
		default:
			m.tenants[t.Name] = t.DeepCopy()
		}
	} else {
		key := keyOf(c.tenant, o)
		switch {
		case c.after == nil:
			delete(m.objects, key)
		case c.before == nil && m.objects[key] != nil && kindOf(o) == "namespace":
			return conflict("taken")
		default:
			m.objects[key] = o.DeepCopyObject().(client.Object)
		}
	}
	m.applied = append(m.applied, c.String())
	return nil
}

func keyOf(n string, o client.Object) [4]string {
	return [4]string{n, kindOf(o), o.GetNamespace(), o.GetName()}
}

// put puts an object into a space.
func (m *memory) put(n string, o client.Object) { m.objects[keyOf(n, o)] = o }

// bound returns the bindings of a space: place, group and role.
func (m *memory) bound(n string) []string {
	var all []string
	for key, o := range m.objects {
		if key[0] != n {
			continue
		}
		switch o := o.(type) {
		case *rbacv1.RoleBinding:
			all = append(all, fmt.Sprintf("%s: %s is %s", o.Namespace, o.Subjects[0].Name, o.RoleRef.Name))
		case *rbacv1.ClusterRoleBinding:
			all = append(all, fmt.Sprintf("%s is %s", o.Subjects[0].Name, o.RoleRef.Name))
		}
	}
	slices.Sort(all)
	return all
}

// namespace returns one, nil if there is none.
func (m *memory) namespace(n, name string) *corev1.Namespace {
	ns, _ := m.objects[[4]string{n, "namespace", "", name}].(*corev1.Namespace)
	return ns
}

// world is a Keystone, a cluster and the controller between them.
type world struct {
	*testing.T
	*memory
	keystone *fake.Keystone
	client   client.Client
	r        *Reconciler
	events   *events.FakeRecorder
	time     time.Time
}

// The ids of a cloud as Keystone makes them.
const (
	acme   = "587964a412e5462c82cf749d82d98e7f"
	globex = "52e7661fa5074971aefbf6758edc6375"
	web    = "6bfde9b0e82b4c0bb40b84496b85173e"
	data   = "e8b8068e9a36456eaf3a9c813a90bdd8"
	member = "1546ed26aa3a4f9498eaace8d0b526a8"
	reader = "4dd51487a0c547fd8681f5e97d9e99ee"

	acmeTenant   = "acme-587964a412e5"
	globexTenant = "globex-52e7661fa507"
	webNamespace = "web-6bfde9b0e82b"
)

// newWorld returns one with two domains, of which acme has the projects web and data, and
// with one KeystoneSync of all domains.
func newWorld(t *testing.T) *world {
	w := &world{T: t, memory: newMemory(), keystone: fake.New(), events: events.NewFakeRecorder(100), time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	t.Cleanup(w.keystone.Close)
	w.reset()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	w.client = clientfake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.KeystoneSync{}).Build()
	source, err := keystone.New(keystone.Config{URL: w.keystone.URL + "/v3", Clouds: w.keystone.Clouds(), Cloud: "asker", Timeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	w.r = &Reconciler{
		Client: w.client, Events: w.events, Cloud: func() (cloud, string, error) { return source, "default", nil },
		now: func() time.Time { return w.time }, cluster: w.memory,
	}
	w.create("all", func(*v1alpha1.KeystoneSyncSpec) {})
	return w
}

// reset makes Keystone as it is at the beginning.
func (w *world) reset() {
	w.keystone.Set("domains", fake.Domain(acme, "acme", true), fake.Domain(globex, "globex", true))
	w.keystone.Set("projects", fake.Project(web, "web", acme, true), fake.Project(data, "data", acme, true))
	w.keystone.Set("roles", fake.Ref(member), fake.Ref(reader))
	w.keystone.Set("role_assignments")
}

func (w *world) create(name string, change func(*v1alpha1.KeystoneSyncSpec)) {
	w.Helper()
	w.time = w.time.Add(time.Minute)
	s := &v1alpha1.KeystoneSync{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(w.time)}, Spec: v1alpha1.KeystoneSyncSpec{
		Mode: v1alpha1.KeystoneSyncSync, Domains: v1alpha1.KeystoneDomains{AllExcept: &v1alpha1.KeystoneExcluded{}},
		RoleMappings: []v1alpha1.KeystoneRoleMapping{
			{RoleID: member, Scope: v1alpha1.KeystoneScopeProject, ClusterRole: "edit"},
			{RoleID: member, Scope: v1alpha1.KeystoneScopeDomain, ClusterRole: "view"},
		},
	}}
	change(&s.Spec)
	if err := w.client.Create(w.Context(), s); err != nil {
		w.Fatal(err)
	}
}

// sync returns a KeystoneSync.
func (w *world) sync(name string) *v1alpha1.KeystoneSync {
	w.Helper()
	s := &v1alpha1.KeystoneSync{}
	if err := w.client.Get(w.Context(), client.ObjectKey{Name: name}, s); err != nil {
		w.Fatal(err)
	}
	return s
}

// change changes the spec of the KeystoneSync "all".
func (w *world) change(change func(*v1alpha1.KeystoneSyncSpec)) {
	w.Helper()
	s := w.sync("all")
	change(&s.Spec)
	if err := w.client.Update(w.Context(), s); err != nil {
		w.Fatal(err)
	}
}

// run does a run and returns the reason of the condition Ready, and what was changed.
func (w *world) run(name ...string) (string, []string) {
	w.Helper()
	w.time = w.time.Add(time.Minute)
	w.applied = nil
	name = append(name, "all")
	_, err := w.r.Reconcile(w.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: name[0]}})
	for _, c := range w.sync(name[0]).Status.Conditions {
		if c.Type == v1alpha1.ConditionReady {
			if (c.Reason == v1alpha1.ReasonIncomplete || c.Reason == v1alpha1.ReasonFailed && len(w.failing) == 0) != (err != nil) {
				w.Errorf("with the reason %s, the error %v", c.Reason, err)
			}
			return c.Reason, w.applied
		}
	}
	w.Fatal("no condition Ready")
	return "", nil
}

// must does a run that ends with a reason, and returns what was changed.
func (w *world) must(reason string) []string {
	w.Helper()
	got, applied := w.run()
	if got != reason {
		w.Fatalf("reason %s, want %s: %+v", got, reason, w.sync("all").Status)
	}
	return applied
}
