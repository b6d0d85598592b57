package definition

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// AddToScheme registers the types of the API in the server's scheme, Tenants in the core
// group too. All versions are one Go type, so that there is nothing to convert.
func AddToScheme(scheme *runtime.Scheme) {
	scheme.AddKnownTypes(schema.GroupVersion{Version: "v1"}, &v1alpha1.Tenant{}, &v1alpha1.TenantList{})
	scheme.AddKnownTypes(schema.GroupVersion{Version: runtime.APIVersionInternal}, &v1alpha1.Tenant{}, &v1alpha1.TenantList{})
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	scheme.AddKnownTypes(schema.GroupVersion{Group: v1alpha1.GroupVersion.Group, Version: runtime.APIVersionInternal},
		&v1alpha1.Tenant{}, &v1alpha1.TenantList{}, &v1alpha1.TenantAccessPolicy{}, &v1alpha1.TenantAccessPolicyList{},
		&v1alpha1.PublishedObject{}, &v1alpha1.PublishedObjectList{}, &v1alpha1.KeystoneSync{}, &v1alpha1.KeystoneSyncList{},
		&v1alpha1.User{}, &v1alpha1.UserList{})
	utilruntime.Must(scheme.SetVersionPriority(v1alpha1.GroupVersion))
}
