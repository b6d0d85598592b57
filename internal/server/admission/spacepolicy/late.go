package spacepolicy

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Namespaces returns a namespace of the flattened view.
//
// A request is authorized for a namespace before its body is read and webhooks are called. If the body comes slowly, or
// a webhook delays the request, the namespace may be deleted and created again by somebody else. The request would then
// act in a namespace for which it was not authorized: bind a user, or get a token of its service accounts. So it is
// checked that the namespace is still the one that filters.WithNamespace has noted: when a request is admitted, because
// tokens and dry runs are answered without being stored, and when something is stored.
type Namespaces func(name tenant.Flat) (*corev1.Namespace, error)

// authorized is a request about a namespace.
type authorized struct {
	// uid is that of the namespace, empty if there was none.
	uid       types.UID
	namespace tenant.Flat
	resource  schema.GroupResource
	name      string
	// creates is whether the request creates an object.
	creates bool
}

// check refuses a request in admission.
func (get Namespaces) check(ctx context.Context, a admission.Attributes, n tenant.Name) error {
	uid, noted := tenant.RequestFrom(ctx).Namespace()
	if !noted || get == nil || a.GetNamespace() == "" {
		return nil
	}
	return get.refuse(authorized{uid, tenant.Flatten(n, a.GetNamespace()), a.GetResource().GroupResource(), a.GetName(), false})
}

// Protect is a storage.Protection: it refuses what is stored.
func (get Namespaces) Protect(ctx context.Context, n tenant.Name, resource schema.GroupResource, before runtime.Object) func(runtime.Object) error {
	return func(after runtime.Object) error {
		uid, noted := tenant.RequestFrom(ctx).Namespace()
		if !noted {
			return nil
		}
		creates, changed := before == nil, before
		if creates {
			changed = after
		}
		o, err := meta.Accessor(changed)
		namespace := ""
		switch {
		case err != nil:
			return err
		case o.GetNamespace() != "":
			namespace = o.GetNamespace()
		case resource == corev1.Resource("namespaces") && !creates:
			namespace = o.GetName()
		default:
			return nil
		}
		return get.refuse(authorized{uid, tenant.Flatten(n, namespace), resource, o.GetName(), creates})
	}
}

// refuse returns an error if the namespace is not the one any more that the request is about.
func (get Namespaces) refuse(r authorized) error {
	ns, err := get(r.namespace)
	switch {
	case apierrors.IsNotFound(err) && r.creates:
		return apierrors.NewNotFound(corev1.Resource("namespaces"), r.namespace.Plain())
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return apierrors.NewInternalError(err)
	case ns.UID != r.uid:
		return apierrors.NewConflict(r.resource, r.name,
			errors.New("the namespace was created, perhaps again, while the request was under way; try again if the new one is meant"))
	case r.creates && ns.DeletionTimestamp != nil:
		refused := apierrors.NewForbidden(r.resource, r.name,
			errors.New("unable to create new content in namespace "+r.namespace.Plain()+" because it is being terminated"))
		refused.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause, Field: "metadata.namespace"}}
		return refused
	default:
		return nil
	}
}
