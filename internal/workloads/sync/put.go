package sync

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// writer is a client of one kind of objects in one namespace of the host.
type writer[T any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (*T, error)
	Create(ctx context.Context, o *T, options metav1.CreateOptions) (*T, error)
	Update(ctx context.Context, o *T, options metav1.UpdateOptions) (*T, error)
	deleter
}

type deleter interface {
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// object is a pointer to an object.
type object[T any] interface {
	*T
	metav1.Object
}

// put creates an object of the host, or makes it what it is to be. there is what the cache has, or nil. slim puts the
// hash of its spec in the place of that, as in the cache.
func put[T any, O object[T]](ctx context.Context, client writer[T], what string, there, wanted O, slim func(O)) error {
	at := wanted.GetNamespace() + "/" + wanted.GetName()
	if there == nil {
		_, err := client.Create(ctx, wanted, metav1.CreateOptions{FieldManager: fieldManager})
		if err == nil {
			return nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating the host's %s %s: %w", what, at, err)
		}
		// The cache is behind, or it is not ours.
		if there, err = client.Get(ctx, wanted.GetName(), metav1.GetOptions{}); err != nil {
			return fmt.Errorf("reading the host's %s %s: %w", what, at, err)
		}
		slim(there)
	}
	if !isSame(there, wanted) {
		return fmt.Errorf("the host's namespace %q has the %s %q already, which is not of this installation; whoever administers the host is to remove it", wanted.GetNamespace(), what, wanted.GetName())
	}
	if isAsPut(there, wanted, slim) {
		return nil
	}
	translate.KeepOthers(wanted, there)
	wanted.SetUID(there.GetUID())
	wanted.SetResourceVersion(there.GetResourceVersion())
	if _, err := client.Update(ctx, wanted, metav1.UpdateOptions{FieldManager: fieldManager}); err != nil {
		return fmt.Errorf("changing the host's %s %s: %w", what, at, err)
	}
	return nil
}

// isAsPut reports whether an object of the host, as the cache has it, is what it is to be.
func isAsPut[T any, O object[T]](there, wanted O, slim func(O)) bool {
	asItIs := O(new(T))
	*asItIs = *wanted
	slim(asItIs)
	has, wants := there.GetAnnotations(), asItIs.GetAnnotations()
	return has[hashAnnotation] == wants[hashAnnotation] && has[names.UIDAnnotation] == wants[names.UIDAnnotation]
}

// isSame reports whether two objects of the host are made for the same namespace, and the same object of it.
func isSame(there, wanted metav1.Object) bool {
	of, _ := names.Of(wanted.GetLabels(), wanted.GetAnnotations())
	return of.Has(there, wanted.GetAnnotations()[names.NameAnnotation])
}

// remove deletes an object of the host, if there is one, and it is that for an object of this name.
func remove[T any, O object[T]](ctx context.Context, client writer[T], what string, there O, home names.Namespace, name string) error {
	if there == nil || there.GetDeletionTimestamp() != nil || !home.Has(there, name) {
		return nil
	}
	return deleteOne(ctx, client, fmt.Sprintf("the host's %s %s/%s", what, there.GetNamespace(), there.GetName()), there, nil)
}

// deleteOne deletes one object, and no other one of its name. Without a grace period, in seconds, it has its own.
func deleteOne(ctx context.Context, client deleter, what string, there metav1.Object, grace *int64) error {
	options := metav1.NewPreconditionDeleteOptions(string(there.GetUID()))
	options.GracePeriodSeconds = grace
	if err := client.Delete(ctx, there.GetName(), *options); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting %s: %w", what, err)
	}
	return nil
}

// patcher is a client of one kind of objects in one namespace.
type patcher[T any] interface {
	Patch(ctx context.Context, name string, of types.PatchType, patch []byte, options metav1.PatchOptions, subresources ...string) (T, error)
}

// patchOne writes a merge patch of one object, and of no other one of its name.
func patchOne[T any](ctx context.Context, client patcher[T], name string, uid types.UID, change map[string]any, subresources ...string) (changed T, err error) {
	patch, err := patchFor(uid, change)
	if err != nil {
		return changed, err
	}
	return client.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}, subresources...)
}

// patchFor returns a merge patch of one object, and of no other one of its name.
func patchFor(uid types.UID, change map[string]any) ([]byte, error) {
	metadata, _ := change["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["uid"] = uid
	change["metadata"] = metadata
	return json.Marshal(change)
}

// noteHash puts the hash of a spec on its object, in the place of the spec. It is not that which was written: somebody
// may have changed it. What has been slimmed stays as it is, because an informer that lists has everything slimmed
// twice.
func noteHash[T any](on metav1.Object, spec *T) {
	var none T
	if equality.Semantic.DeepEqual(*spec, none) && on.GetAnnotations()[hashAnnotation] != "" {
		return
	}
	annotations := maps.Clone(on.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[hashAnnotation] = names.Hash(spec)
	on.SetAnnotations(annotations)
	on.SetManagedFields(nil)
	*spec = none
}
