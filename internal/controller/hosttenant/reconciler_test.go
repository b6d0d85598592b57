package hosttenant

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/conditions"
	"github.com/tenantry/tenantry/internal/controller/planeclient"
)

const hostUID = "uid-on-the-host"

// onHost returns the Tenant acme of the host.
func onHost(changes ...func(*v1alpha1.Tenant)) *v1alpha1.Tenant {
	t := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: hostUID, Generation: 3}}
	t.Spec.ControlPlaneRef = &v1alpha1.ControlPlaneReference{Namespace: "own", Name: "a"}
	for _, change := range changes {
		change(t)
	}
	return t
}

func held(t *v1alpha1.Tenant) { t.Finalizers = append(t.Finalizers, v1alpha1.HostFinalizer) }
func deleting(t *v1alpha1.Tenant) {
	t.DeletionTimestamp = new(metav1.Now())
	if len(t.Finalizers) == 0 {
		t.Finalizers = []string{"example.com/other"}
	}
}
func annotated(key, value string) func(*v1alpha1.Tenant) {
	return func(t *v1alpha1.Tenant) { t.Annotations = map[string]string{key: value} }
}
func named(name string) func(*v1alpha1.Tenant) { return func(t *v1alpha1.Tenant) { t.Name = name } }
func in(namespace, name string) func(*v1alpha1.Tenant) {
	return func(t *v1alpha1.Tenant) {
		t.Spec.ControlPlaneRef = &v1alpha1.ControlPlaneReference{Namespace: namespace, Name: name}
	}
}
func pods(limit string) func(*v1alpha1.Tenant) {
	return func(t *v1alpha1.Tenant) {
		t.Spec.Quota = corev1.ResourceList{corev1.ResourcePods: resource.MustParse(limit)}
	}
}

// inSpace returns the Tenant acme of the control plane, with a mark.
func inSpace(mark string, changes ...func(*v1alpha1.Tenant)) *v1alpha1.Tenant {
	t := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: "uid-in-the-space", Generation: 1}}
	if mark != "" {
		t.Annotations = map[string]string{v1alpha1.HostTenantAnnotation: mark}
	}
	t.Status.ObservedGeneration = 1
	meta.SetStatusCondition(&t.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady, ObservedGeneration: 1,
	})
	for _, change := range changes {
		change(t)
	}
	return t
}

// fixture is a host with a ControlPlane own/a, and its system space.
type fixture struct {
	host, space client.WithWatch
	reconciler  *Reconciler
	connect     error
	synced      bool
	late        bool
}

func newFixture(t *testing.T, onHost *v1alpha1.Tenant, inSpace []client.Object, more ...client.Object) *fixture {
	t.Helper()
	cp := &v1alpha1.ControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: "a", UID: "uid-of-a"}}
	return newFixtureOf(newHost(t, append(more, onHost, cp)...), newHostWith(t, inSpace...))
}

func newFixtureOf(host client.WithWatch, space *fake.ClientBuilder) *fixture {
	f := &fixture{host: host, space: space.Build(), synced: true}
	f.reconciler = &Reconciler{
		Client: f.host, Live: f.host, Events: events.NewFakeRecorder(100), now: time.Now, conflicts: conditions.NewConflicts(conditions.ConflictPeriod, maxBackoff),
		Options: Options{Namespaces: []string{"own"}, Default: Default{Namespace: "own"}},
		Connect: func(context.Context, *v1alpha1.ControlPlane) (*Space, error) {
			s := &Space{cached: f.space, live: f.space, pace: newPace()}
			s.synced.Store(f.synced)
			s.late.Store(f.late)
			return s, f.connect
		},
	}
	return f
}

// TestNewTenantsAreToldOnce checks that a Tenant whose space is being made is not written again and again, and that one
// whose space is not made for long says so.
func TestNewTenantsAreToldOnce(t *testing.T) {
	created := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	isNew := func(t *v1alpha1.Tenant) { t.CreationTimestamp = metav1.NewTime(created) }
	failing := func(t *v1alpha1.Tenant) {
		t.Status.Conditions[0].Status, t.Status.Conditions[0].Reason = metav1.ConditionFalse, v1alpha1.ReasonFailed
	}
	making := func(t *v1alpha1.Tenant) {
		t.Status.Conditions[0].Status, t.Status.Conditions[0].Reason = metav1.ConditionFalse, v1alpha1.ReasonProgressing
	}
	for name, tc := range map[string]struct {
		inSpace []client.Object
		after   time.Duration
		told    bool
		again   time.Duration
	}{
		"its space is to be made":        {after: time.Second, again: newPeriod - time.Second},
		"its space is being made":        {inSpace: []client.Object{inSpace(hostUID, making)}, after: time.Second, again: newPeriod - time.Second},
		"its space is made":              {inSpace: []client.Object{inSpace(hostUID)}, after: time.Second, told: true},
		"its space cannot be made":       {inSpace: []client.Object{inSpace(hostUID, failing)}, after: time.Second, told: true},
		"its space is made for long":     {inSpace: []client.Object{inSpace(hostUID, making)}, after: newPeriod, told: true},
		"its name is somebody else's":    {inSpace: []client.Object{inSpace("other", making)}, told: true},
		"its space is nobody's for long": {after: newPeriod, told: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, onHost(held, isNew), tc.inSpace)
			f.reconciler.now = func() time.Time { return created.Add(tc.after) }
			result, err := f.reconcile(t, "acme")
			if err != nil {
				t.Fatal(err)
			}
			found := &v1alpha1.Tenant{}
			if err := f.host.Get(t.Context(), client.ObjectKey{Name: "acme"}, found); err != nil {
				t.Fatal(err)
			}
			if told := len(found.Status.Conditions) > 0; told != tc.told || tc.again > 0 && result.RequeueAfter != tc.again {
				t.Errorf("conditions are %v, and it is looked at again after %s", found.Status.Conditions, result.RequeueAfter)
			}
		})
	}
}

func (f *fixture) reconcile(t *testing.T, name string) (reconcile.Result, error) {
	t.Helper()
	return f.reconciler.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
}

// get returns a Tenant, nil if there is none.
func get(t *testing.T, from client.Reader, name string) *v1alpha1.Tenant {
	t.Helper()
	found := &v1alpha1.Tenant{}
	switch err := from.Get(t.Context(), types.NamespacedName{Name: name}, found); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		t.Fatal(err)
	}
	return found
}

func TestReconcile(t *testing.T) {
	const gone = "gone"
	for name, tc := range map[string]struct {
		host    *v1alpha1.Tenant
		space   *v1alpha1.Tenant // nil for none
		change  func(*fixture)
		reason  string // of the condition Mirrored, gone if the Tenant is
		ready   string // reason of the condition Ready
		mirror  string // mark of the Tenant in the control plane, gone if there is none
		holds   bool   // whether the finalizer is on
		deletes bool   // whether the Tenant in the control plane is being deleted
	}{
		"new": {host: onHost(), reason: v1alpha1.ReasonMirrored, ready: v1alpha1.ReasonProgressing, mirror: hostUID, holds: true},
		"by default": {host: onHost(func(t *v1alpha1.Tenant) { t.Spec.ControlPlaneRef = nil }),
			reason: v1alpha1.ReasonMirrored, ready: v1alpha1.ReasonProgressing, mirror: hostUID, holds: true},
		"there":         {host: onHost(held), space: inSpace(hostUID), reason: v1alpha1.ReasonMirrored, ready: v1alpha1.ReasonReady, mirror: hostUID, holds: true},
		"somebody's":    {host: onHost(), space: inSpace(""), reason: v1alpha1.ReasonNotAdopted, ready: v1alpha1.ReasonNotAdopted, mirror: "", holds: true},
		"another one's": {host: onHost(), space: inSpace("other"), reason: v1alpha1.ReasonNotAdopted, ready: v1alpha1.ReasonNotAdopted, mirror: "other", holds: true},
		"an annotation on the host says nothing": {host: onHost(annotated(v1alpha1.HostTenantAnnotation, hostUID)), space: inSpace("other"),
			reason: v1alpha1.ReasonNotAdopted, ready: v1alpha1.ReasonNotAdopted, mirror: "other", holds: true},
		"system": {host: onHost(named("system")), reason: v1alpha1.ReasonNameReserved, ready: v1alpha1.ReasonNameReserved, mirror: gone},
		"no ControlPlane": {host: onHost(in("own", "b")), reason: v1alpha1.ReasonControlPlaneMissing, ready: v1alpha1.ReasonControlPlaneMissing,
			mirror: gone},
		"a namespace of others": {host: onHost(in("team", "a")), reason: v1alpha1.ReasonControlPlaneMissing, ready: v1alpha1.ReasonControlPlaneMissing,
			mirror: gone},
		"servers that have not answered": {host: onHost(), change: func(f *fixture) { f.synced = false },
			reason: v1alpha1.ReasonControlPlaneUnreachable, ready: v1alpha1.ReasonControlPlaneUnreachable, mirror: gone},
		"keys that are missing": {host: onHost(), change: func(f *fixture) { f.connect = errors.New("no keys") },
			reason: v1alpha1.ReasonControlPlaneUnreachable, ready: v1alpha1.ReasonControlPlaneUnreachable, mirror: gone},

		"deleted":                     {host: onHost(held, deleting), reason: gone, mirror: gone},
		"deleted, not held":           {host: onHost(deleting), space: inSpace(""), reason: "", mirror: ""},
		"deleted, the space is there": {host: onHost(held, deleting), space: inSpace(hostUID, finalized), reason: v1alpha1.ReasonMirrored, ready: v1alpha1.ReasonReady, mirror: hostUID, holds: true, deletes: true},
		"deleted, somebody's stays":   {host: onHost(held, deleting), space: inSpace(""), reason: gone, mirror: ""},
		"deleted, another one's stays": {host: onHost(held, deleting), space: inSpace("other"),
			reason: gone, mirror: "other"},
		"deleted, no ControlPlane": {host: onHost(held, deleting, in("own", "b")), reason: v1alpha1.ReasonControlPlaneMissing,
			ready: v1alpha1.ReasonControlPlaneMissing, mirror: gone, holds: true},
		"deleted, no ControlPlane, abandoned": {host: onHost(held, deleting, in("own", "b"), annotated(v1alpha1.AbandonAnnotation, "true")),
			reason: gone, mirror: gone},
		"deleted, of another operator, abandoned": {host: onHost(held, deleting, in("team", "a"), annotated(v1alpha1.AbandonAnnotation, "true")),
			reason: v1alpha1.ReasonControlPlaneMissing, ready: v1alpha1.ReasonControlPlaneMissing, mirror: gone, holds: true},
		"deleted, abandoned in vain": {host: onHost(held, deleting, annotated(v1alpha1.AbandonAnnotation, "true")), space: inSpace(hostUID, finalized),
			change: func(f *fixture) { f.synced = false }, reason: v1alpha1.ReasonControlPlaneUnreachable, ready: v1alpha1.ReasonControlPlaneUnreachable,
			mirror: hostUID, holds: true},
		"deleted, not quite abandoned": {host: onHost(held, deleting, in("own", "b"), annotated(v1alpha1.AbandonAnnotation, "yes")),
			reason: v1alpha1.ReasonControlPlaneMissing, ready: v1alpha1.ReasonControlPlaneMissing, mirror: gone, holds: true},
	} {
		t.Run(name, func(t *testing.T) {
			var there []client.Object
			if tc.space != nil {
				there = append(there, tc.space)
			}
			others := &v1alpha1.ControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "a"}}
			f := newFixture(t, tc.host, there, others)
			if tc.change != nil {
				tc.change(f)
			}
			if _, err := f.reconcile(t, tc.host.Name); err != nil {
				t.Fatal(err)
			}
			mirror := get(t, f.space, tc.host.Name)
			switch {
			case (mirror == nil) != (tc.mirror == gone):
				t.Fatalf("the control plane has %v", mirror)
			case mirror != nil && mirror.Annotations[v1alpha1.HostTenantAnnotation] != tc.mirror:
				t.Errorf("the mark is %q, want %q", mirror.Annotations[v1alpha1.HostTenantAnnotation], tc.mirror)
			case mirror != nil && (mirror.DeletionTimestamp != nil) != tc.deletes:
				t.Errorf("the control plane deletes it: %t", !tc.deletes)
			}
			host := get(t, f.host, tc.host.Name)
			if (host == nil) != (tc.reason == gone) {
				t.Fatalf("the host has %v", host)
			}
			if host == nil {
				return
			}
			for kind, want := range map[string]string{v1alpha1.ConditionMirrored: tc.reason, v1alpha1.ConditionReady: tc.ready} {
				if got := reasonOf(host, kind); got != want {
					t.Errorf("%s has reason %q, want %q", kind, got, want)
				}
			}
			if got := slices.Contains(host.Finalizers, v1alpha1.HostFinalizer); got != tc.holds {
				t.Errorf("held: %t", got)
			}
		})
	}
}

func finalized(t *v1alpha1.Tenant) { t.Finalizers = []string{v1alpha1.SpaceFinalizer} }

func reasonOf(t *v1alpha1.Tenant, kind string) string {
	if c := meta.FindStatusCondition(t.Status.Conditions, kind); c != nil {
		return c.Reason
	}
	return ""
}

// TestDefaultStays checks that a Tenant stays where it is when the default is another one.
func TestDefaultStays(t *testing.T) {
	f := newFixture(t, onHost(func(t *v1alpha1.Tenant) { t.Spec.ControlPlaneRef = nil }), nil)
	for range 2 {
		if _, err := f.reconcile(t, "acme"); err != nil {
			t.Fatal(err)
		}
		if got := get(t, f.host, "acme").Status.ControlPlaneRef; got == nil || got.String() != "own/a" {
			t.Fatalf("it is in %v", got)
		}
		f.reconciler.Default = Default{ControlPlane: ref("own", "b")}
	}
}

// TestDefaultIsRecordedFirst checks that nothing is made where a Tenant is not known to be.
func TestDefaultIsRecordedFirst(t *testing.T) {
	f := newFixture(t, onHost(func(t *v1alpha1.Tenant) { t.Spec.ControlPlaneRef = nil }), nil)
	f.host = interceptor.NewClient(f.host, interceptor.Funcs{
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return errors.New("the host refuses it")
		},
	})
	f.reconciler.Client = f.host
	if _, err := f.reconcile(t, "acme"); err == nil {
		t.Error("there was no error")
	}
	if get(t, f.space, "acme") != nil {
		t.Error("it was made")
	}
}

// TestDesired checks what of a Tenant is the host's alone.
func TestDesired(t *testing.T) {
	host := onHost(asking, annotated("tenantry.io/keystone-id", "forged"))
	host.Labels = map[string]string{"team": "a", "tenantry.io/x": "forged", "multi-tenancy.k8s.io/x": "forged"}
	got := desired(host)
	if diff := cmp.Diff(map[string]string{"team": "a"}, got.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{v1alpha1.HostTenantAnnotation: hostUID}, got.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(v1alpha1.TenantSpec{}, got.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

// TestChange checks that a change of the host arrives, that one of the control plane is undone, and
// that what is as it should be is not written.
func TestChange(t *testing.T) {
	f := newFixture(t, onHost(pods("1")), nil)
	written := 0
	counted := interceptor.NewClient(f.space, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			written++
			return c.Create(ctx, o, opts...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			written++
			return c.Apply(ctx, o, opts...)
		},
	})
	f.space = counted
	step := func(pods string, writes int) {
		t.Helper()
		if _, err := f.reconcile(t, "acme"); err != nil {
			t.Fatal(err)
		}
		if got := get(t, f.space, "acme").Spec.Quota[corev1.ResourcePods]; got.String() != pods {
			t.Errorf("the quota is %s pods, want %s", got.String(), pods)
		}
		if written != writes {
			t.Errorf("%d writes, want %d", written, writes)
		}
	}
	step("1", 1)
	step("1", 1)
	host := get(t, f.host, "acme")
	pods("2")(host)
	if err := f.host.Update(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	step("2", 2)
	mirror := get(t, f.space, "acme")
	pods("9")(mirror)
	if err := f.space.Update(t.Context(), mirror); err != nil {
		t.Fatal(err)
	}
	step("2", 3)
}

// TestCreationRaces checks that the place of a Tenant is not taken that somebody makes at the same
// time.
func TestCreationRaces(t *testing.T) {
	host := newHost(t, onHost(), &v1alpha1.ControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: "a"}})
	f := newFixtureOf(host, newHostWith(t).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := c.Create(ctx, inSpace("")); err != nil {
				return err
			}
			return c.Create(ctx, o, opts...)
		},
	}))
	if _, err := f.reconcile(t, "acme"); err != nil {
		t.Fatal(err)
	}
	if got := reasonOf(get(t, f.host, "acme"), v1alpha1.ConditionMirrored); got != v1alpha1.ReasonNotAdopted {
		t.Errorf("reason %q", got)
	}
	if get(t, f.space, "acme").Annotations[v1alpha1.HostTenantAnnotation] != "" {
		t.Error("it was written")
	}
}

// TestNewConnection checks that nothing is written while a ControlPlane has not had the time to
// answer, and that it is said when it has.
func TestNewConnection(t *testing.T) {
	f := newFixture(t, onHost(held), []client.Object{inSpace(hostUID)})
	for _, step := range []struct {
		synced, late bool
		reason       string
	}{
		{false, false, v1alpha1.ReasonControlPlaneUnreachable}, // of a Tenant that is new, too
		{true, false, v1alpha1.ReasonMirrored},
		{false, false, v1alpha1.ReasonMirrored},
		{false, true, v1alpha1.ReasonControlPlaneUnreachable},
		{true, true, v1alpha1.ReasonMirrored},
	} {
		f.synced, f.late = step.synced, step.late
		if _, err := f.reconcile(t, "acme"); err != nil {
			t.Fatal(err)
		}
		if got := reasonOf(get(t, f.host, "acme"), v1alpha1.ConditionMirrored); got != step.reason {
			t.Errorf("%+v: reason %q", step, got)
		}
	}
}

// TestFailures checks what becomes of errors of the control plane.
func TestFailures(t *testing.T) {
	for name, tc := range map[string]struct {
		err    error
		reason string
		final  bool
	}{
		"no answer": {&url.Error{Op: "Post", URL: "https://x", Err: planeclient.ErrNoAnswer}, v1alpha1.ReasonControlPlaneUnreachable, false},
		"invalid":   {apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("Tenant").GroupKind(), "acme", nil), v1alpha1.ReasonInvalid, true},
		"forbidden": {apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("tenants").GroupResource(), "acme", errors.New("no")), v1alpha1.ReasonFailed, false},
	} {
		t.Run(name, func(t *testing.T) {
			host := newHost(t, onHost(), &v1alpha1.ControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: "a"}})
			f := newFixtureOf(host, newHostWith(t).WithInterceptorFuncs(interceptor.Funcs{
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return tc.err },
			}))
			_, err := f.reconcile(t, "acme")
			if err == nil || errors.Is(err, reconcile.TerminalError(nil)) != tc.final {
				t.Errorf("got error %v", err)
			}
			if got := reasonOf(get(t, f.host, "acme"), v1alpha1.ConditionMirrored); got != tc.reason {
				t.Errorf("reason %q, want %q", got, tc.reason)
			}
		})
	}
}

// TestBusy checks that nothing is said of a Tenant whose ControlPlane has had its share of the
// workers, and that it is tried again.
func TestBusy(t *testing.T) {
	host := newHost(t, onHost(held), &v1alpha1.ControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: "a"}})
	f := newFixtureOf(host, newHostWith(t).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return &url.Error{Op: "Post", URL: "https://x", Err: planeclient.ErrBusy}
		},
	}))
	before := get(t, f.host, "acme").ResourceVersion
	result, err := f.reconcile(t, "acme")
	if err != nil || result.RequeueAfter < busyPeriod || result.RequeueAfter > 2*busyPeriod {
		t.Errorf("got %+v and error %v", result, err)
	}
	if get(t, f.host, "acme").ResourceVersion != before {
		t.Error("it was written")
	}
}

// TestConflicts checks that servers which answer with a conflict each time are asked less and less often, and that
// the first one costs a moment.
func TestConflicts(t *testing.T) {
	host := newHost(t, onHost(held), &v1alpha1.ControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: "a"}})
	conflicts := true
	f := newFixtureOf(host, newHostWith(t).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if conflicts {
				return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("tenants").GroupResource(), "acme", errors.New("again"))
			}
			return c.Create(ctx, o, opts...)
		},
	}))
	after := func(want time.Duration) {
		t.Helper()
		if result, err := f.reconcile(t, "acme"); err != nil || result.RequeueAfter != want {
			t.Errorf("got %+v and error %v, want %s", result, err, want)
		}
	}
	for wait := conditions.ConflictPeriod; wait < maxBackoff; wait *= 2 {
		after(wait)
	}
	after(maxBackoff)
	conflicts = false
	after(0)
	if err := f.space.Delete(t.Context(), get(t, f.space, "acme")); err != nil {
		t.Fatal(err)
	}
	conflicts = true
	after(conditions.ConflictPeriod)
}
