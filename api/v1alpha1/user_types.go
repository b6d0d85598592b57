package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// NamespaceCreator is the ClusterRole of Users, which every space has without storing it.
	NamespaceCreator = "tenantry:namespace-creator"
	// UserFinalizer holds a User until what has been made for it is gone.
	UserFinalizer = "tenantry.io/user-rights"
)

// User lets a user of the tenant create namespaces in the space that it is in. The user has
// every right in those that it creates, and can read them by name, but not the others.
// Whoever writes one needs the verb bind on the ClusterRoles tenantry:namespace-creator
// and cluster-admin in the space.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Username",type=string,JSONPath=`.spec.username`
// +kubebuilder:printcolumn:name="Namespaces",type=integer,JSONPath=`.status.namespaces`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Policy",type=string,JSONPath=`.spec.namespacePolicy`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type User struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is who is meant.
	Spec UserSpec `json:"spec"`
	// status is what has been made of it.
	// +optional
	Status UserStatus `json:"status,omitempty"`
}

// UserNamespacePolicy is what becomes of the namespaces of a User that is deleted.
// +enum
type UserNamespacePolicy string

const (
	// UserNamespacesRetain keeps them for the administrators of the tenant.
	UserNamespacesRetain UserNamespacePolicy = "Retain"
	// UserNamespacesDelete deletes them, with all that is in them.
	UserNamespacesDelete UserNamespacePolicy = "Delete"
)

// UserSpec is who is meant.
type UserSpec struct {
	// username is the name of the user as authentication gives it, such as alice, or
	// keystone:ID for a user of Keystone. It cannot be changed, and no other User of the
	// space can have it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('system:')",message="names that begin with system: are the platform's and those of service accounts; name a person"
	// +kubebuilder:validation:XValidation:rule="self == self.trim() && !self.matches('[[:cntrl:]]') && self != 'keystone:'",message="nobody has a name with blanks around it or control characters, or of Keystone without an ID"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed; create another User"
	Username string `json:"username"`
	// namespacePolicy is what becomes of the namespaces that the user has created when the User
	// is deleted: Retain or Delete. The user's rights in them end in any case. Defaults to
	// Retain.
	// +optional
	// +kubebuilder:validation:Enum=Retain;Delete
	NamespacePolicy UserNamespacePolicy `json:"namespacePolicy,omitempty"`
}

// UserStatus is what has been made of a User.
type UserStatus struct {
	// observedGeneration is the generation of the spec that the conditions are about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// namespaces is how many there are that the user has created.
	// +optional
	Namespaces int32 `json:"namespaces"`
	// conditions of the User: Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +patchMergeKey=type
	// +patchStrategy=merge
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

// UserList is a list of Users.
//
// +kubebuilder:object:root=true
type UserList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []User `json:"items"`
}
