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
	"k8s.io/client-go/util/keyutil"
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
	rotated := func(o *rotation) {
		o.rotate("two")
		o.must()
		o.now = o.now.Add(publishPeriod)
		o.must()
	}
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
			rotated(o)
			if err := o.host.Delete(context.Background(), secret("cp-service-account-key-2")); err != nil {
				t.Fatal(err)
			}
		}, v1alpha1.ReasonKeysMissing, false},
		"that which signs is another": {func(o *rotation) {
			rotated(o)
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

// TestPlantedKeysOfTokens checks that a key that somebody has put beside those of an earlier ControlPlane is not adopted
// with them, whatever it has been made of.
func TestPlantedKeysOfTokens(t *testing.T) {
	o := newRotation(t, named())
	o.must()
	o.rotate("two")
	o.must()
	o.now = o.now.Add(publishPeriod)
	o.must()
	want := o.files
	genuine := &corev1.Secret{}
	if err := o.host.Get(t.Context(), types.NamespacedName{Namespace: "ns", Name: "cp-service-account-key-2"}, genuine); err != nil {
		t.Fatal(err)
	}
	private, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	own := map[string][]byte{"service-account.key": private}
	proven := maps.Clone(own)
	proven[proof] = []byte(proofOf(nil, "cp-service-account-key-8", own))
	for name, data := range map[string]map[string][]byte{
		"cp-service-account-key-7": own, "cp-service-account-key-8": proven, "cp-service-account-key-9": genuine.Data, // of another name
	} {
		planted := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: labelsOf(named())}, Data: data}
		if err := o.host.Create(t.Context(), planted); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.host.Delete(t.Context(), o.cp()); err != nil {
		t.Fatal(err)
	}
	if err := o.host.Create(t.Context(), named()); err != nil {
		t.Fatal(err)
	}
	_, digests, _ := strings.Cut(o.reconcile().Error(), v1alpha1.AdoptKeysAnnotation+"=")
	digests, _, _ = strings.Cut(digests, `"`)
	o.change(func(cp *v1alpha1.ControlPlane) {
		cp.Annotations = map[string]string{v1alpha1.AdoptKeysAnnotation: digests}
	})
	o.must()
	if diff := cmp.Diff(want, o.files); diff != "" {
		t.Errorf("what servers are given (-want +got):\n%s", diff)
	}
	all := o.cp().Status.TokenKeys
	if newest := all[len(all)-1].SecretName; newest != genuine.Name {
		t.Errorf("tokens are signed by the key in %q", newest)
	}
}

// TestKeysOfTokensAreAdopted checks that a ControlPlane that goes on with the keys of an earlier one signs by its newest, and
// verifies by those before.
func TestKeysOfTokensAreAdopted(t *testing.T) {
	o := newRotation(t, named())
	o.must()
	o.rotate("two")
	o.must()
	o.now = o.now.Add(publishPeriod)
	o.must()
	want := o.files
	if err := o.host.Delete(t.Context(), o.cp()); err != nil {
		t.Fatal(err)
	}
	if err := o.host.Create(t.Context(), named()); err != nil {
		t.Fatal(err)
	}
	if got := reasonOf(o.reconcile()); got != v1alpha1.ReasonKeysNotAdopted {
		t.Errorf("keys of an earlier ControlPlane are used unasked: %q", got)
	}
	digests, err := o.r.digests(t.Context(), o.cp())
	if err != nil {
		t.Fatal(err)
	}
	o.change(func(cp *v1alpha1.ControlPlane) {
		cp.Annotations = map[string]string{v1alpha1.AdoptKeysAnnotation: digests}
	})
	o.must()
	if diff := cmp.Diff(want, o.files); diff != "" {
		t.Errorf("what servers are given (-want +got):\n%s", diff)
	}
	o.change(func(cp *v1alpha1.ControlPlane) { cp.Annotations = nil })
	o.must()
	key := types.NamespacedName{Namespace: "ns", Name: "cp-service-account-key-2"}
	if err := o.host.Get(t.Context(), key, &corev1.Secret{}); err != nil {
		t.Error(err)
	}
}
