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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/conditions"
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

// proof is the file of a Secret with a later key of service accounts by which the operator knows that it has made it,
// also for an earlier ControlPlane of the name.
const proof = "proof"

// proofOf returns what proves that a Secret was made by who has the keys of the authorities. That key is of proofs
// alone: what is made with the authority's own elsewhere is in the status, and may be of what others have written.
func proofOf(authorities map[string][]byte, name string, data map[string][]byte) string {
	proving := hmac.New(sha256.New, authorities[systemCA+key])
	proving.Write([]byte("proofs of Secrets of keys"))
	made := maps.Clone(data)
	delete(made, proof)
	made["metadata.name"] = []byte(name) // no file has the name: the data is what the operator has made
	return sumOf(hmac.New(sha256.New, proving.Sum(nil)), made)
}

// isProven reports whether a Secret has its proof.
func isProven(authorities map[string][]byte, secret *corev1.Secret) bool {
	return len(authorities[systemCA+key]) > 0 && hmac.Equal(secret.Data[proof], []byte(proofOf(authorities, secret.Name, secret.Data)))
}

// isRecorded reports whether a Secret of keys has what the status of its ControlPlane says.
func isRecorded(cp *v1alpha1.ControlPlane, secret *corev1.Secret) bool {
	return slices.Contains(cp.Status.Keys, v1alpha1.ControlPlaneKeys{SecretName: secret.Name, Digest: digestOf(secret.Data)})
}

// recordsKeys reports whether the status says what Secrets of keys have. That of a ControlPlane that
// an operator without such records has made does not, until somebody answers for them.
func recordsKeys(cp *v1alpha1.ControlPlane) bool { return len(cp.Status.Keys) > 0 }

// checkMade reports why the content of a Secret of keys is not used: who may create Secrets, but not
// read them, could have made it, and would know the keys. Whoever writes the ControlPlane can say
// that it is right.
func (r *Reconciler) checkMade(ctx context.Context, cp *v1alpha1.ControlPlane, secret *corev1.Secret) error {
	adopted := strings.Split(cp.Annotations[v1alpha1.AdoptKeysAnnotation], ",")
	switch {
	case isRecorded(cp, secret), slices.Contains(adopted, digestOf(secret.Data)):
		return nil
	}
	digests, err := r.digests(ctx, cp)
	if err != nil {
		return err
	}
	how := fmt.Sprintf("run \"kubectl -n %s annotate --overwrite controlplane %s %s=%s\"", cp.Namespace, cp.Name, v1alpha1.AdoptKeysAnnotation, digests)
	if cp.Status.CertificateAuthority != "" && recordsKeys(cp) {
		return conditions.Problemf(v1alpha1.ReasonKeysInvalid, "Secret %q has other keys than this ControlPlane was made with (status.keys): "+
			"restore it from a backup; if these are right, %s", secret.Name, how)
	}
	return conditions.Problemf(v1alpha1.ReasonKeysNotAdopted, "Secret %q was there before this ControlPlane, and whoever has made it may know its keys. "+
		"If it is of an earlier ControlPlane of the name, or from a backup, %s; otherwise delete it", secret.Name, how)
}

// digests returns those of the Secrets of keys that are there. Of later keys, only one that was made with these
// authorities is among them: whoever does what the message says would adopt another one with the rest.
func (r *Reconciler) digests(ctx context.Context, cp *v1alpha1.ControlPlane) (string, error) {
	var all []string
	names, err := r.keySecrets(ctx, cp)
	if err != nil {
		return "", err
	}
	for _, name := range names {
		secret := &corev1.Secret{}
		switch found, err := r.readLive(ctx, cp, "Secret", name, secret); {
		case err != nil:
			return "", err
		case found:
			all = append(all, digestOf(secret.Data))
		}
	}
	return strings.Join(all, ","), nil
}

// keySecrets are the names of the Secrets of keys that a ControlPlane goes on with.
func (r *Reconciler) keySecrets(ctx context.Context, cp *v1alpha1.ControlPlane) ([]string, error) {
	names := []string{authoritiesName(cp), keysName(cp)}
	newest, err := r.newestTokenKey(ctx, cp)
	if newest > 1 {
		names = append(names, tokenKeyName(cp, newest))
	}
	return names, err
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
