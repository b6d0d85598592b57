package tenant

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// Resource is the resource of this package.
var Resource = v1alpha1.GroupVersion.WithResource("tenants").GroupResource()

// AddToScheme registers Tenants in the server's scheme, in both groups. All
// versions are one Go type, so that there is nothing to convert.
func AddToScheme(scheme *runtime.Scheme) {
	for _, gv := range []schema.GroupVersion{
		{Version: "v1"}, {Version: runtime.APIVersionInternal},
		v1alpha1.GroupVersion, {Group: v1alpha1.GroupVersion.Group, Version: runtime.APIVersionInternal},
	} {
		scheme.AddKnownTypes(gv, &v1alpha1.Tenant{}, &v1alpha1.TenantList{})
	}
	metav1.AddToGroupVersion(scheme, v1alpha1.GroupVersion)
	utilruntime.Must(scheme.SetVersionPriority(v1alpha1.GroupVersion))
}
