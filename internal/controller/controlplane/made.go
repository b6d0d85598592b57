package controlplane

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/conditions"
	"github.com/tenantry/tenantry/internal/pki"
)

// digestOf returns a digest of the content of a Secret of keys, with its private keys: nobody else
// makes one with that digest, and it tells nothing of the keys.
func digestOf(data map[string][]byte) string { return sumOf(sha256.New(), data) }

// sumOf returns a digest of the content of a Secret.
func sumOf(sum hash.Hash, data map[string][]byte) string {
	write := func(part []byte) {
		_ = binary.Write(sum, binary.BigEndian, uint64(len(part))) // a hash has no error to return
		sum.Write(part)
	}
	for _, name := range slices.Sorted(maps.Keys(data)) {
		write([]byte(name))
		write(data[name])
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// isRecorded reports whether a Secret of keys has what the status of its ControlPlane says.
func isRecorded(cp *v1alpha1.ControlPlane, secret *corev1.Secret) bool {
	return slices.Contains(cp.Status.Keys, v1alpha1.ControlPlaneKeys{SecretName: secret.Name, Digest: digestOf(secret.Data)})
}

// recordsKeys reports whether the status says what Secrets of keys have. That of a ControlPlane that
// an operator without such records has made does not, until somebody answers for them.
func recordsKeys(cp *v1alpha1.ControlPlane) bool { return len(cp.Status.Keys) > 0 }

// provedBy says of a Secret of keys, but that of the authorities, that the operator has made it: it is the
// authentication code of name and content, by the key of the authority of system users.
const provedBy = "tenantry.io/keys-mac"

// proofOf returns what the annotation of a Secret of keys is to be. Nobody makes it who may create
// Secrets and not read them. Others choose what is in copies, and read their digests by the same key in the
// status: no copy has a key without a name, so none has the digest of a Secret of keys.
func proofOf(system *pki.Authority, name string, data map[string][]byte) (string, error) {
	secret, err := system.KeyPEM()
	if err != nil {
		return "", fmt.Errorf("reading the key of %s: %w", systemCA, err)
	}
	named := map[string][]byte{"": []byte(name)}
	maps.Copy(named, data)
	return sumOf(hmac.New(sha256.New, secret), named), nil
}

// isProved reports whether the key of an authority says that the operator has made a Secret. Without an
// authority, as for that of the authorities themselves, nothing does.
func isProved(system *pki.Authority, secret *corev1.Secret) (bool, error) {
	if system == nil {
		return false, nil
	}
	proof, err := proofOf(system, secret.Name, secret.Data)
	return hmac.Equal([]byte(proof), []byte(secret.Annotations[provedBy])), err
}

// prove has a Secret of keys that is used say that the operator has made it, for the next ControlPlane of
// the name. One that was made by an operator without proofs does not yet.
func (r *Reconciler) prove(ctx context.Context, system *pki.Authority, secret *corev1.Secret) error {
	proof, err := proofOf(system, secret.Name, secret.Data)
	if err != nil || secret.Annotations[provedBy] == proof {
		return err
	}
	changed := secret.DeepCopy()
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, provedBy, proof)
	if err := r.Client.Patch(ctx, changed, client.MergeFrom(secret), client.FieldOwner(FieldManager)); err != nil {
		return fmt.Errorf("proving Secret %q: %w", secret.Name, err)
	}
	return nil
}

// checkMade reports why the content of a Secret of keys is not used: who may create Secrets, but not
// read them, could have made it, and would know the keys. Anybody who writes the ControlPlane can say
// that it is right: of the authorities, whose key proves the others, and of each that it does not prove.
func (w *work) checkMade(system *pki.Authority, secret *corev1.Secret) error {
	digest := digestOf(secret.Data)
	proved, err := isProved(system, secret)
	switch {
	case err != nil:
		return err
	case isRecorded(w.cp, secret), proved && !isNamed(w.cp, secret.Name):
		return nil
	case slices.Contains(strings.Split(w.cp.Annotations[v1alpha1.AdoptKeysAnnotation], ","), digest):
		if !slices.Contains(w.adopted, digest) {
			w.adopted = append(w.adopted, digest)
		}
		return nil
	}
	how := fmt.Sprintf("run \"kubectl -n %s annotate --overwrite controlplane %s %s=%s\"", w.cp.Namespace, w.cp.Name,
		v1alpha1.AdoptKeysAnnotation, strings.Join(append(slices.Clone(w.adopted), digest), ","))
	switch {
	case w.cp.Status.CertificateAuthority != "" && isNamed(w.cp, secret.Name):
		return conditions.Problemf(v1alpha1.ReasonKeysInvalid, "Secret %q has other keys than this ControlPlane was made with (status.keys): "+
			"restore it from a backup; if these are right, %s", secret.Name, how)
	case system != nil:
		return conditions.Problemf(v1alpha1.ReasonKeysNotAdopted, "Secret %q was there before this ControlPlane, and nothing proves that an operator has made it: "+
			"its annotation %s is not by the key of Secret %q. Whoever has made it may know its keys: delete it. Only if you know it, such as from a backup without annotations, %s",
			secret.Name, provedBy, authoritiesName(w.cp), how)
	default:
		return conditions.Problemf(v1alpha1.ReasonKeysNotAdopted, "Secret %q was there before this ControlPlane, and whoever has made it may know its keys. "+
			"If it is of an earlier ControlPlane of the name, or from a backup, %s, which adopts what its keys prove, too; otherwise delete it. "+
			"Tokens of service accounts by keys before the last rotation are refused then, unless you annotate %s=true first", secret.Name, how, v1alpha1.AdoptOldTokenKeysAnnotation)
	}
}

// isNamed reports whether the status says what a Secret has.
func isNamed(cp *v1alpha1.ControlPlane, secret string) bool {
	return slices.ContainsFunc(cp.Status.Keys, func(k v1alpha1.ControlPlaneKeys) bool { return k.SecretName == secret })
}

// recordKeys writes what is to be in a Secret of keys into the status.
func (r *Reconciler) recordKeys(ctx context.Context, w *work, keys v1alpha1.ControlPlaneKeys) error {
	changed := w.cp.DeepCopy()
	changed.Status.Keys = append(slices.DeleteFunc(changed.Status.Keys, func(k v1alpha1.ControlPlaneKeys) bool {
		return k.SecretName == keys.SecretName
	}), keys)
	unchanged := client.MergeFromWithOptions(w.cp, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, changed, unchanged, client.FieldOwner(FieldManager)); err != nil {
		return fmt.Errorf("recording the keys of Secret %q: %w", keys.SecretName, err)
	}
	w.cp = changed
	return nil
}
