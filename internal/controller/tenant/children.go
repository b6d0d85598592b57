package tenant

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/flattened"
	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// adminBindingName is that of the ClusterRoleBinding of the tenant's administrators.
	adminBindingName = "tenantry:admins"

	serviceAccountName = "default"
)

// childrenCache is a cache of what the controller keeps in all spaces.
type childrenCache struct{ cache.Cache }

// newChildrenCache returns a cache of what the controller keeps in all spaces.
func newChildrenCache(config *rest.Config) (*childrenCache, error) {
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	names, err := labels.NewRequirement(corev1.LabelMetadataName, "in", tenant.Namespaces)
	if err != nil {
		return nil, err
	}
	inDefault := func(name string) fields.Selector {
		return fields.Set{"metadata.namespace": metav1.NamespaceDefault, "metadata.name": name}.AsSelector()
	}
	children, err := flattened.NewCache(config, clientgoscheme.Scheme, flattened.Slim, flattened.Selected{
		&corev1.Namespace{}:          {Label: labels.NewSelector().Add(*names)},
		&rbacv1.ClusterRoleBinding{}: {Field: fields.OneTermEqualSelector("metadata.name", adminBindingName)},
		&corev1.ServiceAccount{}:     {Field: inDefault(serviceAccountName)},
		&corev1.ResourceQuota{}:      {Field: inDefault(v1alpha1.TenantQuota)},
	})
	return &childrenCache{children}, err
}

// tenantOf maps a child to its Tenant.
func tenantOf(child client.Object) string { return string(flattened.Space(child)) }
