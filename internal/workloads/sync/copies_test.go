package sync

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

func reading(p *corev1.Pod) {
	p.Spec.Volumes = []corev1.Volume{
		{Name: "c", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}}},
		{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}},
	}
}

func secret(of corev1.SecretType, version string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "acme|shop", UID: "su", ResourceVersion: version, Finalizers: []string{"f"},
			Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}, Labels: map[string]string{"l": "v"}},
		Type: of, Data: map[string][]byte{"k": []byte(version)}, Immutable: new(true),
	}
}

// TestCopies checks that what a pod names is on the host before it, and as it is in the space, but for
// what a host would act on.
func TestCopies(t *testing.T) {
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "acme|shop", UID: "cu", ResourceVersion: "1"},
		Data: map[string]string{"k": "v"}, BinaryData: map[string][]byte{"b": {0}}}
	unnamed := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "unnamed", Namespace: "acme|shop"}}
	w := newWorld(t, hostSpace(), configMap, secret(corev1.SecretTypeServiceAccountToken, "1"), unnamed, spacePod(reading))
	if err := w.look(); err != nil {
		t.Fatal(err)
	}
	secrets, err := w.onHost.CoreV1().Secrets(home.Host()).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []corev1.Secret{{
		ObjectMeta: metav1.ObjectMeta{
			Name: "tn-s", Namespace: home.Host(), Labels: map[string]string{names.InstallationLabel: "i"},
			Annotations: map[string]string{
				names.TenantAnnotation: "acme", names.TenantUIDAnnotation: "t", names.NamespaceAnnotation: "shop", names.NamespaceUIDAnnotation: "n",
				names.NameAnnotation: "s", names.UIDAnnotation: "su", versionAnnotation: "su/1",
			},
		},
		Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"k": []byte("1")},
	}}
	want[0].Annotations[hashAnnotation] = secrets.Items[0].Annotations[hashAnnotation]
	if diff := cmp.Diff(want, secrets.Items, cmpopts.IgnoreTypes(metav1.TypeMeta{}, []metav1.ManagedFieldsEntry{})); diff != "" {
		t.Errorf("secrets of the host (-want +got):\n%s", diff)
	}
	got, err := w.onHost.CoreV1().ConfigMaps(home.Host()).Get(t.Context(), "tn-c", metav1.GetOptions{})
	if err != nil || got.Data["k"] != "v" || len(got.BinaryData["b"]) != 1 {
		t.Errorf("the config map is %+v, %v", got, err)
	}
	order := did(w.onHost)
	if order[len(order)-1] != "create pods" {
		t.Errorf("did %v", order)
	}
}

// TestNoPodBeforeItIsKnownWhatItNames checks that no pod is made whose copies would be removed, because the cache has
// it before its handler has heard what it names.
func TestNoPodBeforeItIsKnownWhatItNames(t *testing.T) {
	pod := spacePod(reading)
	w := newWorld(t, hostSpace(), secret(corev1.SecretTypeOpaque, "1"), pod)
	w.references.set(itemOf(podItem, pod), nil)
	if err := w.look(); err != nil {
		t.Fatal(err)
	}
	if done := did(w.onHost); slices.Contains(done, "create pods") {
		t.Errorf("did %v", done)
	}
	w.references.set(itemOf(podItem, pod), referencesOf(pod))
	if err := w.look(); err != nil {
		t.Fatal(err)
	}
	if done := did(w.onHost); !slices.Contains(done, "create secrets") || !slices.Contains(done, "create pods") {
		t.Errorf("did %v", done)
	}
}

// TestCopyFollows checks that a copy changes with its source, and goes with it or with the last pod that names it.
func TestCopyFollows(t *testing.T) {
	for name, end := range map[string]func(*world){
		"the source goes": func(w *world) {
			if err := w.space.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("secrets"), "acme|shop", "s"); err != nil {
				w.t.Fatal(err)
			}
			if err := w.informers.Core().V1().Secrets().Informer().GetIndexer().Delete(secret("", "")); err != nil {
				w.t.Fatal(err)
			}
		},
		"no pod names it": func(w *world) { w.references.set(item{podItem, "acme", "acme|shop", "web-0"}, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, hostSpace(), secret(corev1.SecretTypeOpaque, "1"), spacePod(reading), hostPod(spacePod(reading), onNode))
			ref := reference{secretItem, "acme|shop", "s"}
			sync := func() {
				t.Helper()
				if err := w.syncCopy(t.Context(), item{ref.kind, "acme", ref.namespace, ref.name}); err != nil {
					t.Fatal(err)
				}
			}
			sync()
			in := w.copiesOf(home)
			in.have[ref] = copied{in.have[ref].version, in.have[ref].hash, "copy", nil} // the fake gives no UIDs
			w.onHost.ClearActions()
			sync()
			w.expect(nil, nil)

			changed := secret(corev1.SecretTypeOpaque, "2")
			if err := w.space.Tracker().Update(corev1.SchemeGroupVersion.WithResource("secrets"), changed, "acme|shop"); err != nil {
				t.Fatal(err)
			}
			w.see(changed)
			sync()
			w.expect(nil, []string{"update secrets"})
			if got, err := w.onHost.CoreV1().Secrets(home.Host()).Get(t.Context(), "tn-s", metav1.GetOptions{}); err != nil || string(got.Data["k"]) != "2" {
				t.Errorf("the copy is %+v, %v", got, err)
			}
			in.have[ref] = copied{in.have[ref].version, in.have[ref].hash, "copy", nil}
			end(w)
			sync()
			if _, has := in.have[ref]; has {
				t.Error("it is still there")
			}
		})
	}
}

// TestNoCopyForWhatWaits checks that a Secret is not on the host for pods that are not there, whatever happens to it.
func TestNoCopyForWhatWaits(t *testing.T) {
	other := hostPod(spacePod(func(p *corev1.Pod) { p.Name = "other" }), onNode)
	w := newWorld(t, hostSpace(), secret(corev1.SecretTypeOpaque, "1"), spacePod(reading), other)
	i := item{secretItem, "acme", "acme|shop", "s"}
	for range 2 {
		if err := w.syncCopy(t.Context(), i); err != nil {
			t.Fatal(err)
		}
		w.expect(nil, nil)
		w.see(secret(corev1.SecretTypeOpaque, "2"))
	}
	w.see(hostPod(spacePod(reading), onNode)) // which may name what was not there when it began
	if err := w.syncCopy(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	w.expect(nil, []string{"create secrets"})
}

// TestCopyForWhatBegins checks that a Secret gets to a pod that has begun without it, before the cache has that pod.
func TestCopyForWhatBegins(t *testing.T) {
	t.Run("in a namespace that the cache has", func(t *testing.T) { testCopyForWhatBegins(t, hostSpace(), spacePod(reading)) })
	t.Run("in one that it has not", func(t *testing.T) { testCopyForWhatBegins(t, spacePod(reading)) })
}

func testCopyForWhatBegins(t *testing.T, objects ...runtime.Object) {
	w := newWorld(t, objects...)
	w.references.set(itemOf(podItem, spacePod(reading)), referencesOf(spacePod(reading)))
	for range 3 { // it is waited for a moment
		if err := w.look(); err != nil {
			t.Fatal(err)
		}
		w.clock.Step(sourceTime)
	}
	if _, err := w.space.CoreV1().Secrets("acme|shop").Create(t.Context(), secret(corev1.SecretTypeOpaque, "1"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.see(secret(corev1.SecretTypeOpaque, "1"))
	w.space.ClearActions()
	w.onHost.ClearActions()
	if err := w.syncCopy(t.Context(), item{secretItem, "acme", "acme|shop", "s"}); err != nil {
		t.Fatal(err)
	}
	w.expect(nil, []string{"create secrets"})
}

// TestCopyOfTheSame checks that a source that has the same, but for what is not copied, is not written again, and that
// what is written waits when much has been.
func TestCopyOfTheSame(t *testing.T) {
	w := newWorld(t, hostSpace(), secret(corev1.SecretTypeOpaque, "1"), spacePod(reading), hostPod(spacePod(reading), onNode))
	ref := reference{secretItem, "acme|shop", "s"}
	change := func(version string, data map[string][]byte) {
		t.Helper()
		changed := secret(corev1.SecretTypeOpaque, version)
		changed.Data = data
		if err := w.space.Tracker().Update(corev1.SchemeGroupVersion.WithResource("secrets"), changed, "acme|shop"); err != nil {
			t.Fatal(err)
		}
		w.see(changed)
		if err := w.syncCopy(t.Context(), item{ref.kind, "acme", ref.namespace, ref.name}); err != nil {
			t.Fatal(err)
		}
	}
	data := map[string][]byte{"k": make([]byte, copiedBytes)}
	change("1", data)
	in := w.copiesOf(home)
	in.have[ref] = copied{in.have[ref].version, in.have[ref].hash, "copy", nil} // the fake gives no UIDs
	w.onHost.ClearActions()
	change("2", data)
	w.expect(nil, nil)
	if has := in.have[ref].version; has != "su/2" {
		t.Errorf("it is known to be as %s", has)
	}
	w.writeBudgets[copyBudget].wait(itemWrite{item{secretItem, "acme", "acme|shop", "other"}, writeCreation}, copiedAtOnce)
	change("3", map[string][]byte{"k": make([]byte, copiedBytes-1)})
	w.expect(nil, nil)
	w.clock.Step(3 * time.Second)
	change("3", map[string][]byte{"k": make([]byte, copiedBytes-1)})
	w.expect(nil, []string{"update secrets"})
}

// TestCopyBusy checks that a worker does not wait for another one that makes copies in the same namespace, that its pod
// is looked at when that one has done, and that what is not there is looked for once for each pod.
func TestCopyBusy(t *testing.T) {
	w := newWorld(t, hostSpace(), spacePod(reading))
	in := w.copiesOf(home)
	in.mu.Lock()
	pod, err := w.pods.Pods("acme|shop").Get("web-0")
	if err != nil {
		t.Fatal(err)
	}
	if wait, err := w.ensureCopies(t.Context(), pod, home, in); wait != soon || err != nil {
		t.Errorf("it waits for %v, %v", wait, err)
	}
	in.mu.Unlock()
	if n := w.queue.Len(); n != 0 {
		t.Errorf("%d items are looked at while nothing has changed", n)
	}
	if err := w.syncCopy(t.Context(), item{secretItem, "acme", "acme|shop", "other"}); err != nil {
		t.Fatal(err)
	}
	if n := w.queue.Len(); n != 1 || len(in.asked) != 0 {
		t.Errorf("%d items are looked at, %d still wait", n, len(in.asked))
	}
	if i, _ := w.queue.Get(); i != itemOf(podItem, pod) {
		t.Errorf("%v is looked at", i)
	}
	for _, want := range []int{2, 0} {
		w.space.ClearActions()
		if wait, err := w.ensureCopies(t.Context(), pod, home, in); wait > 0 || err != nil {
			t.Errorf("it waits for %v, %v", wait, err)
		}
		if got := len(w.space.Actions()); got != want {
			t.Errorf("it looks %d times, want %d", got, want)
		}
	}
	later := pod.DeepCopy()
	later.CreationTimestamp = metav1.NewTime(w.clock.Now())
	if _, err := w.ensureCopies(t.Context(), later, home, in); err != nil || len(w.space.Actions()) != 2 {
		t.Errorf("for a later pod it looks %d times, %v", len(w.space.Actions()), err)
	}
}

// TestCopiesOfTheNextNamespace checks that what a namespace of the host had is not believed to be in the next one of
// its name.
func TestCopiesOfTheNextNamespace(t *testing.T) {
	w := newWorld(t, hostSpace(), secret(corev1.SecretTypeOpaque, "1"), spacePod(reading))
	if err := w.look(); err != nil {
		t.Fatal(err)
	}
	secrets := corev1.SchemeGroupVersion.WithResource("secrets")
	if err := w.onHost.Tracker().Delete(secrets, home.Host(), "tn-s"); err != nil {
		t.Fatal(err)
	}
	next := hostSpace()
	next.UID = "next"
	w.see(next)
	if err := w.onHost.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), home.Host(), "web-0"); err != nil {
		t.Fatal(err)
	}
	w.onHost.ClearActions()
	if err := w.look(); err != nil {
		t.Fatal(err)
	}
	w.expect(nil, []string{"create secrets", "create pods"})
	if in := w.copies.of(home.Host(), ""); in.of != "next" || in != w.copiesOf(home) {
		t.Errorf("the copies are known of %q", in.of)
	}
}

// TestForeignCopy checks that what is not ours stays as it is.
func TestForeignCopy(t *testing.T) {
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "tn-s", Namespace: home.Host()}, Data: map[string][]byte{"k": []byte("own")}}
	w := newWorld(t, hostSpace(), secret(corev1.SecretTypeOpaque, "1"), spacePod(reading))
	w.add(w.onHost, foreign)
	if err := w.look(); err == nil || apierrors.IsAlreadyExists(err) {
		t.Errorf("got %v", err)
	}
	w.expect(nil, []string{"create secrets"})
}

// TestCopiesGoWithTheirNamespace checks that nothing is known of the copies in a namespace of the host that somebody
// has deleted there.
func TestCopiesGoWithTheirNamespace(t *testing.T) {
	w := newWorld(t, hostSpace())
	if w.copiesOf(home); len(w.copies.byNamespace) != 1 {
		t.Fatalf("copies in %d namespaces are known", len(w.copies.byNamespace))
	}
	if w.leaves(true); len(w.copies.byNamespace) > 0 {
		t.Errorf("it knows of %v", w.copies.byNamespace)
	}
}
