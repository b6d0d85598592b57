package tenant

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/flattened"
	"github.com/tenantry/tenantry/internal/tenant"
)

// ensureNamespace keeps a namespace that every space has.
func (r *Reconciler) ensureNamespace(name string) step {
	return func(ctx context.Context, t *v1alpha1.Tenant) (outcome, error) {
		n := tenant.Name(t.Name)
		observed := &corev1.Namespace{}
		found, err := flattened.Get(ctx, r.Children, types.NamespacedName{Name: tenant.Flatten(n, name).String()}, observed)
		switch {
		case err != nil:
			return outcome{}, err
		case found && observed.DeletionTimestamp != nil:
			return outcome{waiting: fmt.Sprintf("the deletion of namespace %q, after which it is created anew", name)}, nil
		case found:
			return outcome{}, nil
		}
		err = r.Spaces.In(n.Scope()).Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		return outcome{}, wrap(client.IgnoreAlreadyExists(err), "creating namespace %q", name)
	}
}

// ensureServiceAccount creates the account that pods in the namespace "default"
// run as. Upstream's controller would do so too, as it does in every other
// namespace, but in its own time, and without the account no pod is admitted.
func (r *Reconciler) ensureServiceAccount(ctx context.Context, t *v1alpha1.Tenant) (outcome, error) {
	n := tenant.Name(t.Name)
	key := types.NamespacedName{Namespace: tenant.Flatten(n, metav1.NamespaceDefault).String(), Name: serviceAccountName}
	found, err := flattened.Get(ctx, r.Children, key, &corev1.ServiceAccount{})
	if err != nil || found {
		return outcome{}, err
	}
	err = r.Spaces.In(n.Scope()).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: serviceAccountName}})
	return outcome{}, wrap(client.IgnoreAlreadyExists(err), "creating service account %q", serviceAccountName)
}
