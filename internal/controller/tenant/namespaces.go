package tenant

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

// ensureNamespacesAndAdmins creates what does not depend on anything else, all
// at once: a Tenant is ready as fast as its slowest chain of requests.
func (r *Reconciler) ensureNamespacesAndAdmins(ctx context.Context, t *v1alpha1.Tenant) (outcome, error) {
	group, groupCtx := errgroup.WithContext(ctx)
	for _, name := range spaceNamespaces {
		group.Go(func() error { return r.ensureNamespace(groupCtx, tenant.Name(t.Name), name) })
	}
	group.Go(func() error { return r.ensureAdmins(groupCtx, t) })
	return outcome{}, group.Wait()
}

func (r *Reconciler) ensureNamespace(ctx context.Context, n tenant.Name, name string) error {
	found, err := r.observe(ctx, &corev1.Namespace{}, types.NamespacedName{Name: tenant.Flatten(n, name)})
	if err != nil || found {
		return err
	}
	if err := r.Spaces.CreateNamespace(ctx, n, name); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating namespace %q: %w", name, err)
	}
	return nil
}

// observe reads a child from the cache.
func (r *Reconciler) observe(ctx context.Context, child client.Object, key types.NamespacedName) (bool, error) {
	switch err := r.Children.Get(ctx, key, child); {
	case err == nil:
		return true, nil
	case apierrors.IsNotFound(err):
		return false, nil
	default:
		return false, err
	}
}

// ensureAdmins binds spec.admins to cluster-admin in the space.
func (r *Reconciler) ensureAdmins(ctx context.Context, t *v1alpha1.Tenant) error {
	n := tenant.Name(t.Name)
	desired := adminBinding(t.Spec.Admins)
	observed := &rbacv1.ClusterRoleBinding{}
	found, err := r.observe(ctx, observed, types.NamespacedName{Name: tenant.Flatten(n, AdminBinding)})
	if err != nil {
		return err
	}
	if found && observed.RoleRef == desired.RoleRef && apiequality.Semantic.DeepEqual(observed.Subjects, desired.Subjects) {
		return nil
	}
	if found {
		if err := r.Spaces.DeleteBinding(ctx, n, observed); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("replacing clusterrolebinding %q: %w", AdminBinding, err)
		}
	}
	if err := r.Spaces.CreateBinding(ctx, n, desired); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating clusterrolebinding %q: %w", AdminBinding, err)
	}
	return nil
}

func adminBinding(admins []v1alpha1.Subject) *rbacv1.ClusterRoleBinding {
	if len(admins) == 0 {
		admins = []v1alpha1.Subject{{Kind: v1alpha1.SubjectUser, Name: "admin"}}
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: AdminBinding},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}
	for _, admin := range slices.Compact(slices.Clone(admins)) {
		binding.Subjects = append(binding.Subjects, rbacv1.Subject{
			Kind: string(admin.Kind), APIGroup: rbacv1.GroupName, Name: admin.Name,
		})
	}
	return binding
}
