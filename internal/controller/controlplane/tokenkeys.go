package controlplane

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/conditions"
	"github.com/tenantry/tenantry/internal/pki"
)

const (
	pub = ".pub"

	// publishPeriod is how long servers verify by a key before one signs by it. A verifier of
	// tokens elsewhere may remember the keys of the discovery document for an hour, and a kubelet
	// brings another Secret to its pods within two minutes.
	publishPeriod = 70 * time.Minute
	// defaultTokenLifetime is the longest that a token lives by default, which upstream makes
	// those of pods.
	defaultTokenLifetime = 365 * 24 * time.Hour
	// maxTokenKeys bounds the keys by which servers verify.
	maxTokenKeys = 8
)

// tokenKeys are the keys of tokens of service accounts. They go by steps, each of which is
// written to the status when servers have been given it:
//
//   - a key is made, and servers verify by it;
//   - after publishPeriod they sign by it;
//   - the one before verifies for as long as its tokens may live.
type tokenKeys struct {
	all []v1alpha1.ControlPlaneTokenKey
	// signer is the index of the one that signs, and private its private key.
	signer  int
	private []byte
	// rotation is the text of the spec for which the newest was made.
	rotation string
	// waiting says why none is made though the spec asks for one.
	waiting string
	// served is set when servers are given the keys, and events tell what is done by that.
	served bool
	events []conditions.Event
}

// tokenKeyName is the Secret of the nth key. The first is among the others.
func tokenKeyName(cp *v1alpha1.ControlPlane, n int) string {
	if n == 1 {
		return keysName(cp)
	}
	return cp.Name + tokenKeyInfix + strconv.Itoa(n)
}

const tokenKeyInfix = "-service-account-key-"

// tokenKeyNumber is that of a Secret, 0 if it is not one of a key of service accounts.
func tokenKeyNumber(cp *v1alpha1.ControlPlane, name string) int {
	if name == keysName(cp) {
		return 1
	}
	number, is := strings.CutPrefix(name, cp.Name+tokenKeyInfix)
	n, err := strconv.Atoi(number)
	if !is || err != nil || tokenKeyName(cp, n) != name {
		return 0
	}
	return n
}

// ensureTokenKeys says by which keys servers sign and verify tokens of service accounts.
func (r *Reconciler) ensureTokenKeys(ctx context.Context, w *work) error {
	keys := &tokenKeys{all: slices.Clone(w.cp.Status.TokenKeys), rotation: w.cp.Status.KeyRotation}
	var err error
	if len(keys.all) == 0 {
		if err = r.firstTokenKeys(ctx, w, keys); err != nil {
			return err
		}
	}
	keys.retire(r.now(), w.cp.Spec.ServiceAccounts.RefuseOldKeys)
	keys.sign(r.now())
	secret, err := r.madeTokenKey(ctx, w, keys.all[keys.signer].SecretName)
	if err != nil {
		return err
	}
	keys.private = secret.Data[serviceAccount+key]
	if public, err := publicKey(keys.private); err != nil || string(public) != keys.all[keys.signer].PublicKey {
		return conditions.Problemf(v1alpha1.ReasonKeysInvalid, "Secret %q: %s holds no private key, or another one than before (status.tokenKeys): restore it from a backup",
			secret.Name, serviceAccount+key)
	}
	for _, next := range keys.all[keys.signer+1:] {
		if _, err := r.madeTokenKey(ctx, w, next.SecretName); conditions.IsProblem(err) { // servers verify by it all the same
			w.remaining = err
		} else if err != nil {
			return err
		}
	}
	switch err := r.rotate(ctx, w, keys); {
	case conditions.IsProblem(err): // all goes on by the keys that there are
		w.remaining = err
	case err != nil:
		return err
	}
	keys.note(tokenLifetime(w.cp))
	w.tokenKeys = keys
	return nil
}

// recorded returns what the status is to say of Secrets of keys: those that were looked at, and
// those of keys that sign or will.
func (w *work) recorded() []v1alpha1.ControlPlaneKeys {
	all := slices.Clone(w.authorities.keys)
	for _, known := range w.cp.Status.Keys {
		n := tokenKeyNumber(w.cp, known.SecretName)
		if n > 1 && (w.tokenKeys == nil || n >= tokenKeyNumber(w.cp, w.tokenKeys.all[w.tokenKeys.signer].SecretName)) {
			all = append(all, known)
		}
	}
	return all
}

// firstTokenKeys are those of a ControlPlane whose status has none: the one that was made with
// all other keys or, if it goes on with the keys of an earlier one, the newest of that. What others have made
// beside the Secrets that the status names does not matter.
func (r *Reconciler) firstTokenKeys(ctx context.Context, w *work, keys *tokenKeys) error {
	newest := 1
	for _, known := range w.cp.Status.Keys {
		newest = max(newest, tokenKeyNumber(w.cp, known.SecretName))
	}
	name := tokenKeyName(w.cp, newest)
	secret, err := r.madeTokenKey(ctx, w, name)
	if err != nil {
		return err
	}
	public, err := publicKey(secret.Data[serviceAccount+key])
	if err != nil {
		return conditions.Problemf(v1alpha1.ReasonKeysInvalid, "Secret %q: %s holds no private key: restore it from a backup", name, serviceAccount+key)
	}
	now := metav1.NewTime(r.now())
	keys.before(string(public), secret, now, w.cp.Annotations[v1alpha1.AdoptOldTokenKeysAnnotation] == "true")
	keys.all = append(keys.all, v1alpha1.ControlPlaneTokenKey{SecretName: name, PublicKey: string(public), PublishedAt: &now, SignsFrom: &now})
	keys.rotation = w.cp.Spec.ServiceAccounts.KeyRotation
	return nil
}

// before are the keys that verified when that of a Secret was made. Nobody knows how long their tokens live, and which
// of them have ended or were stolen since: they verify if somebody asks for it, for as long as any token may live.
func (k *tokenKeys) before(public string, secret *corev1.Secret, now metav1.Time, asked bool) {
	refused := false
	for i, old := range pemBlocks(secret.Data[serviceAccount+pub]) {
		switch {
		case old == public:
		case !asked:
			refused = true
		default:
			k.all = append(k.all, v1alpha1.ControlPlaneTokenKey{
				SecretName: fmt.Sprintf("%s/%d", secret.Name, i), PublicKey: old, PublishedAt: &now, SignsFrom: &now,
				LongestLifetime: metav1.Duration{Duration: defaultTokenLifetime}, VerifiesUntil: new(metav1.NewTime(now.Add(publishPeriod + defaultTokenLifetime))),
			})
		}
	}
	if refused {
		k.events = append(k.events, oldTokenKeysRefused(secret.Name))
	}
}

// adoptTokenKey records the newest key of service accounts that an earlier ControlPlane of the name has left, before
// the status says that there are keys. A newer one that nothing proves is a problem and not left out: it may be from a
// backup, and those before it were stolen.
func (r *Reconciler) adoptTokenKey(ctx context.Context, w *work, system *pki.Authority) error {
	if w.cp.Status.CertificateAuthority != "" {
		return nil
	}
	secrets := &corev1.SecretList{}
	if err := r.Live.List(ctx, secrets, client.InNamespace(w.cp.Namespace), client.MatchingLabels{managedLabel: FieldManager, ofLabel: w.cp.Name}); err != nil {
		return fmt.Errorf("listing the Secrets of ControlPlane %q: %w", w.cp.Name, err)
	}
	var newest *corev1.Secret
	number := 1
	for i := range secrets.Items {
		if n := tokenKeyNumber(w.cp, secrets.Items[i].Name); n > number {
			newest, number = &secrets.Items[i], n
		}
	}
	if newest == nil {
		return nil
	}
	if err := w.checkMade(system, newest); err != nil || isRecorded(w.cp, newest) {
		return err
	}
	return r.recordKeys(ctx, w, v1alpha1.ControlPlaneKeys{SecretName: newest.Name, Digest: digestOf(newest.Data)})
}

// madeTokenKey reads a Secret that has been made, and says if it is gone or another one.
func (r *Reconciler) madeTokenKey(ctx context.Context, w *work, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	found, err := r.readLive(ctx, w.cp, "Secret", name, secret)
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, conditions.Problemf(v1alpha1.ReasonKeysMissing, "Secret %q is missing: restore it from a backup; servers go on with what they have of it", name)
	}
	return secret, r.takeMade(ctx, w, w.authorities.system, secret)
}

// retire takes away keys whose tokens have ended, and all that sign no more if they are refused.
func (k *tokenKeys) retire(now time.Time, refused bool) {
	k.all = slices.DeleteFunc(k.all, func(old v1alpha1.ControlPlaneTokenKey) bool {
		if old.VerifiesUntil == nil || !refused && now.Before(old.VerifiesUntil.Time) {
			return false
		}
		k.events = append(k.events, tokenKeyRetired(old.SecretName))
		return true
	})
}

// sign finds the key that signs: the newest that has been published for long enough.
func (k *tokenKeys) sign(now time.Time) {
	for i, key := range k.all {
		if key.SignsFrom != nil || key.PublishedAt != nil && now.Sub(key.PublishedAt.Time) >= publishPeriod {
			k.signer = i
		}
	}
}

// rotate makes the next key, if the spec asks for one and none is about to sign.
func (r *Reconciler) rotate(ctx context.Context, w *work, keys *tokenKeys) error {
	asked := w.cp.Spec.ServiceAccounts.KeyRotation
	newest := keys.all[len(keys.all)-1]
	switch {
	case asked == "" || asked == keys.rotation:
		return nil
	case keys.signer < len(keys.all)-1: // it is looked at again when that signs
		return nil
	case len(keys.all) >= maxTokenKeys:
		keys.waiting = fmt.Sprintf("spec.serviceAccounts.keyRotation: servers verify by %d keys, which is the most: the next is made when one of them has ended, "+
			"or with spec.serviceAccounts.refuseOldKeys", maxTokenKeys)
		return nil
	}
	name := tokenKeyName(w.cp, tokenKeyNumber(w.cp, newest.SecretName)+1)
	data, err := r.nextTokenKey(ctx, w, keys, name)
	if err != nil {
		return err
	}
	public, err := publicKey(data[serviceAccount+key])
	if err != nil {
		return conditions.Problemf(v1alpha1.ReasonKeysInvalid, "Secret %q: %s holds no private key: delete it", name, serviceAccount+key)
	}
	keys.all = append(keys.all, v1alpha1.ControlPlaneTokenKey{SecretName: name, PublicKey: string(public)})
	keys.rotation = asked
	keys.events = append(keys.events, tokenKeyPublished(name))
	return nil
}

// nextTokenKey makes the Secret of a key, with the public keys that verify, so that a ControlPlane
// that goes on with it verifies by all of them. One that was made before an end of the operator is used.
func (r *Reconciler) nextTokenKey(ctx context.Context, w *work, keys *tokenKeys, name string) (map[string][]byte, error) {
	secret := &corev1.Secret{}
	switch found, err := r.readLive(ctx, w.cp, "Secret", name, secret); {
	case err != nil:
		return nil, err
	case found && isRecorded(w.cp, secret):
		return secret.Data, nil
	case found:
		return nil, conditions.Problemf(v1alpha1.ReasonKeysInvalid, "Secret %q is in the place of the next key of service accounts, and the operator has not made it: delete it", name)
	}
	private, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return nil, fmt.Errorf("making the key of Secret %q: %w", name, err)
	}
	data := map[string][]byte{serviceAccount + key: private, serviceAccount + pub: keys.public()}
	return data, r.create(ctx, w, w.authorities.system, name, data)
}

// note notes how long tokens live that are signed from now on.
func (k *tokenKeys) note(lifetime time.Duration) {
	signer := &k.all[k.signer]
	signer.LongestLifetime.Duration = max(signer.LongestLifetime.Duration, lifetime)
}

// public returns all public keys, in PEM.
func (k *tokenKeys) public() []byte {
	var all bytes.Buffer
	for _, key := range k.all {
		all.WriteString(key.PublicKey)
	}
	return all.Bytes()
}

// files are those that servers read again when they change.
func (k *tokenKeys) files() map[string][]byte {
	return map[string][]byte{serviceAccount + key: k.private, serviceAccount + pub: k.public()}
}

// given notes that servers are given the keys from now on.
func (k *tokenKeys) given(at time.Time) {
	now := metav1.NewTime(at.Truncate(time.Second))
	k.served = true
	for i := range k.all {
		key := &k.all[i]
		key.PublishedAt = cmp.Or(key.PublishedAt, &now)
		switch {
		case i == k.signer && key.SignsFrom == nil:
			key.SignsFrom = &now
			k.events = append(k.events, tokenKeySigns(key.SecretName))
		case i < k.signer && key.VerifiesUntil == nil: // servers get the next one at different times
			key.VerifiesUntil = new(metav1.NewTime(now.Add(publishPeriod + key.LongestLifetime.Duration)))
		}
	}
}

// wait is for how long there is nothing to do, at most renewalPeriod.
func (k *tokenKeys) wait(now time.Time) time.Duration {
	if k == nil {
		return renewalPeriod
	}
	first := now.Add(renewalPeriod)
	for i, key := range k.all {
		switch {
		case i > k.signer && key.PublishedAt != nil:
			first = earlier(first, key.PublishedAt.Add(publishPeriod))
		case key.VerifiesUntil != nil:
			first = earlier(first, key.VerifiesUntil.Time)
		}
	}
	return max(first.Sub(now), time.Second)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// condition says how far a rotation is.
func (k *tokenKeys) condition() metav1.Condition {
	newest, oldest := k.all[len(k.all)-1], k.all[0]
	switch {
	case k.waiting != "":
		return conditions.New(v1alpha1.ConditionKeysRotating, true, v1alpha1.ReasonTooManyKeys, k.waiting)
	case k.signer < len(k.all)-1 && newest.PublishedAt != nil:
		return conditions.New(v1alpha1.ConditionKeysRotating, true, v1alpha1.ReasonKeyPublished,
			fmt.Sprintf("servers verify tokens by the key in Secret %q, and sign by it from %s on", newest.SecretName, newest.PublishedAt.Add(publishPeriod).UTC().Format(time.RFC3339)))
	case k.signer > 0 && oldest.VerifiesUntil != nil:
		return conditions.New(v1alpha1.ConditionKeysRotating, true, v1alpha1.ReasonOldKeysVerify,
			fmt.Sprintf("tokens are signed by the key in Secret %q; those of the key before are good until %s", k.all[k.signer].SecretName, oldest.VerifiesUntil.UTC().Format(time.RFC3339)))
	default:
		return conditions.New(v1alpha1.ConditionKeysRotating, false, v1alpha1.ReasonRotationIsWhole,
			fmt.Sprintf("tokens are signed and verified by the key in Secret %q", k.all[k.signer].SecretName))
	}
}

// tokenLifetime is the longest that tokens are issued for.
func tokenLifetime(cp *v1alpha1.ControlPlane) time.Duration {
	return cmp.Or(cp.Spec.ServiceAccounts.MaxTokenLifetime.Duration, defaultTokenLifetime)
}

// tokenArgs are the flags by which servers issue tokens of service accounts.
func tokenArgs(cp *v1alpha1.ControlPlane) []string {
	args := []string{"--service-account-max-token-expiration=" + tokenLifetime(cp).String()}
	if tokenLifetime(cp) < defaultTokenLifetime { // upstream makes those of pods good for a year
		args = append(args, "--service-account-extend-token-expiration=false")
	}
	return args
}

// publicKey returns the public key of a private one, both in PEM.
func publicKey(private []byte) ([]byte, error) {
	parsed, err := keyutil.ParsePrivateKeyPEM(private)
	if err != nil {
		return nil, err
	}
	signer, is := parsed.(crypto.Signer)
	if !is {
		return nil, fmt.Errorf("keys of the type %T sign nothing", parsed)
	}
	der, err := x509.MarshalPKIXPublicKey(signer.Public())
	return pem.EncodeToMemory(&pem.Block{Type: keyutil.PublicKeyBlockType, Bytes: der}), err
}

// pemBlocks are the blocks of PEM in some content.
func pemBlocks(content []byte) (all []string) {
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		all = append(all, string(pem.EncodeToMemory(block)))
	}
	return all
}
