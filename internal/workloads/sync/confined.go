package sync

import (
	"context"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/kubernetes"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

const (
	// guardPolicy is the ValidatingAdmissionPolicy that keeps the ServiceAccounts to the namespaces of spaces.
	guardPolicy = "tenantry-workloads"
	// notOurs is the name of a namespace that the policy does not let the syncer make.
	notOurs = "tenantry-workloads-probe"
)

// accountOf returns the ServiceAccount that a client of the host acts as, and whose it is.
func accountOf(ctx context.Context, host kubernetes.Interface) (names.Owner, []rbacv1.Subject, error) {
	review, err := host.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if apierrors.IsUnauthorized(err) {
		return names.Owner{}, nil, fmt.Errorf("the host cluster does not take the credentials for it (%w): the token has expired or was revoked, or is another cluster's: make a kubeconfig with a new one", err)
	}
	if err != nil {
		return names.Owner{}, nil, fmt.Errorf("asking the host cluster whose the credentials for it are: %w", err)
	}
	name := review.Status.UserInfo.Username
	namespace, account, err := serviceaccount.SplitUsername(name)
	owner, known := names.OwnerOf(namespace, account)
	if err != nil || !known {
		return names.Owner{}, nil, fmt.Errorf("the credentials for the host cluster are those of user %q, and must be of a ServiceAccount in the namespace %s, "+
			"whose rights and policy config/workloads has: apply that, and make a kubeconfig for its ServiceAccount syncer", name, names.Platform)
	}
	return owner, []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}}, nil
}

// allowed returns an error if the ServiceAccount of a ControlPlane has not been given its rights: the operator that has
// made it gives none, so that nobody runs pods of spaces on the host because they may write ControlPlanes.
func allowed(ctx context.Context, host kubernetes.Interface, owner names.Owner, installation string) error {
	if owner.ControlPlane == "" {
		return nil // config/workloads has the bindings
	}
	lease, leaseName := owner.Lease(installation)
	for _, attributes := range []authorizationv1.ResourceAttributes{
		{Verb: "create", Resource: "namespaces"},
		{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: lease, Name: leaseName},
	} {
		review, err := host.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
			&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &attributes}}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("asking the host cluster what its ServiceAccount %s/%s may: %w", owner.Namespace, owner.Syncer(), err)
		}
		if !review.Status.Allowed {
			return fmt.Errorf("the ServiceAccount %[2]s of the namespace %[1]s may not run pods of spaces on this cluster (%[4]s %[5]s). Whoever administers it allows that, if it is to be, by: "+
				"kubectl apply -k config/workloads && "+
				"kubectl create clusterrolebinding %[6]s.%[1]s.%[3]s --clusterrole %[6]s-syncer --serviceaccount %[1]s:%[2]s && "+
				"kubectl -n %[1]s create rolebinding %[2]s --clusterrole %[6]s-election --serviceaccount %[1]s:%[2]s",
				owner.Namespace, owner.Syncer(), owner.ControlPlane, attributes.Verb, attributes.Resource, names.Platform)
		}
	}
	return nil
}

// confined returns an error if the host lets its client make a namespace that is not of spaces: then the policy
// that keeps it to those is missing, or has no effect. Nothing is made.
func confined(ctx context.Context, host kubernetes.Interface) error {
	_, err := host.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: notOurs}},
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case err == nil:
		return fmt.Errorf("the ValidatingAdmissionPolicy %s of the host cluster is missing, or does not hold for the credentials of the syncer, "+
			"by which any namespace could be made there: kubectl apply -k config/workloads", guardPolicy)
	case apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
		if strings.Contains(err.Error(), "'"+guardPolicy+"'") {
			return nil
		}
		return fmt.Errorf("it cannot be seen whether the ValidatingAdmissionPolicy %s of the host cluster holds for the credentials of the syncer: make a kubeconfig for its ServiceAccount syncer if they are another's, "+
			"and else kubectl apply -k config/workloads: %w", guardPolicy, err)
	default:
		return fmt.Errorf("looking whether the host cluster has the policy %s: %w", guardPolicy, err)
	}
}
