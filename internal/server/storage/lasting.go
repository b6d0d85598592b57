package storage

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/tenant"
)

// slowRequest is after what time a request is looked at again. A namespace is there for five seconds after
// its deletion, at least.
const slowRequest = time.Second

// NamespaceGetter returns a namespace of the flattened view.
type NamespaceGetter func(name tenant.Flat) (*corev1.Namespace, error)

// ProtectNamespaces returns a protection that refuses a change in a namespace that is not the one any more for which the
// request was authorized and admitted. That was before webhooks, which may have held the request until the namespace was
// gone, and somebody else has created one of its name: RoleBindings would give rights in that.
func ProtectNamespaces(get NamespaceGetter) Protection {
	return func(ctx context.Context, n tenant.Name, resource schema.GroupResource, before runtime.Object) func(runtime.Object) error {
		return func(after runtime.Object) error {
			received, ok := request.ReceivedTimestampFrom(ctx)
			if !ok || time.Since(received) < slowRequest {
				return nil
			}
			o, isNew, err := changed(before, after)
			if err != nil || o.GetNamespace() == "" {
				return err
			}
			return checkNamespace(get, tenant.Flatten(n, o.GetNamespace()), received, isNew, resource, o)
		}
	}
}

// changed returns the object that is changed, and whether it is new.
func changed(before, after runtime.Object) (_ metav1.Object, isNew bool, _ error) {
	if before == nil {
		o, err := meta.Accessor(after)
		return o, true, err
	}
	o, err := meta.Accessor(before)
	if err == nil && o.GetResourceVersion() == "" && after != nil { // an update that creates it
		o, err = meta.Accessor(after)
		isNew = true
	}
	return o, isNew, err
}

func checkNamespace(get NamespaceGetter, name tenant.Flat, received time.Time, isNew bool, resource schema.GroupResource, o metav1.Object) error {
	ns, err := get(name)
	switch {
	case apierrors.IsNotFound(err) && isNew:
		return apierrors.NewNotFound(corev1.Resource("namespaces"), name.Plain())
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return apierrors.NewInternalError(err)
	case ns.CreationTimestamp.After(received):
		return apierrors.NewConflict(resource, o.GetName(),
			errors.New("the namespace was deleted, and created again, while the request was under way; try again if the new one is meant"))
	case isNew && ns.DeletionTimestamp != nil:
		refused := apierrors.NewForbidden(resource, o.GetName(), errors.New("unable to create new content in namespace "+name.Plain()+" because it is being terminated"))
		refused.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause, Field: "metadata.namespace"}}
		return refused
	default:
		return nil
	}
}
