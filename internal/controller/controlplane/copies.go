package controlplane

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// copyOf returns what is recorded of a Secret that is a copy. Its digest is made with a key of the
// operator: there may be passwords in configuration, which whoever reads the status could try.
func (w *work) copyOf(name string, data map[string][]byte) (v1alpha1.ControlPlaneCopy, error) {
	secret, err := w.authorities.system.KeyPEM()
	if err != nil {
		return v1alpha1.ControlPlaneCopy{}, fmt.Errorf("reading the key of %s: %w", systemCA, err)
	}
	return v1alpha1.ControlPlaneCopy{SecretName: name, Digest: sumOf(hmac.New(sha256.New, secret), data)}, nil
}

// copied returns what the operator has put into a Secret last, nothing if that is not there any more.
// Labels say nothing: whoever may create Secrets, and not even read them, could have made one with
// users or etcds of their own.
func (r *Reconciler) copied(ctx context.Context, w *work, name string) (map[string][]byte, error) {
	live := &corev1.Secret{}
	if _, err := r.readLive(ctx, w.cp, "Secret", name, live); err != nil {
		return nil, err
	}
	found, err := w.copyOf(name, live.Data)
	if err != nil || !slices.Contains(w.cp.Status.Copies, found) {
		return nil, err
	}
	return live.Data, nil
}

// applyCopy makes a Secret what has been checked, and notes that for the status.
func (r *Reconciler) applyCopy(ctx context.Context, w *work, name string, data map[string][]byte) error {
	made, err := w.copyOf(name, data)
	if err != nil {
		return err
	}
	if err := r.applySecret(ctx, w.cp, name, data); err != nil {
		return err
	}
	w.copies = append(w.copies, made)
	return nil
}

// record puts what was copied into a status.
func record(status *v1alpha1.ControlPlaneStatus, copies []v1alpha1.ControlPlaneCopy) {
	for _, made := range copies {
		status.Copies = append(slices.DeleteFunc(status.Copies, func(c v1alpha1.ControlPlaneCopy) bool {
			return c.SecretName == made.SecretName
		}), made)
	}
}

// removeOthers takes what the operator has not put there out of a Secret that was applied.
func (r *Reconciler) removeOthers(ctx context.Context, applied *applycorev1.SecretApplyConfiguration, data map[string][]byte) error {
	others := map[string]any{}
	for key := range applied.Data {
		if _, ours := data[key]; !ours {
			others[key] = nil
		}
	}
	if len(others) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"data": others})
	if err != nil {
		return fmt.Errorf("encoding what is not of Secret %q: %w", *applied.Name, err)
	}
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = *applied.Namespace, *applied.Name
	if err := r.Client.Patch(ctx, secret, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(FieldManager)); err != nil {
		return fmt.Errorf("removing what others have put into Secret %q: %w", secret.Name, err)
	}
	return nil
}
