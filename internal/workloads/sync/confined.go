package sync

import (
	"context"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/kubernetes"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

const (
	// hostNamespaceOfOurs is the namespace of the host in which the ServiceAccounts and the Lease are.
	hostNamespaceOfOurs = names.Platform
	// guardPolicy is the ValidatingAdmissionPolicy that keeps the ServiceAccounts to the namespaces of spaces.
	guardPolicy = "tenantry-workloads"
	// notOurs is the name of a namespace that the policy does not let the syncer make.
	notOurs = "tenantry-workloads-probe"
)

// subjectOf returns the ServiceAccount that a client of the host acts as.
func subjectOf(ctx context.Context, host kubernetes.Interface) ([]rbacv1.Subject, error) {
	review, err := host.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("asking the host cluster who --host-kubeconfig is: %w", err)
	}
	name := review.Status.UserInfo.Username
	namespace, account, err := serviceaccount.SplitUsername(name)
	if err != nil || namespace != hostNamespaceOfOurs {
		return nil, fmt.Errorf("--host-kubeconfig is user %q of the host cluster, and must be a ServiceAccount in the namespace %s, whose rights and policy config/workloads has: apply that, "+
			"and make a kubeconfig for its ServiceAccount syncer", name, hostNamespaceOfOurs)
	}
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}}, nil
}

// confined returns an error if the host lets its client make a namespace that is not of spaces: then the policy
// that keeps it to those is missing, or has no effect. Nothing is made.
func confined(ctx context.Context, host kubernetes.Interface) error {
	_, err := host.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: notOurs}},
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case err == nil:
		return fmt.Errorf("the ValidatingAdmissionPolicy %s of the host cluster is missing, or does not hold for --host-kubeconfig, which could make any namespace there: apply config/workloads", guardPolicy)
	case apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
		if strings.Contains(err.Error(), "'"+guardPolicy+"'") {
			return nil
		}
		return fmt.Errorf("it cannot be seen whether the ValidatingAdmissionPolicy %s of the host cluster holds for --host-kubeconfig: apply config/workloads: %w", guardPolicy, err)
	default:
		return fmt.Errorf("looking whether the host cluster has the policy %s: %w", guardPolicy, err)
	}
}
