package user

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/flattened"
	"github.com/tenantry/tenantry/internal/tenant"
)

// clear deletes what has been made for a User that is gone. Its namespaces have been decided
// about.
func (r *Reconciler) clear(ctx context.Context, k key) error {
	var made []client.Object
	for _, list := range []client.ObjectList{&rbacv1.ClusterRoleBindingList{}, &rbacv1.RoleBindingList{}, &rbacv1.RoleList{}} {
		if err := r.list(ctx, k, list); err != nil {
			return err
		}
		objects, err := meta.ExtractList(list)
		if err != nil {
			return err
		}
		for _, o := range objects {
			made = append(made, o.(client.Object))
		}
	}
	for _, o := range made {
		o.SetName(tenant.Flat(o.GetName()).Plain())
		o.SetNamespace(tenant.Flat(o.GetNamespace()).Plain())
		if err := r.spaces.Delete(ctx, k.tenant, o); err != nil {
			return fmt.Errorf("deleting %T %q: %w", o, o.GetName(), err)
		}
	}
	return nil
}

// end takes the rights of a User that is being deleted away and lets it go, some namespaces at
// a time. By their names: the cache may not know yet what was made a moment ago.
func (r *Reconciler) end(ctx context.Context, k key, u *v1alpha1.User, i item) (*item, error) {
	if !slices.Contains(u.Finalizers, v1alpha1.UserFinalizer) {
		return nil, nil
	}
	binding := creatorBinding(u)
	// It may have a finalizer, with which it would hold after its deletion.
	if err := r.spaces.Patch(ctx, k.tenant, binding, "", map[string]any{"subjects": []rbacv1.Subject{}}); err != nil {
		return nil, fmt.Errorf("emptying ClusterRoleBinding %q: %w", binding.Name, err)
	}
	if err := r.spaces.Delete(ctx, k.tenant, binding); err != nil {
		return nil, fmt.Errorf("deleting ClusterRoleBinding %q: %w", binding.Name, err)
	}
	namespaces, err := r.namespaces(ctx, k)
	if err != nil {
		return nil, err
	}
	namespaces = slices.DeleteFunc(namespaces, func(ns corev1.Namespace) bool {
		return tenant.Flat(ns.Name).Plain() <= i.after
	})
	if again := r.endOwners(ctx, k, u, namespaces[:min(len(namespaces), perTurn)], &i); again || len(namespaces) > perTurn {
		return &i, nil
	}
	if i.failed {
		return nil, fmt.Errorf("not all rights of user %q in its namespaces could be taken away: the log says why; it has none there until they are", userNamed(u).Name)
	}
	left := slices.DeleteFunc(slices.Clone(u.Finalizers), func(f string) bool { return f == v1alpha1.UserFinalizer })
	err = r.spaces.Patch(ctx, k.tenant, userNamed(u), "", map[string]any{"metadata": map[string]any{
		"uid": u.UID, "resourceVersion": u.ResourceVersion, "finalizers": left,
	}})
	switch {
	case apierrors.IsConflict(err):
		return &i, nil // the cache does not know yet what has been written
	case err != nil:
		return nil, fmt.Errorf("finalizing user %q: %w", userNamed(u).Name, err)
	default:
		return nil, nil
	}
}

// endOwners is endOwner for namespaces, notes in i how far it came, and reports whether one of them needs another turn.
// What fails in one does not keep the rights in others.
func (r *Reconciler) endOwners(ctx context.Context, k key, u *v1alpha1.User, namespaces []corev1.Namespace, i *item) (again bool) {
	results := make([]error, len(namespaces))
	// A list may wait for the server's cache. What is not done because ctx has ended is to have an error.
	workqueue.ParallelizeUntil(context.WithoutCancel(ctx), namespacesAtOnce, len(namespaces), func(at int) {
		results[at] = r.endOwner(ctx, k, u, &namespaces[at])
	})
	for at, err := range results {
		if errors.Is(err, errLater) {
			return true
		}
		if err != nil {
			log.FromContext(ctx).Error(err, "Ending the rights of a user", "tenant", k.tenant, "user", userNamed(u).Name)
			i.failed = true
		}
		i.after = tenant.Flat(namespaces[at].Name).Plain()
	}
	return false
}

// endLate is endOwner for a namespace of which something has changed. Most often that was done by
// end, and nothing is left.
func (r *Reconciler) endLate(ctx context.Context, k key, u *v1alpha1.User, namespace string) error {
	ns, err := r.namespace(ctx, k, namespace)
	if err != nil || ns == nil {
		return err
	}
	bound, err := flattened.Get(ctx, r.Children, types.NamespacedName{Namespace: ns.Name, Name: ownerName}, &rbacv1.RoleBinding{})
	if err != nil || !bound && u.Spec.NamespacePolicy != v1alpha1.UserNamespacesDelete {
		return err
	}
	return r.endOwner(ctx, k, u, ns)
}

// endOwner takes the rights of a User in a namespace away and does with it what the User says.
func (r *Reconciler) endOwner(ctx context.Context, k key, u *v1alpha1.User, ns *corev1.Namespace) error {
	name := tenant.Flat(ns.Name).Plain()
	if err := r.unbind(ctx, k, u, name); err != nil {
		return fmt.Errorf("ending the rights in namespace %q: %w", name, err)
	}
	made := []client.Object{ownerBinding(u, name), ownerRole(u, name)}
	if u.Spec.NamespacePolicy == v1alpha1.UserNamespacesDelete && ns.DeletionTimestamp == nil {
		made = append(made, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: ns.UID}})
	}
	for _, o := range made {
		if err := r.spaces.Delete(ctx, k.tenant, o); err != nil {
			return fmt.Errorf("deleting %T %q of namespace %q: %w", o, o.GetName(), name, err)
		}
	}
	return nil
}

// unbind takes a User out of all RoleBindings of a namespace: with every right there, its user may
// have made others, or have given ours a finalizer, with which it would hold after its deletion.
// It looks again for what was made meanwhile.
func (r *Reconciler) unbind(ctx context.Context, k key, u *v1alpha1.User, namespace string) error {
	for range maxUnbindRounds {
		found, err := r.unbindAll(ctx, k, u, namespace)
		if err != nil || !found {
			return err
		}
	}
	return fmt.Errorf("user %q is bound again and again", u.Spec.Username)
}

// unbindAll takes a User out of all RoleBindings that are there, and reports whether it was in any.
func (r *Reconciler) unbindAll(ctx context.Context, k key, u *v1alpha1.User, namespace string) (found bool, _ error) {
	names := func(s rbacv1.Subject) bool { return s.Kind == rbacv1.UserKind && s.Name == u.Spec.Username }
	var began time.Time
	page := ""
	for {
		bindings, next, err := r.spaces.RoleBindings(ctx, k.tenant, namespace, page)
		if err != nil {
			return found, err
		}
		group, groupCtx := errgroup.WithContext(ctx)
		group.SetLimit(patchesAtOnce)
		for _, b := range bindings {
			switch named := slices.ContainsFunc(b.Subjects, names); {
			case !named:
				continue
			case !found:
				found, began = true, time.Now() // however long it took to find it
			case time.Since(began) >= turnTime:
				continue
			}
			group.Go(func() error {
				err := r.spaces.Patch(groupCtx, k.tenant, &b, "", map[string]any{
					"metadata": map[string]any{"uid": b.UID, "resourceVersion": b.ResourceVersion},
					"subjects": slices.DeleteFunc(b.Subjects, names),
				})
				if apierrors.IsConflict(err) { // it is looked at again
					return nil
				}
				return err
			})
		}
		switch err := group.Wait(); {
		case err != nil:
			return found, err
		case found && time.Since(began) >= turnTime:
			return found, errLater
		case next == "":
			return found, nil
		}
		page = next
	}
}
