package user

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/pkg/apis/rbac"

	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/internal/tenant"
)

// stamp is what a namespace says of who has created it; both are empty on one of the
// platform's.
type stamp struct{ creator, createdBy string }

// Prepare sets who has created a namespace of a space, and keeps what was set; see
// storage.Preparation. That is below everything that changes an object: clients by any
// subresource and patch, webhooks, policies and controllers.
func (i *Index) Prepare(ctx context.Context, n tenant.Name, before runtime.Object) func(after runtime.Object) error {
	var is stamp
	var err error
	switch {
	case !n.IsSpace():
		return func(runtime.Object) error { return nil }
	case before == nil:
		is, err = i.stampOf(ctx, n)
	default:
		var was interface {
			GetAnnotations() map[string]string
			GetLabels() map[string]string
		}
		if was, err = meta.Accessor(before); err == nil {
			is = stamp{was.GetAnnotations()[tenant.CreatorAnnotation], was.GetLabels()[tenant.CreatedByLabel]}
		}
	}
	return func(after runtime.Object) error {
		if err != nil {
			return err
		}
		accessor, err := meta.Accessor(after)
		if err != nil {
			return err
		}
		accessor.SetAnnotations(objects.WithKey(accessor.GetAnnotations(), tenant.CreatorAnnotation, is.creator))
		accessor.SetLabels(objects.WithKey(accessor.GetLabels(), tenant.CreatedByLabel, is.createdBy))
		return nil
	}
}

// PrepareBinding refuses to give rights in a namespace to a User that is being deleted: its user could do so faster
// than the controller takes them away. See storage.Preparation.
func (i *Index) PrepareBinding(ctx context.Context, n tenant.Name, before runtime.Object) func(after runtime.Object) error {
	var was []rbac.Subject
	if binding, ok := before.(*rbac.RoleBinding); ok {
		was = slices.Clone(binding.Subjects)
	}
	return func(after runtime.Object) error {
		is, ok := after.(*rbac.RoleBinding)
		if !n.IsSpace() || !ok {
			return nil
		}
		by := ""
		if u, ok := request.UserFrom(ctx); ok {
			by = u.GetName()
		}
		for _, s := range is.Subjects {
			if s.Kind == rbac.UserKind && i.isEnding(n, s.Name, s.Name == by) && !slices.Contains(was, s) {
				return apierrors.NewForbidden(rbac.Resource("rolebindings"), is.Name,
					fmt.Errorf("the User of %q is being deleted, or was a moment ago; bind it when that is done", s.Name))
			}
		}
		return nil
	}
}

// stampOf returns the stamp of what the user of ctx creates in the space of n. The stamp
// of a system user is empty: a tenant must not learn which administrator acted.
func (i *Index) stampOf(ctx context.Context, n tenant.Name) (stamp, error) {
	of, err := tenant.UserTenant(ctx)
	if err != nil || of == tenant.System {
		return stamp{}, err
	}
	u, ok := request.UserFrom(ctx)
	if !ok {
		return stamp{}, tenant.ErrNoTenant
	}
	if err := i.seen.Await(ctx); err != nil {
		return stamp{}, err
	}
	creator, err := json.Marshal(tenant.Creator{Tenant: of, Name: u.GetName(), UID: u.GetUID()})
	is := stamp{creator: string(creator)}
	if of == n {
		found, _ := i.Find(n, u.GetName())
		is.createdBy = string(found.UID)
	}
	return is, err
}
