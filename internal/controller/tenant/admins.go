package tenant

import (
	"context"
	"fmt"
	"slices"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/conditions"
	"github.com/tenantry/tenantry/internal/controller/flattened"
	"github.com/tenantry/tenantry/internal/tenant"
)

// ensureAdmins binds spec.admins to cluster-admin in the space.
func (r *Reconciler) ensureAdmins(ctx context.Context, t *v1alpha1.Tenant) (outcome, error) {
	n := tenant.Name(t.Name)
	desired := adminBinding(t.Spec.Admins)
	observed := &rbacv1.ClusterRoleBinding{}
	found, err := flattened.Get(ctx, r.Children, types.NamespacedName{Name: tenant.Flatten(n, adminBindingName).String()}, observed)
	if err != nil {
		return outcome{}, err
	}
	if found && observed.RoleRef == desired.RoleRef && apiequality.Semantic.DeepEqual(observed.Subjects, desired.Subjects) {
		return outcome{}, nil
	}
	return outcome{}, wrap(r.Spaces.Apply(ctx, n, desired), "applying clusterrolebinding %q", adminBindingName)
}

const (
	// minWait and maxWait bound the time between two questions about rights that
	// the server has yet to see.
	minWait = 20 * time.Millisecond
	maxWait = time.Minute
)

// verifyAdmins waits until the server grants the administrators their rights. It
// decides by a cache that may lag behind the binding. Once a Tenant is ready, it
// has seen it.
func (r *Reconciler) verifyAdmins(ctx context.Context, t *v1alpha1.Tenant) (outcome, error) {
	if t.Status.ObservedGeneration == t.Generation && meta.IsStatusConditionTrue(t.Status.Conditions, v1alpha1.ConditionReady) {
		return outcome{}, nil
	}
	for _, subject := range adminBinding(t.Spec.Admins).Subjects {
		allowed, err := r.isAdmin(ctx, tenant.Name(t.Name), subject)
		if err != nil {
			return outcome{}, fmt.Errorf("reviewing the rights of %s %q: %w", subject.Kind, subject.Name, err)
		}
		if !allowed {
			return outcome{waiting: fmt.Sprintf("the rights of %s %q", subject.Kind, subject.Name), again: waitLonger(t)}, nil
		}
	}
	return outcome{}, nil
}

// waitLonger returns how long to wait now: as long as t was waited for already.
func waitLonger(t *v1alpha1.Tenant) time.Duration {
	return min(max(minWait, conditions.Waited(t.Status.Conditions, v1alpha1.ConditionReady)), maxWait)
}

// isAdmin asks the server whether a user or group has every right in the space of n.
func (r *Reconciler) isAdmin(ctx context.Context, n tenant.Name, subject rbacv1.Subject) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "*", Group: "*", Resource: "*"},
	}}
	if subject.Kind == rbacv1.GroupKind {
		review.Spec.Groups = []string{subject.Name}
	} else {
		review.Spec.User = subject.Name
	}
	err := r.Spaces.In(n.Scope()).Create(ctx, review)
	return review.Status.Allowed, err
}

func adminBinding(admins []v1alpha1.Subject) *rbacv1.ClusterRoleBinding {
	if len(admins) == 0 {
		admins = []v1alpha1.Subject{{Kind: v1alpha1.SubjectUser, Name: "admin"}}
	}
	binding := &rbacv1.ClusterRoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: adminBindingName},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}
	for _, admin := range admins {
		subject := rbacv1.Subject{Kind: string(admin.Kind), APIGroup: rbacv1.GroupName, Name: admin.Name}
		if !slices.Contains(binding.Subjects, subject) {
			binding.Subjects = append(binding.Subjects, subject)
		}
	}
	return binding
}

func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}
