package spaceclient

import (
	"context"
	"encoding/json"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Apply makes an object what it is to be, whoever has made one of its name.
func (s *Spaces) Apply(ctx context.Context, n tenant.Name, o client.Object) error {
	err := s.apply(ctx, n, o)
	kind := o.GetObjectKind().GroupVersionKind().Kind
	if !apierrors.IsInvalid(err) || !strings.HasSuffix(kind, "RoleBinding") {
		return err
	}
	// It has another role, which cannot be changed.
	if err := s.Remove(ctx, n, o); err != nil {
		return err
	}
	return s.apply(ctx, n, o)
}

func (s *Spaces) apply(ctx context.Context, n tenant.Name, o client.Object) error {
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return s.In(n.Scope()).Patch(ctx, copyOf(o), client.RawPatch(types.ApplyPatchType, body), client.ForceOwnership)
}

// copyOf returns an object into which an answer is read, so that o stays as it is.
func copyOf(o client.Object) client.Object { return o.DeepCopyObject().(client.Object) }

// Delete deletes an object, if there is one, and no other one of its name if its UID is known.
func (s *Spaces) Delete(ctx context.Context, n tenant.Name, o client.Object) error {
	options := &client.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
	if uid := o.GetUID(); uid != "" {
		options.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	err := s.In(n.Scope()).Delete(ctx, o, options)
	if apierrors.IsConflict(err) && o.GetUID() != "" { // it is another one
		return nil
	}
	return client.IgnoreNotFound(err)
}

// Remove deletes an object as Delete does, and takes away its finalizers: whoever may change a
// binding can give it some, with which it would hold after its deletion. None can come afterwards.
func (s *Spaces) Remove(ctx context.Context, n tenant.Name, o client.Object) error {
	if err := s.Delete(ctx, n, o); err != nil {
		return err
	}
	metadata := map[string]any{"finalizers": nil}
	if uid := o.GetUID(); uid != "" {
		metadata["uid"] = uid
	}
	err := s.Patch(ctx, n, o, "", map[string]any{"metadata": metadata})
	if apierrors.IsConflict(err) && o.GetUID() != "" {
		return nil
	}
	return err
}

// Patch merges a change into an object, or into its subresource, if there is one.
func (s *Spaces) Patch(ctx context.Context, n tenant.Name, o client.Object, subresource string, change any) error {
	body, err := json.Marshal(change)
	if err != nil {
		return err
	}
	patch := client.RawPatch(types.MergePatchType, body)
	if subresource != "" {
		return client.IgnoreNotFound(s.In(n.Scope()).SubResource(subresource).Patch(ctx, copyOf(o), patch))
	}
	return client.IgnoreNotFound(s.In(n.Scope()).Patch(ctx, copyOf(o), patch))
}
