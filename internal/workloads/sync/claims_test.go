package sync

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

func spaceClaim(changes ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "acme|shop", UID: "c"},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new("fast"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: storage("1Gi")},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	}
	for _, change := range changes {
		change(claim)
	}
	return claim
}

func storage(size string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
}

// hostClaim returns the host's claim for one of the space, as the cache has it.
func hostClaim(of *corev1.PersistentVolumeClaim, changes ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	host := translate.Claim(of, home)
	host.UID = "host-" + of.UID
	host.Status.Phase = corev1.ClaimPending
	for _, change := range changes {
		change(host)
	}
	return host
}

func finalized(c *corev1.PersistentVolumeClaim) { c.Finalizers = []string{names.ClaimFinalizer} }

func deleted(c *corev1.PersistentVolumeClaim) {
	c.DeletionTimestamp = &metav1.Time{Time: time.Unix(900, 0)}
}

// boundOnHost is what a host has of a claim that it has bound.
func boundOnHost(c *corev1.PersistentVolumeClaim) {
	c.Spec.VolumeName = "tn-vol"
	c.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: storage("1Gi"), AccessModes: c.Spec.AccessModes}
}

// boundInSpace is what a space has of it.
func boundInSpace(c *corev1.PersistentVolumeClaim) {
	finalized(c)
	c.Spec.VolumeName = "pvc-c"
	c.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: storage("1Gi"), AccessModes: c.Spec.AccessModes}
}

// hostVolume is a volume of the host that is bound to its claim for one with a UID.
func hostVolume(uid types.UID) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "tn-vol"}, Spec: corev1.PersistentVolumeSpec{
		ClaimRef: &corev1.ObjectReference{UID: "host-" + uid}, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
	}}
}

// shown is the volume in the space.
func shown(changes ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	claim := spaceClaim()
	volume := translate.Volume("acme|pvc-c", claim, hostClaim(claim, boundOnHost), "shop", corev1.PersistentVolumeReclaimDelete)
	volume.UID, volume.Status.Phase = "v", corev1.VolumeBound
	for _, change := range changes {
		change(volume)
	}
	return volume
}

func class(name string, mode storagev1.VolumeBindingMode, copied bool) *storagev1.StorageClass {
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "acme|" + name}, VolumeBindingMode: &mode}
	if copied {
		c.Labels = map[string]string{tenant.PublishedCopyLabel: "true"}
	}
	return c
}

// naming has a pod name the claim.
func naming(p *corev1.Pod) {
	p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
}

func (w *world) lookAtClaim() error {
	return w.syncClaim(w.t.Context(), item{claimItem, "acme", "acme|shop", "data"})
}

var (
	atOnce  = class("fast", storagev1.VolumeBindingImmediate, true)
	waiting = class("fast", storagev1.VolumeBindingWaitForFirstConsumer, true)
)

func TestClaims(t *testing.T) {
	other := func(c *corev1.PersistentVolumeClaim) { c.UID = "other" }
	event := []string{"create events"}
	leaving := hostSpace()
	leaving.DeletionTimestamp, leaving.Finalizers = new(metav1.Now()), []string{"kubernetes"}
	for name, tc := range map[string]struct {
		objects         []runtime.Object
		seen            bool
		inSpace, onHost []string
		fail            string
	}{
		"of a class that binds at once": {
			objects: []runtime.Object{hostSpace(), atOnce, spaceClaim()},
			inSpace: []string{"update persistentvolumeclaims"}, onHost: []string{"create persistentvolumeclaims"},
		},
		"whose namespace goes on the host": {objects: []runtime.Object{leaving, atOnce, spaceClaim()}, inSpace: event, fail: "is being deleted"},
		"of a class that waits":            {objects: []runtime.Object{hostSpace(), waiting, spaceClaim()}},
		"that a pod has named":             {objects: []runtime.Object{hostSpace(), waiting, spaceClaim(), spacePod(both(naming, over))}},
		"that a pod will name once":        {objects: []runtime.Object{hostSpace(), waiting, spaceClaim(), spacePod(both(naming, gated))}},
		"that a pod names": {
			objects: []runtime.Object{hostSpace(), waiting, spaceClaim(), spacePod(naming)},
			inSpace: []string{"update persistentvolumeclaims"}, onHost: []string{"create persistentvolumeclaims"},
		},
		"of a class of the tenant's own": {objects: []runtime.Object{hostSpace(), class("fast", storagev1.VolumeBindingImmediate, false), spaceClaim()}, inSpace: event},
		"of no class that there is":      {objects: []runtime.Object{hostSpace(), class("other", storagev1.VolumeBindingImmediate, true), spaceClaim()}, inSpace: event},
		"without a class": {
			objects: []runtime.Object{hostSpace(), atOnce, spaceClaim(func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil })}, inSpace: event,
		},
		"that a host must not get": {
			objects: []runtime.Object{hostSpace(), atOnce, spaceClaim(func(c *corev1.PersistentVolumeClaim) { c.Spec.Selector = &metav1.LabelSelector{} })}, inSpace: event,
		},
		"a copy of what is not there": {objects: []runtime.Object{hostSpace(), atOnce, spaceClaim(copying)}, inSpace: event},
		"a copy of what is another's": {
			objects: []runtime.Object{hostSpace(), atOnce, spaceClaim(copying), spaceClaim(source), hostClaim(spaceClaim(source, other))}, inSpace: event,
		},
		"a copy of a block device as a file system": {
			objects: []runtime.Object{hostSpace(), atOnce, spaceClaim(copying), spaceClaim(source, block), hostClaim(spaceClaim(source, block))}, inSpace: event,
		},
		"a copy of a block device": {
			objects: []runtime.Object{hostSpace(), atOnce, spaceClaim(copying, block), spaceClaim(source, block), hostClaim(spaceClaim(source, block))},
			inSpace: []string{"update persistentvolumeclaims"}, onHost: []string{"create persistentvolumeclaims"},
		},
		"a copy": {
			objects: []runtime.Object{hostSpace(), atOnce, spaceClaim(copying), spaceClaim(source), hostClaim(spaceClaim(source))},
			inSpace: []string{"update persistentvolumeclaims"}, onHost: []string{"create persistentvolumeclaims"},
		},
		"that the host has not bound": {objects: []runtime.Object{hostSpace(), spaceClaim(finalized), hostClaim(spaceClaim())}},
		"that the host has bound": {
			objects: []runtime.Object{hostSpace(), spaceClaim(finalized), hostClaim(spaceClaim(), boundOnHost), hostVolume("c")},
			inSpace: []string{"create persistentvolumes", "update persistentvolumes/status", "patch persistentvolumeclaims", "update persistentvolumeclaims/status"},
		},
		"that has its volume": {objects: []runtime.Object{hostSpace(), spaceClaim(boundInSpace), hostClaim(spaceClaim(), boundOnHost), shown()}},
		"whose volume was deleted in the space": {
			objects: []runtime.Object{hostSpace(), spaceClaim(boundInSpace), hostClaim(spaceClaim(), boundOnHost), hostVolume("c")},
			inSpace: []string{"create persistentvolumes", "update persistentvolumes/status"},
		},
		"whose volume's name is taken": {
			objects: []runtime.Object{hostSpace(), spaceClaim(finalized), hostClaim(spaceClaim(), boundOnHost), hostVolume("c"), shown(func(v *corev1.PersistentVolume) { v.Annotations = nil })},
			inSpace: event,
		},
		"that names another volume": {
			objects: []runtime.Object{hostSpace(), spaceClaim(boundInSpace, func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "mine" }), hostClaim(spaceClaim(), boundOnHost), hostVolume("c")},
			inSpace: event,
		},
		"that grows": {
			objects: []runtime.Object{hostSpace(), spaceClaim(boundInSpace, func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources.Requests = storage("2Gi") }), hostClaim(spaceClaim(), boundOnHost), shown()},
			onHost:  []string{"patch persistentvolumeclaims"},
		},
		"that has been made larger": {
			objects: []runtime.Object{hostSpace(), spaceClaim(boundInSpace), hostClaim(spaceClaim(), boundOnHost, func(c *corev1.PersistentVolumeClaim) {
				c.Spec.Resources.Requests, c.Status.Capacity = storage("2Gi"), storage("2Gi")
			}), shown()},
			inSpace: []string{"update persistentvolumes", "update persistentvolumeclaims/status"},
		},
		"whose volume the host has lost": {
			objects: []runtime.Object{hostSpace(), spaceClaim(boundInSpace)}, inSpace: []string{"update persistentvolumeclaims/status", "create events"},
		},
		"that somebody deletes on the host": {
			objects: []runtime.Object{hostSpace(), spaceClaim(boundInSpace), hostClaim(spaceClaim(), boundOnHost, deleted)}, inSpace: event,
		},
		"that is deleted while a pod uses it": {
			objects: []runtime.Object{hostSpace(), hostClaim(spaceClaim(), boundOnHost), spaceClaim(boundInSpace, deleted, func(c *corev1.PersistentVolumeClaim) {
				c.Finalizers = append(c.Finalizers, "kubernetes.io/pvc-protection")
			})},
		},
		"that is deleted": {
			objects: []runtime.Object{hostSpace(), hostClaim(spaceClaim(), boundOnHost), spaceClaim(boundInSpace, deleted)},
			onHost:  []string{"delete persistentvolumeclaims host-c"},
		},
		"that is being deleted on the host": {objects: []runtime.Object{hostSpace(), hostClaim(spaceClaim(), boundOnHost, deleted), spaceClaim(boundInSpace, deleted)}},
		"that is gone on the host": {
			objects: []runtime.Object{hostSpace(), spaceClaim(boundInSpace, deleted), shown()},
			inSpace: []string{"update persistentvolumes/status", "delete persistentvolumes v", "update persistentvolumeclaims"},
		},
		"of a predecessor, whose deletion was seen": {
			objects: []runtime.Object{hostSpace(), hostClaim(spaceClaim(), boundOnHost), shown()}, seen: true,
			inSpace: []string{"update persistentvolumes/status", "delete persistentvolumes v"}, onHost: []string{"delete persistentvolumeclaims host-c"},
		},
		"of a predecessor, whose deletion nobody saw": {
			objects: []runtime.Object{hostSpace(), hostClaim(spaceClaim(), boundOnHost), shown()}, fail: "what it has stored stays",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.objects...)
			if tc.seen {
				w.deleted.note("c", false)
			}
			err := w.lookAtClaim()
			if (err != nil) != (tc.fail != "") || err != nil && !strings.Contains(err.Error(), tc.fail) {
				t.Errorf("got %v, want %q", err, tc.fail)
			}
			w.expect(tc.inSpace, tc.onHost)
		})
	}
}

func gated(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} }

func copying(c *corev1.PersistentVolumeClaim) {
	c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "source"}
}

func block(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) }

func source(c *corev1.PersistentVolumeClaim) { c.Name, c.UID = "source", "s" }

// TestClaimHeldFirst checks that nothing is on the host before the space's claim is held: it could go, and leave that
// behind.
func TestClaimHeldFirst(t *testing.T) {
	w := newWorld(t, hostSpace(), atOnce, spaceClaim())
	if err := w.space.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), "acme|shop", "data"); err != nil {
		t.Fatal(err)
	}
	if err := w.lookAtClaim(); err == nil {
		t.Error("a claim that is gone was placed")
	}
	w.expect([]string{"update persistentvolumeclaims"}, nil)
}

// TestForeignClaim checks that a claim of the host that somebody else has made is not the space's, whatever it is
// called, and that no pod gets it.
func TestForeignClaim(t *testing.T) {
	for name, marks := range map[string]map[string]string{
		"without marks":          nil,
		"of another tenant":      names.Namespace{Installation: "i", Tenant: "globex", TenantUID: "g", Name: "shop", UID: "m"}.MarksOf("data", "c"),
		"of another life":        names.Namespace{Installation: "i", Tenant: "acme", TenantUID: "t", Name: "shop", UID: "before"}.MarksOf("data", "c"),
		"of another claim":       home.MarksOf("other", "c"),
		"of a claim before this": home.MarksOf("data", "before"),
	} {
		t.Run(name, func(t *testing.T) {
			planted := &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: home.Host(), UID: "planted", Labels: map[string]string{names.InstallationLabel: "i"}, Annotations: marks},
				Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "tn-vol"}, Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
			}
			w := newWorld(t, hostSpace(), atOnce, spaceClaim(finalized), spacePod(naming), planted)
			w.clock.SetTime(time.Unix(2000, 0))
			_ = w.lookAtClaim()
			if created := slices.Contains(did(w.space), "create persistentvolumes"); created {
				t.Error("its volume is shown in the space")
			}
			if slices.ContainsFunc(did(w.onHost), func(what string) bool { return strings.HasPrefix(what, "delete") || strings.HasPrefix(what, "patch") }) {
				t.Errorf("on the host: %v", did(w.onHost))
			}
			w.space.ClearActions()
			w.onHost.ClearActions()
			if err := w.look(); err != nil {
				t.Fatal(err)
			}
			w.expect([]string{"update pods/status", "create events"}, nil)
		})
	}
}

// TestVolumeOfAnother checks that a volume is shown only if it is bound to this claim of the host.
func TestVolumeOfAnother(t *testing.T) {
	theirs := hostVolume("c")
	theirs.Spec.ClaimRef.UID = "theirs"
	w := newWorld(t, hostSpace(), spaceClaim(finalized), hostClaim(spaceClaim(), boundOnHost), theirs)
	if err := w.lookAtClaim(); err == nil {
		t.Error("it is taken")
	}
	w.expect(nil, nil)
}

// TestPodAwaitsClaims checks that a pod begins when the host has its claims, and not before.
func TestPodAwaitsClaims(t *testing.T) {
	created := metav1.NewTime(time.Unix(999, 0))
	pod := spacePod(both(naming, func(p *corev1.Pod) { p.CreationTimestamp = created }))
	w := newWorld(t, hostSpace(), waiting, spaceClaim(finalized), pod)
	look := func() {
		t.Helper()
		if err := w.look(); err != nil {
			t.Fatal(err)
		}
	}
	look()
	w.expect(nil, nil) // it takes a moment
	w.clock.Step(time.Minute)
	look()
	w.expect([]string{"update pods/status", "create events"}, nil)
	w.see(hostClaim(spaceClaim(), deleted))
	look()
	w.onHost.ClearActions()
	w.see(hostClaim(spaceClaim()))
	w.space.ClearActions()
	look()
	w.expect(nil, []string{"create pods"})
}

// TestEphemeralClaim checks that a pod gets the claim that was made for it, and not another one of the name.
func TestEphemeralClaim(t *testing.T) {
	for name, owner := range map[string]types.UID{"its own": "p", "another's": "q"} {
		t.Run(name, func(t *testing.T) {
			claim := spaceClaim(finalized, func(c *corev1.PersistentVolumeClaim) {
				c.Name = "web-0-v"
				c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web-0", UID: owner, Controller: new(true)}}
			})
			w := newWorld(t, hostSpace(), claim, hostClaim(claim), spacePod(func(p *corev1.Pod) {
				p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}}
			}))
			w.clock.SetTime(time.Unix(2000, 0))
			if err := w.look(); err != nil {
				t.Fatal(err)
			}
			if made := slices.Contains(did(w.onHost), "create pods"); made != (owner == "p") {
				t.Errorf("the pod is made: %v", made)
			}
		})
	}
}

// TestNamespaceWithClaims checks that what is stored does not go because nothing has run for an hour, or because of an
// old backup.
func TestNamespaceWithClaims(t *testing.T) {
	look := func(w *world) error {
		return w.syncHostNamespace(t.Context(), item{kind: hostNamespaceItem, tenant: "acme", name: home.Host()})
	}
	w := newWorld(t, hostSpace(), spaceClaim(boundInSpace), hostClaim(spaceClaim(), boundOnHost))
	for range 2 {
		if err := look(w); err != nil {
			t.Fatal(err)
		}
		w.clock.Step(2 * idleNamespace)
	}
	w.expect(nil, nil)

	w = newWorld(t, hostSpace(), hostClaim(spaceClaim(), boundOnHost))
	w.forgetNamespace()
	if err := look(w); err == nil || !strings.Contains(err.Error(), "have stored something") {
		t.Errorf("got %v", err)
	}
	w.expect(nil, nil)
	w.deleted.note("n", false)
	if err := look(w); err != nil {
		t.Fatal(err)
	}
	w.expect(nil, []string{"delete namespaces h"})
}

// forgetNamespace has the namespace of the space be gone.
func (w *world) forgetNamespace() {
	w.t.Helper()
	if err := w.space.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("namespaces"), "", "acme|shop"); err != nil {
		w.t.Fatal(err)
	}
	if err := w.informers.Core().V1().Namespaces().Informer().GetIndexer().Delete(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "acme|shop"}}); err != nil {
		w.t.Fatal(err)
	}
}

// TestClaimEvents checks what has claims, and pods that wait for them, looked at.
func TestClaimEvents(t *testing.T) {
	claim := item{claimItem, "acme", "acme|shop", "data"}
	pod := item{podItem, "acme", "acme|shop", "web-0"}
	for name, tc := range map[string]struct {
		happens func(*world)
		want    []item
	}{
		"a claim":               {func(w *world) { w.claimChanged(spaceClaim()) }, []item{claim}},
		"a pod":                 {func(w *world) { w.podChanged(spacePod(naming)) }, []item{claim, pod}},
		"a pod that runs":       {func(w *world) { w.podChanged(spacePod(both(naming, bound))) }, []item{pod}},
		"a volume of the space": {func(w *world) { w.volumeChanged(shown()) }, []item{claim}},
		"a class":               {func(w *world) { w.classChanged(atOnce) }, []item{claim}},
		"another class":         {func(w *world) { w.classChanged(class("other", storagev1.VolumeBindingImmediate, true)) }, nil},
		"a claim of the host":   {func(w *world) { w.hostClaimChanged(hostClaim(spaceClaim())) }, []item{claim, pod}},
		"the system space's": {func(w *world) {
			w.claimChanged(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "shop"}})
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, spaceClaim(), spacePod(naming))
			tc.happens(w)
			got := map[item]bool{}
			for _, i := range w.items() {
				got[i] = true
			}
			want := map[item]bool{}
			for _, i := range tc.want {
				want[i] = true
			}
			if !maps.Equal(want, got) {
				t.Error(cmp.Diff(want, got, cmp.AllowUnexported(item{})))
			}
		})
	}
}
