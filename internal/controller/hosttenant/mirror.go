package hosttenant

import (
	"context"
	"fmt"
	"maps"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/conditions"
	"github.com/tenantry/tenantry/internal/tenant"
)

// desired returns the Tenant that there is to be in the control plane. What is about the host is
// left out, and so are annotations: some have a meaning there that the host must not have.
func desired(t *v1alpha1.Tenant) *v1alpha1.Tenant {
	wanted := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{
		Name: t.Name, Labels: tenant.WithoutOurs(t.Labels),
		Annotations: map[string]string{v1alpha1.HostTenantAnnotation: string(t.UID)},
	}}
	t.Spec.DeepCopyInto(&wanted.Spec)
	wanted.Spec.ControlPlaneRef, wanted.Spec.KubeconfigSecret = nil, nil
	return wanted
}

// isOurs reports whether a Tenant in a control plane is that of one on the host.
func isOurs(t, found *v1alpha1.Tenant) bool {
	return t.UID != "" && found.Annotations[v1alpha1.HostTenantAnnotation] == string(t.UID)
}

// isAs reports whether there is nothing to apply. Labels and fields that others have added make
// a difference, too: they may be what the host has had before.
func isAs(wanted, found *v1alpha1.Tenant) bool {
	return maps.Equal(wanted.Labels, found.Labels) && apiequality.Semantic.DeepEqual(wanted.Spec, found.Spec)
}

// ensureMirror makes the Tenant in the control plane like the one on the host.
func (r *Reconciler) ensureMirror(ctx context.Context, w *work) error {
	wanted := desired(w.tenant)
	found, err := w.space.Cached(ctx, w.tenant.Name)
	switch {
	case apierrors.IsNotFound(err):
		w.space.pace.changed(w.tenant)
		found, err = w.space.Create(ctx, wanted)
		if apierrors.IsAlreadyExists(err) {
			found, err = w.space.Read(ctx, w.tenant.Name)
		}
	case err == nil && (!isOurs(w.tenant, found) || !isAs(wanted, found)):
		found, err = w.space.Read(ctx, w.tenant.Name) // the cache may be behind
	}
	if err != nil {
		return fmt.Errorf("creating the Tenant in ControlPlane %q: %w", w.ref, err)
	}
	if !isOurs(w.tenant, found) {
		return notAdopted(w)
	}
	w.mirror = found
	if found.DeletionTimestamp == nil && !isAs(wanted, found) {
		w.space.pace.changed(w.tenant)
		if w.mirror, err = w.space.Apply(ctx, wanted, found); err != nil {
			return fmt.Errorf("applying the Tenant in ControlPlane %q: %w", w.ref, err)
		}
	}
	w.settled = true
	return nil
}

// notAdopted says of a Tenant that somebody else has made how the host may have it. It takes an
// administrator of the control plane, and who may write Tenants on the host is none.
func notAdopted(w *work) error {
	return conditions.Problemf(v1alpha1.ReasonNotAdopted,
		"ControlPlane %q has a Tenant of this name that is not of this host: give this one another name, or let an administrator of the control plane "+
			"hand it over with \"kubectl annotate --overwrite tenant %s %s=%s\"", w.ref, w.tenant.Name, v1alpha1.HostTenantAnnotation, w.tenant.UID)
}
