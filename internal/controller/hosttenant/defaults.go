package hosttenant

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/conditions"
)

// Default says which ControlPlane Tenants are in that name none.
type Default struct {
	// ControlPlane is the one, if it is not empty.
	ControlPlane v1alpha1.ControlPlaneReference
	// Namespace is otherwise where the only ControlPlane is the one. A user who may create
	// ControlPlanes in another namespace must not get the Tenants of others by that.
	Namespace string
}

// choose returns the ControlPlane.
func (d Default) choose(ctx context.Context, host client.Reader) (*v1alpha1.ControlPlaneReference, error) {
	if d.ControlPlane != (v1alpha1.ControlPlaneReference{}) {
		return &d.ControlPlane, nil
	}
	if d.Namespace == "" {
		return nil, conditions.Problemf(v1alpha1.ReasonNoControlPlane, "spec.controlPlaneRef is missing and the operator has no default: name a ControlPlane, or start the operator with --default-control-plane")
	}
	all := &v1alpha1.ControlPlaneList{}
	if err := host.List(ctx, all, client.InNamespace(d.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the ControlPlanes of namespace %q: %w", d.Namespace, err)
	}
	switch len(all.Items) {
	case 0:
		return nil, conditions.Problemf(v1alpha1.ReasonNoControlPlane, "spec.controlPlaneRef is missing and there is no ControlPlane in namespace %q: create one, or name one elsewhere", d.Namespace)
	case 1:
		return &v1alpha1.ControlPlaneReference{Namespace: d.Namespace, Name: all.Items[0].Name}, nil
	default:
		return nil, conditions.Problemf(v1alpha1.ReasonNoControlPlane, "spec.controlPlaneRef is missing and there are %d ControlPlanes in namespace %q: name one, or start the operator with --default-control-plane", len(all.Items), d.Namespace)
	}
}
