package quota

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

var quotaResource = corev1.Resource("resourcequotas")

func isQuotaName(namespace, name string) bool {
	return namespace == metav1.NamespaceDefault && name == v1alpha1.TenantQuota
}

// IsTenantQuota reports whether a quota, in the flattened view, is that of a tenant.
func IsTenantQuota(q *corev1.ResourceQuota) bool {
	n, namespace := tenant.Flat(q.Namespace).Split()
	return n.IsSpace() && isQuotaName(namespace, q.Name)
}

// Concerns reports whether a request is about the quota of its tenant. What belongs
// to the tenant, such as its webhooks, has no say in it.
func Concerns(a admission.Attributes) bool {
	resource := a.GetResource().GroupResource()
	return isTenantQuota(resource, a.GetObject()) || isTenantQuota(resource, a.GetOldObject())
}

var errProtected = errors.New("it is the quota of the tenant as a whole, which nobody in the space can create, change or delete; " +
	"a system administrator sets it in spec.quota of the Tenant")

// Protect keeps the quotas of tenants to the platform: whoever is not of the system
// tenant changes nothing about them. It decides where objects are written, so that
// no subresource, patch, finalizer or collection gets around it.
func Protect(ctx context.Context, n tenant.Name, resource schema.GroupResource, before runtime.Object) func(after runtime.Object) error {
	return func(after runtime.Object) error {
		if !n.IsSpace() || !isTenantQuota(resource, before) && !isTenantQuota(resource, after) {
			return nil
		}
		if tenant.ByPlatform(ctx) {
			return nil
		}
		return apierrors.NewForbidden(quotaResource, v1alpha1.TenantQuota, errProtected)
	}
}
