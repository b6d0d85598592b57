package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of this package.
var GroupVersion = schema.GroupVersion{Group: "tenantry.io", Version: "v1alpha1"}

// AddToScheme adds the types of this package to a client's scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Tenant{}, &TenantList{}, &TenantAccessPolicy{}, &TenantAccessPolicyList{},
		&PublishedObject{}, &PublishedObjectList{}, &KeystoneSync{}, &KeystoneSyncList{}, &User{}, &UserList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// AddHostToScheme adds the types that are in host clusters alone. The server knows nothing
// of them.
func AddHostToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &ControlPlane{}, &ControlPlaneList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
