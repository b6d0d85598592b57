package controlplane

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// rotation reconciles the keys of tokens of a ControlPlane, hour after hour.
type rotation struct {
	t    *testing.T
	r    *Reconciler
	host client.Client
	now  time.Time
	// files are what servers are given.
	files map[string][]byte
	// lost has the next status not written, as when the operator ends.
	lost bool
}

func newRotation(t *testing.T, objects ...client.Object) *rotation {
	r, host := hostOf(t, objects...)
	rot := &rotation{t: t, r: r, host: host, now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
	r.now, r.Events = func() time.Time { return rot.now }, &events.FakeRecorder{}
	return rot
}

func (o *rotation) cp() *v1alpha1.ControlPlane { return workOf(o.t, o.host, named()).cp }

func (o *rotation) change(how func(*v1alpha1.ControlPlane)) {
	o.t.Helper()
	cp := o.cp()
	how(cp)
	if err := o.host.Update(o.t.Context(), cp); err != nil {
		o.t.Fatal(err)
	}
}

func (o *rotation) rotate(text string) {
	o.change(func(cp *v1alpha1.ControlPlane) { cp.Spec.ServiceAccounts.KeyRotation = text })
}

// reconcile does what a reconcile does about keys.
func (o *rotation) reconcile() error {
	o.t.Helper()
	w := workOf(o.t, o.host, named())
	steps := errors.Join(o.r.ensureKeys(o.t.Context(), w), o.step(w))
	if o.lost {
		o.lost = false
		return steps
	}
	if err := o.r.commit(o.t.Context(), w, steps); err != nil {
		o.t.Fatal(err)
	}
	return errors.Join(steps, w.remaining)
}

func (o *rotation) step(w *work) error {
	if w.authorities == nil {
		return nil
	}
	if err := o.r.ensureTokenKeys(o.t.Context(), w); err != nil {
		return err
	}
	o.files = w.tokenKeys.files()
	w.tokenKeys.given(o.now)
	return nil
}

func (o *rotation) must() {
	o.t.Helper()
	if err := o.reconcile(); err != nil {
		o.t.Fatal(err)
	}
}

// signer is the public key of the private one that servers sign by.
func signer(t *testing.T, files map[string][]byte) string {
	t.Helper()
	public, err := publicKey(files["service-account.key"])
	if err != nil {
		t.Fatal(err)
	}
	return string(public)
}

func (o *rotation) reason() string {
	for _, c := range o.cp().Status.Conditions {
		if c.Type == v1alpha1.ConditionKeysRotating {
			return c.Reason
		}
	}
	return ""
}

func TestKeysRotate(t *testing.T) {
	o := newRotation(t, named(func(cp *v1alpha1.ControlPlane) {
		cp.Spec.ServiceAccounts = v1alpha1.ControlPlaneServiceAccounts{KeyRotation: "one", MaxTokenLifetime: metav1.Duration{Duration: time.Hour}}
	}))
	o.must()
	o.must()
	first := signer(t, o.files)
	if o.reason() != "" || len(o.cp().Status.TokenKeys) != 1 {
		t.Errorf("a new ControlPlane rotates: %+v", o.cp().Status)
	}

	o.rotate("two")
	o.must()
	if signer(t, o.files) != first || o.reason() != v1alpha1.ReasonKeyPublished {
		t.Errorf("a key signs that no server verifies by yet: %s", o.reason())
	}
	second := o.cp().Status.TokenKeys[1].PublicKey
	if diff := cmp.Diff(first+second, string(o.files["service-account.pub"])); diff != "" {
		t.Errorf("what verifies (-want +got):\n%s", diff)
	}
	o.now = o.now.Add(publishPeriod - time.Minute)
	o.must()
	if signer(t, o.files) != first {
		t.Error("it signs too early")
	}
	o.now = o.now.Add(time.Minute)
	o.must()
	if signer(t, o.files) != second || o.reason() != v1alpha1.ReasonOldKeysVerify {
		t.Errorf("it does not sign: %s", o.reason())
	}
	o.now = o.now.Add(publishPeriod + time.Hour - time.Second)
	o.must()
	if string(o.files["service-account.pub"]) != first+second {
		t.Error("tokens of the key before are refused too early")
	}
	o.now = o.now.Add(time.Second)
	o.must()
	if string(o.files["service-account.pub"]) != second || o.reason() != v1alpha1.ReasonRotationIsWhole {
		t.Errorf("the key before still verifies: %s", o.reason())
	}
	if keys := o.cp().Status.TokenKeys; len(keys) != 1 || keys[0].SecretName != "cp-service-account-key-2" {
		t.Errorf("keys are %+v", keys)
	}
	o.rotate("")
	o.must()
	if len(o.cp().Status.TokenKeys) != 1 {
		t.Error("a text that is taken away rotates")
	}
}

// TestNoTokenIsRefused has keys rotate again and again, while the operator ends at any moment and servers
// get what they are given late: no server refuses a token that another has signed, as long as it may live.
func TestNoTokenIsRefused(t *testing.T) {
	const (
		step     = 5 * time.Minute
		lifetime = 3 * time.Hour
	)
	o := newRotation(t, named(func(cp *v1alpha1.ControlPlane) {
		cp.Spec.ServiceAccounts.MaxTokenLifetime = metav1.Duration{Duration: lifetime}
	}))
	type token struct {
		signer string
		until  time.Time
	}
	var tokens []token
	servers := make([]map[string][]byte, 3)
	signers := map[string]bool{}
	for i := range 400 {
		if i%37 == 0 {
			o.rotate("text-" + strings.Repeat("x", i%7) + string(rune('a'+i%26)))
		}
		o.lost = i%5 == 3
		if err := o.reconcile(); err != nil {
			t.Fatal(err)
		}
		for s := range servers { // the second has what was given one step ago, and the third all of an hour
			if s == 0 || s == 1 && i%2 == 0 || s == 2 && i%12 == 0 || servers[s] == nil {
				servers[s] = maps.Clone(o.files)
			}
			signs := signer(t, servers[s])
			signers[signs] = true
			tokens = append(tokens, token{signs, o.now.Add(lifetime)})
		}
		tokens = slices.DeleteFunc(tokens, func(k token) bool { return !o.now.Before(k.until) })
		for _, k := range tokens {
			for s, server := range servers {
				if !strings.Contains(string(server["service-account.pub"]), k.signer) {
					t.Fatalf("after %s, server %d refuses a token that is good until %s", time.Duration(i)*step, s, k.until)
				}
			}
		}
		o.now = o.now.Add(step)
	}
	if len(signers) < 4 {
		t.Errorf("%d keys have signed: nothing was rotated", len(signers))
	}
}

// TestOldKeysAreBounded checks that rotations wait for each other, and can be cut short.
func TestOldKeysAreBounded(t *testing.T) {
	o := newRotation(t, named())
	o.must()
	for i := range maxTokenKeys + 2 {
		o.rotate("text-" + string(rune('a'+i)))
		o.must()
		o.now = o.now.Add(publishPeriod)
		o.must()
	}
	if n := len(o.cp().Status.TokenKeys); n != maxTokenKeys || o.reason() != v1alpha1.ReasonTooManyKeys {
		t.Errorf("%d keys verify: %s", n, o.reason())
	}
	o.change(func(cp *v1alpha1.ControlPlane) { cp.Spec.ServiceAccounts.RefuseOldKeys = true })
	o.must()
	if n := len(o.cp().Status.TokenKeys); n != 2 || o.reason() != v1alpha1.ReasonKeyPublished {
		t.Errorf("%d keys verify though old ones are refused: %s", n, o.reason())
	}
}

// TestKeysOfTokensAreGuarded checks that nobody's Secret is signed by, and what is said when one is lost.
func TestKeysOfTokensAreGuarded(t *testing.T) {
	secret := func(name string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: labelsOf(named())}}
	}
	_, others, _ := keysOf(t, named())
	planted := secret("cp-service-account-key-2")
	planted.Data = others.Data
	for name, tc := range map[string]struct {
		before func(o *rotation)
		reason string
		// signs says whether servers are given something to sign by.
		signs bool
	}{
		"one is in the place of the next": {func(o *rotation) {
			if err := o.host.Create(context.Background(), planted.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			o.rotate("two")
		}, v1alpha1.ReasonKeysInvalid, true},
		"that which signs is gone": {func(o *rotation) {
			o.rotated()
			if err := o.host.Delete(context.Background(), secret("cp-service-account-key-2")); err != nil {
				t.Fatal(err)
			}
		}, v1alpha1.ReasonKeysMissing, false},
		"that which signs is another": {func(o *rotation) {
			o.rotated()
			if err := o.host.Delete(context.Background(), secret("cp-service-account-key-2")); err != nil {
				t.Fatal(err)
			}
			if err := o.host.Create(context.Background(), planted.DeepCopy()); err != nil {
				t.Fatal(err)
			}
		}, v1alpha1.ReasonKeysInvalid, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := newRotation(t, named())
			o.must()
			first := signer(t, o.files)
			tc.before(o)
			o.files = nil
			if got := reasonOf(o.reconcile()); got != tc.reason {
				t.Errorf("the reason is %q, want %q", got, tc.reason)
			}
			if (o.files != nil) != tc.signs || tc.signs && signer(t, o.files) != first {
				t.Errorf("servers are given %v", slices.Sorted(maps.Keys(o.files)))
			}
		})
	}
}

// again makes the ControlPlane again, on what the one before has left.
func (o *rotation) again(annotations map[string]string) {
	o.t.Helper()
	if err := errors.Join(o.host.Delete(o.t.Context(), o.cp()),
		o.host.Create(o.t.Context(), named(func(cp *v1alpha1.ControlPlane) { cp.Annotations = annotations }))); err != nil {
		o.t.Fatal(err)
	}
	o.files = nil
}

// obey runs the command that is in the message of a Secret that is not adopted.
func (o *rotation) obey(secret string) {
	o.t.Helper()
	err := o.reconcile()
	if reasonOf(err) != v1alpha1.ReasonKeysNotAdopted || !strings.HasPrefix(err.Error(), `Secret "`+secret+`"`) || o.files != nil {
		o.t.Fatalf("got %v, want that Secret %q is not adopted", err, secret)
	}
	_, digests, _ := strings.Cut(err.Error(), v1alpha1.AdoptKeysAnnotation+"=")
	digests, _, _ = strings.Cut(digests, `"`)
	o.change(func(cp *v1alpha1.ControlPlane) {
		metav1.SetMetaDataAnnotation(&cp.ObjectMeta, v1alpha1.AdoptKeysAnnotation, digests)
	})
}

// rotated makes another key, by which servers sign.
func (o *rotation) rotated() {
	o.t.Helper()
	o.rotate("two")
	o.must()
	o.now = o.now.Add(publishPeriod)
	o.must()
}

// TestKeysOfTokensAreAdopted checks that a ControlPlane that goes on with the keys of an earlier one signs by its
// newest, and verifies by those before only if somebody asks for it.
func TestKeysOfTokensAreAdopted(t *testing.T) {
	for name, asked := range map[string]bool{"the newest": false, "all": true} {
		t.Run(name, func(t *testing.T) {
			o := newRotation(t, named())
			o.must()
			o.rotated()
			want := maps.Clone(o.files)
			annotations := map[string]string{v1alpha1.AdoptOldTokenKeysAnnotation: "true"}
			if !asked {
				annotations, want["service-account.pub"] = nil, []byte(signer(t, o.files))
			}
			recorder := &events.FakeRecorder{Events: make(chan string, 100)}
			o.r.Events = recorder
			o.again(annotations)
			o.obey("cp-authorities")
			o.must()
			o.change(func(cp *v1alpha1.ControlPlane) { cp.Annotations = nil })
			o.must()
			if diff := cmp.Diff(want, o.files); diff != "" {
				t.Errorf("what servers are given (-want +got):\n%s", diff)
			}
			close(recorder.Events)
			said := 0
			for event := range recorder.Events {
				if strings.Contains(event, "OldTokenKeysRefused") {
					said++
				}
			}
			if want := map[bool]int{false: 1}[asked]; said != want {
				t.Errorf("%d events say that tokens are refused, want %d", said, want)
			}
			key := types.NamespacedName{Namespace: "ns", Name: "cp-service-account-key-2"}
			if err := o.host.Get(t.Context(), key, &corev1.Secret{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPlantedKeysAreNotAdopted has who may create Secrets, and read none, add one to those that an earlier ControlPlane
// has left: the command that adopts those does not adopt it.
func TestPlantedKeysAreNotAdopted(t *testing.T) {
	others := newRotation(t, named())
	others.must()
	others.rotated()
	known := secretOf(t, others.host, "cp-service-account-key-2")
	authorities := secretOf(t, others.host, "cp-authorities")
	system, err := parse(authorities.Name, systemCA, authorities.Data)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(planted, genuine *corev1.Secret){
		"without a proof":    func(planted, _ *corev1.Secret) { planted.Annotations = nil },
		"with nothing in it": func(planted, _ *corev1.Secret) { planted.Data = nil },
		"with a proof of others": func(planted, _ *corev1.Secret) {
			proof, err := proofOf(system, planted.Name, planted.Data)
			if err != nil {
				t.Fatal(err)
			}
			planted.Annotations = map[string]string{provedBy: proof}
		},
		"with the proof of another Secret": func(planted, genuine *corev1.Secret) { planted.Annotations = genuine.Annotations },
		"with an old key, proved as another Secret": func(planted, genuine *corev1.Secret) {
			planted.Data, planted.Annotations = genuine.Data, genuine.Annotations
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := newRotation(t, named())
			o.must()
			o.rotated()
			genuine := signer(t, o.files)
			planted := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cp-service-account-key-9", Labels: labelsOf(named()), Annotations: known.Annotations}, Data: known.Data}
			change(planted, secretOf(t, o.host, "cp-service-account-key-2"))
			if err := o.host.Create(t.Context(), planted); err != nil {
				t.Fatal(err)
			}
			o.must()
			if signer(t, o.files) != genuine {
				t.Fatal("servers sign by it at once")
			}
			o.again(nil)
			o.obey("cp-authorities")
			for range 2 { // the status does not say that there are keys
				err := o.reconcile()
				if reasonOf(err) != v1alpha1.ReasonKeysNotAdopted || !strings.HasPrefix(err.Error(), `Secret "cp-service-account-key-9"`) || o.files != nil {
					t.Fatalf("got %v, and servers are given %v", err, slices.Sorted(maps.Keys(o.files)))
				}
			}
			if err := o.host.Delete(t.Context(), planted); err != nil {
				t.Fatal(err)
			}
			o.must()
			if signer(t, o.files) != genuine {
				t.Error("servers sign by another key")
			}
		})
	}
}

// TestPlantedKeysKeepNothing has a Secret planted beside those of a ControlPlane whose status, of an operator
// that rotated none, has no keys of tokens.
func TestPlantedKeysKeepNothing(t *testing.T) {
	o := newRotation(t, named())
	o.must()
	genuine := signer(t, o.files)
	cp := o.cp()
	cp.Status.TokenKeys = nil
	planted := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cp-service-account-key-9", Labels: labelsOf(cp)}}
	if err := errors.Join(o.host.Status().Update(t.Context(), cp), o.host.Create(t.Context(), planted)); err != nil {
		t.Fatal(err)
	}
	o.files = nil
	o.must()
	if signer(t, o.files) != genuine {
		t.Error("servers sign by another key")
	}
}

// TestKeysAreProved has Secrets of keys that nothing proves, of an operator before: those that the status names are
// used, and proved for the next ControlPlane. Without a status, each needs an answer.
func TestKeysAreProved(t *testing.T) {
	made := []string{"cp-keys", "cp-service-account-key-2", "cp-service-account-key-3"}
	unproved := func(t *testing.T) *rotation {
		o := newRotation(t, named())
		o.must()
		o.rotated()
		o.rotate("three")
		o.must()
		for _, name := range made {
			secret := secretOf(t, o.host, name)
			if secret.Annotations[provedBy] == "" {
				t.Errorf("%s is made without a proof", name)
			}
			secret.Annotations = map[string]string{"other": "kept"}
			if err := o.host.Update(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
		}
		return o
	}
	t.Run("the status names them", func(t *testing.T) {
		o := unproved(t)
		o.must()
		for _, name := range made {
			if secret := secretOf(t, o.host, name); secret.Annotations[provedBy] == "" || secret.Annotations["other"] != "kept" {
				t.Errorf("annotations of %s are %v", name, secret.Annotations)
			}
		}
		o.again(nil)
		o.obey("cp-authorities")
		o.must()
	})
	t.Run("no status names them", func(t *testing.T) {
		o := unproved(t)
		o.again(nil)
		for _, name := range []string{"cp-authorities", "cp-keys", "cp-service-account-key-3"} {
			o.obey(name)
		}
		o.must()
	})
	t.Run("the next is lost", func(t *testing.T) {
		o := unproved(t)
		if err := o.host.Delete(t.Context(), secretOf(t, o.host, "cp-service-account-key-3")); err != nil {
			t.Fatal(err)
		}
		o.files = nil
		if err := o.reconcile(); reasonOf(err) != v1alpha1.ReasonKeysMissing || o.files == nil {
			t.Errorf("got %v, and servers are given %v", err, slices.Sorted(maps.Keys(o.files)))
		}
	})
}

// TestProofsAreNoDigestsOfCopies checks that who chooses what is copied, and reads the digests in the status, proves no
// Secret of keys by it.
func TestProofsAreNoDigestsOfCopies(t *testing.T) {
	o := newRotation(t, named())
	w := workOf(t, o.host, named())
	if err := o.r.ensureKeys(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	for _, data := range []map[string][]byte{nil, {"service-account.key": []byte("mine")}} {
		made, err := w.copyOf("cp-service-account-key-9", data)
		if err != nil {
			t.Fatal(err)
		}
		planted := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: made.SecretName, Annotations: map[string]string{provedBy: made.Digest}}, Data: data}
		if proved, err := isProved(w.authorities.system, planted); err != nil || proved {
			t.Errorf("a digest of %v proves it, or error %v", data, err)
		}
	}
}
