package hosttenant

import (
	"context"
	"fmt"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/pki"
)

// Space is the system space of a ControlPlane, as far as its Tenants go.
type Space struct {
	// Keys issue users of tenants.
	Keys *pki.PKI
	// cached reads what the one watch has seen, and live asks the servers.
	cached client.Reader
	live   client.Client
	synced atomic.Bool
	late   atomic.Bool
	// pace is that of the watch's events.
	pace *pace
}

// Synced reports whether the watch has seen all Tenants.
func (s *Space) Synced() bool { return s.synced.Load() }

// Late reports whether the servers should have answered by now.
func (s *Space) Late() bool { return s.late.Load() }

// Cached returns a Tenant as the watch has last seen it.
func (s *Space) Cached(ctx context.Context, name string) (*v1alpha1.Tenant, error) {
	found := &v1alpha1.Tenant{}
	return found, s.cached.Get(ctx, types.NamespacedName{Name: name}, found)
}

// Read returns a Tenant as it is.
func (s *Space) Read(ctx context.Context, name string) (*v1alpha1.Tenant, error) {
	found := &v1alpha1.Tenant{}
	return found, s.live.Get(ctx, types.NamespacedName{Name: name}, found)
}

// Create creates a Tenant, and fails if there is one of its name. Server-side apply would take
// the place of what somebody else has made meanwhile.
func (s *Space) Create(ctx context.Context, t *v1alpha1.Tenant) (*v1alpha1.Tenant, error) {
	created := t.DeepCopy()
	return created, s.live.Create(ctx, created, client.FieldOwner(fieldManager))
}

// Apply makes a Tenant that has just been read what is wanted. It conflicts if somebody has
// changed it since.
func (s *Space) Apply(ctx context.Context, wanted, found *v1alpha1.Tenant) (*v1alpha1.Tenant, error) {
	found, err := s.own(ctx, found)
	if err != nil {
		return nil, err
	}
	object, err := configuration(wanted, found.ResourceVersion)
	if err != nil {
		return nil, err
	}
	if err := s.live.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(fieldManager), client.ForceOwnership); err != nil {
		return nil, err
	}
	applied := &v1alpha1.Tenant{}
	return applied, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, applied)
}

// own makes fields those of server-side apply that Create has set. Otherwise none of them would
// ever be removed.
func (s *Space) own(ctx context.Context, found *v1alpha1.Tenant) (*v1alpha1.Tenant, error) {
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(found, sets.New(fieldManager), fieldManager)
	if err != nil || len(patch) == 0 {
		return found, err
	}
	owned := found.DeepCopy()
	if err := s.live.Patch(ctx, owned, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(fieldManager)); err != nil {
		return nil, fmt.Errorf("taking over its fields: %w", err)
	}
	return owned, nil
}

// configuration returns what is applied: what is set of a Tenant, and nothing else.
func configuration(t *v1alpha1.Tenant, resourceVersion string) (*unstructured.Unstructured, error) {
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&t.Spec)
	if err != nil {
		return nil, fmt.Errorf("encoding its spec: %w", err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Tenant"))
	object.SetName(t.Name)
	object.SetResourceVersion(resourceVersion)
	object.SetLabels(t.Labels)
	object.SetAnnotations(t.Annotations)
	return object, nil
}

// Delete deletes a Tenant and no other one of its name.
func (s *Space) Delete(ctx context.Context, t *v1alpha1.Tenant) error {
	err := s.live.Delete(ctx, t, client.Preconditions{UID: &t.UID})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) { // the next reconcile sees what there is now
		return nil
	}
	return err
}
