package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TenantStatus is what has been observed of a tenant.
type TenantStatus struct {
	// observedGeneration is the generation of the spec that the conditions are about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions of the tenant: Ready, Deleting. On a host cluster also Mirrored and
	// KubeconfigReady.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +patchMergeKey=type
	// +patchStrategy=merge
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
	// credentialsNotBefore is set if there was a tenant of this name before, to the
	// time at which this one was made: credentials of the tenant's users that were
	// issued earlier are those of the other one, and refused.
	// +optional
	CredentialsNotBefore *metav1.Time `json:"credentialsNotBefore,omitempty"`
	// keystone is the domain of OpenStack whose tokens enter the space.
	// +optional
	Keystone *TenantKeystone `json:"keystone,omitempty"`
	// quota is what the tenant may use and what it uses.
	// +optional
	Quota *TenantQuotaStatus `json:"quota,omitempty"`
	// usage is what the tenant has stored and asked. It is written about once a
	// minute while there is something new to say.
	// +optional
	Usage *TenantUsage `json:"usage,omitempty"`
	// deletion counts what a deletion has found and what is left of it.
	// +optional
	Deletion *TenantDeletion `json:"deletion,omitempty"`
	// controlPlaneRef is, on a host cluster, the ControlPlane that the tenant has its space
	// in. Once it is set it stays.
	// +optional
	ControlPlaneRef *ControlPlaneReference `json:"controlPlaneRef,omitempty"`
}

// TenantKeystone names a domain of OpenStack. Tokens with a scope in it, of the domain or of
// one of its projects, are those of users of the tenant. Tokens of a domain that two
// Tenants name enter neither.
type TenantKeystone struct {
	// keystone is the name of the Keystone, as the server's KeystoneConfiguration has it.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Keystone string `json:"keystone"`
	// domainID is the id of the domain, which does not change as its name may.
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_.@-]{1,64}$`
	DomainID string `json:"domainID"`
}

// TenantQuotaStatus is how much of its quota a tenant uses.
type TenantQuotaStatus struct {
	// hard is the limits in force.
	// +optional
	Hard corev1.ResourceList `json:"hard,omitempty"`
	// used is what the tenant uses of each.
	// +optional
	Used corev1.ResourceList `json:"used,omitempty"`
}

// TenantUsage is what a tenant has stored and asked.
type TenantUsage struct {
	// objects is the number of objects stored in the space, events left out.
	Objects int64 `json:"objects"`
	// storedBytes is what these objects take in etcd, counted as
	// tenantry.io/stored-bytes of a quota is.
	StoredBytes int64 `json:"storedBytes"`
	// requests is the number of requests that the tenant's users have made of all
	// servers, those refused included. What a server was asked in its last minute is
	// lost when it ends.
	Requests int64 `json:"requests"`
	// observedTime is when this was found.
	ObservedTime metav1.Time `json:"observedTime"`
}

// TenantDeletion is how far the deletion of a space has come.
type TenantDeletion struct {
	// keys is the number of keys that the space had in etcd when its deletion began.
	Keys int64 `json:"keys"`
	// left is the number of keys that etcd held when it was last counted.
	Left int64 `json:"left"`
}
