package hosttenant

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/conditions"
	"github.com/tenantry/tenantry/internal/controller/controlplane"
	"github.com/tenantry/tenantry/internal/kubeconfig"
	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	kubeconfigKey = "kubeconfig"
	// defaultUser and defaultValidity are those of the definition of Tenants.
	defaultUser     = "admin"
	defaultValidity = 60 * 24 * time.Hour
	// lifeLeft is the part of its life, in thirds, that a certificate has left when it is
	// renewed.
	lifeLeft = 2
)

// issued is what became of the Secret with the kubeconfig of a Tenant.
type issued struct {
	secret types.NamespacedName
	// failed says why there is none, or not the right one.
	failed *conditions.Problem
	// again is when to look again.
	again time.Duration
}

func (i *issued) condition() metav1.Condition {
	if i.failed != nil {
		return conditions.New(v1alpha1.ConditionKubeconfig, false, i.failed.Reason, i.failed.Message)
	}
	return conditions.New(v1alpha1.ConditionKubeconfig, true, v1alpha1.ReasonIssued, fmt.Sprintf("Secret %q has the kubeconfig", i.secret))
}

// ensureKubeconfig makes the Secret that the Tenant asks for, renews what is in it, and empties
// it when nobody asks any more.
func (r *Reconciler) ensureKubeconfig(ctx context.Context, w *work) error {
	if w.tenant.Spec.KubeconfigSecret == nil {
		return r.emptyKubeconfig(ctx, w)
	}
	w.kubeconfig = &issued{secret: types.NamespacedName{Namespace: w.ref.Namespace, Name: secretName(w.tenant)}}
	err := r.issue(ctx, w)
	p, is := errors.AsType[*conditions.Problem](err)
	switch {
	case is: // the Tenant is mirrored all the same
		w.kubeconfig.failed, w.kubeconfig.again = p, p.Again
		return nil
	case err != nil:
		w.kubeconfig.failed = conditions.Problemf(v1alpha1.ReasonFailed, "%v", err)
	}
	return err
}

func (r *Reconciler) issue(ctx context.Context, w *work) error {
	if w.cp.Status.Endpoint == "" {
		return conditions.Problemf(v1alpha1.ReasonAwaitingAddress, "ControlPlane %q has no address for clients yet", w.ref)
	}
	if since := w.mirror.Status.CredentialsNotBefore; since != nil && r.now().Before(since.Time) {
		return &conditions.Problem{Reason: v1alpha1.ReasonProgressing, Again: since.Sub(r.now()) + time.Second,
			Message: "waiting for the time from which on credentials of this tenant are good"}
	}
	current, err := r.readKubeconfig(ctx, w)
	if err != nil {
		return err
	}
	content := current.Data[kubeconfigKey]
	if current.Annotations[spaceAnnotation] != string(w.mirror.UID) {
		content = nil // it is of an earlier tenant
	}
	user := userOf(w.tenant)
	keep := user.Validity * lifeLeft / 3
	content, notAfter, err := kubeconfig.Renew(content, w.space.Keys, w.cp.Status.Endpoint, user, keep)
	if err != nil {
		return fmt.Errorf("making the kubeconfig of Tenant %q: %w", w.tenant.Name, err)
	}
	w.kubeconfig.again = max(notAfter.Add(-keep).Sub(r.now()), 0) + time.Second
	if w.has(current, content) {
		return nil
	}
	return r.applyKubeconfig(ctx, w, w.kubeconfig.secret, content)
}

// has reports whether a Secret is as applyKubeconfig would make it.
func (w *work) has(current *corev1.Secret, content []byte) bool {
	return len(current.Data) == 1 && bytes.Equal(current.Data[kubeconfigKey], content) &&
		current.Labels[controlplane.OfLabel] == w.cp.Name && current.Annotations[spaceAnnotation] == string(w.mirror.UID) &&
		metav1.IsControlledBy(current, w.tenant)
}

// userOf returns for whom the kubeconfig is.
func userOf(t *v1alpha1.Tenant) kubeconfig.User {
	asked := t.Spec.KubeconfigSecret
	return kubeconfig.User{
		Tenant: tenant.Name(t.Name), Name: cmp.Or(asked.User, defaultUser), Groups: asked.Groups,
		Validity: cmp.Or(asked.Validity.Duration, defaultValidity),
	}
}

// readKubeconfig reads the Secret, if there is one. What the cache has not may be somebody else's.
func (r *Reconciler) readKubeconfig(ctx context.Context, w *work) (*corev1.Secret, error) {
	key := w.kubeconfig.secret
	found := &corev1.Secret{}
	err := r.Client.Get(ctx, key, found)
	if apierrors.IsNotFound(err) {
		err = r.Live.Get(ctx, key, found)
	}
	switch {
	case apierrors.IsNotFound(err):
		return found, nil
	case err != nil:
		return nil, fmt.Errorf("reading Secret %q: %w", key, err)
	case !isKubeconfigOf(w.tenant, found):
		return nil, conditions.Unwatchedf(v1alpha1.ReasonNameTaken,
			"Secret %q is there and is not of this Tenant: delete it, or leave spec.kubeconfigSecret out", key)
	default:
		return found, nil
	}
}

// isKubeconfigOf reports whether the operator has made a Secret for a Tenant, this one or an
// earlier one of its name.
func isKubeconfigOf(t *v1alpha1.Tenant, secret *corev1.Secret) bool {
	return secret.Labels[controlplane.ManagedLabel] == controlplane.FieldManager && secret.Labels[controlplane.TenantLabel] == t.Name
}

// applyKubeconfig writes the Secret. The host deletes it with the Tenant: the operator itself could
// delete a Secret only if it could delete all of the namespace, those of keys included. The label of
// the ControlPlane lets the caches have it.
func (r *Reconciler) applyKubeconfig(ctx context.Context, w *work, key types.NamespacedName, content []byte) error {
	secret := applycorev1.Secret(key.Name, key.Namespace).
		WithLabels(map[string]string{
			controlplane.ManagedLabel: controlplane.FieldManager, controlplane.OfLabel: w.cp.Name, controlplane.TenantLabel: w.tenant.Name,
		}).
		WithAnnotations(map[string]string{spaceAnnotation: string(w.mirror.UID)}).
		WithOwnerReferences(applymetav1.OwnerReference().
			WithAPIVersion(v1alpha1.GroupVersion.String()).WithKind("Tenant").WithName(w.tenant.Name).WithUID(w.tenant.UID).WithController(true)).
		WithType(corev1.SecretTypeOpaque).WithData(map[string][]byte{kubeconfigKey: content})
	err := r.Client.Apply(ctx, secret, client.FieldOwner(controlplane.FieldManager), client.ForceOwnership)
	switch {
	case apierrors.IsInvalid(err): // its type, or that it is immutable
		return conditions.Unwatchedf(v1alpha1.ReasonNameTaken,
			"Secret %q cannot be changed: delete it, and it is made again if it is asked for (%v)", key, err)
	case err != nil:
		return fmt.Errorf("applying Secret %q: %w", key, err)
	default:
		return nil
	}
}

// emptyKubeconfig takes the kubeconfig out of the Secret of a Tenant, if there is one.
func (r *Reconciler) emptyKubeconfig(ctx context.Context, w *work) error {
	key := types.NamespacedName{Namespace: w.ref.Namespace, Name: secretName(w.tenant)}
	found := &corev1.Secret{}
	switch err := r.Client.Get(ctx, key, found); {
	case apierrors.IsNotFound(err) || err == nil && !isKubeconfigOf(w.tenant, found):
		return nil
	case err != nil:
		return fmt.Errorf("reading Secret %q: %w", key, err)
	case len(found.Data[kubeconfigKey]) == 0 && metav1.IsControlledBy(found, w.tenant):
		return nil
	}
	// A key without a value, and not no key: what somebody else has written there goes, too.
	return r.applyKubeconfig(ctx, w, key, []byte{})
}
