package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// ConditionAccepted is true when the grants of a policy are in force.
	ConditionAccepted = "Accepted"
	// ReasonAccepted is the reason of the condition.
	ReasonAccepted = "Valid"

	// AllNamespaces in a rule of a TenantAccessPolicy is every namespace of the
	// space, and what is in none.
	AllNamespaces = "*"
)

// TenantAccessPolicy lets users of other tenants into the space that it is in. What it
// grants is added to what other policies grant, ends at the edge of the space, and
// includes neither impersonation nor what gives rights to others. Whoever writes one
// must have the rights that it grants.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=tap
// +kubebuilder:printcolumn:name="Tenants",type=string,JSONPath=`.spec.subjects[*].tenant`
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type TenantAccessPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is who is let in, and to what.
	Spec TenantAccessPolicySpec `json:"spec"`
	// status is what the server has noted. It is read-only.
	// +optional
	Status TenantAccessPolicyStatus `json:"status,omitempty"`
}

// TenantAccessPolicySpec is who is let in, and to what.
type TenantAccessPolicySpec struct {
	// subjects are the users and groups of other tenants.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Subjects []ForeignSubject `json:"subjects,omitempty"`
	// rules are what each of them may do.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Rules []AccessRule `json:"rules,omitempty"`
}

// ForeignSubject is a user or a group of another tenant.
// +kubebuilder:validation:XValidation:rule="!(self.tenant in ['system', 'all'])",message="system administrators need no policy, and \"all\" is no tenant: name the tenant"
// +kubebuilder:validation:XValidation:rule="!self.name.startsWith('system:') || (self.kind == 'User' ? self.name.matches('^system:serviceaccount:[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?:[a-z0-9]([-.a-z0-9]*[a-z0-9])?$') : self.name in ['system:authenticated', 'system:serviceaccounts'] || self.name.matches('^system:serviceaccounts:[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$'))",message="names that begin with system: are the platform's, and no user of a tenant has one; service accounts are User system:serviceaccount:NAMESPACE:NAME or Group system:serviceaccounts[:NAMESPACE]"
// +kubebuilder:validation:XValidation:rule="self.name == self.name.trim() && !self.name.matches('[[:cntrl:]]')",message="a name with blanks around it or control characters is nobody's: remove them"
type ForeignSubject struct {
	// tenant of the user or group. A tenant that is created later, under the name
	// of one that is gone or has never been, is not meant.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Tenant string `json:"tenant"`
	// kind is User or Group.
	// +kubebuilder:validation:Enum=User;Group
	Kind SubjectKind `json:"kind"`
	// name of the user or group, as authentication gives it. A service account is
	// the user system:serviceaccount:NAMESPACE:NAME.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// AccessRule is what may be done with some resources, as in RBAC, in some
// namespaces.
type AccessRule struct {
	// verbs are named one by one; "*" would include impersonation and the right
	// to give rights.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:Enum=get;list;watch;create;update;patch;delete;deletecollection
	Verbs []string `json:"verbs,omitempty"`
	// apiGroups of the resources, "" for the core group and "*" for all.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	APIGroups []string `json:"apiGroups,omitempty"`
	// resources, such as pods, pods/log, */scale or * for all.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Resources []string `json:"resources,omitempty"`
	// resourceNames bound the rule to objects of these names; none is no bound.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	ResourceNames []string `json:"resourceNames,omitempty"`
	// namespaces that the rule is about. "*" is every namespace, and what is in
	// none.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:Pattern=`^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?|\*)$`
	Namespaces []string `json:"namespaces,omitempty"`
}

// TenantAccessPolicyStatus is what the server has noted about a policy.
type TenantAccessPolicyStatus struct {
	// observedGeneration is the generation of the spec that the conditions are about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions of the policy: Accepted.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +patchMergeKey=type
	// +patchStrategy=merge
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
	// grantees are the tenants of the subjects.
	// +optional
	// +listType=map
	// +listMapKey=tenant
	Grantees []Grantee `json:"grantees,omitempty"`
}

// Grantee is a tenant as it was when a policy first named it.
type Grantee struct {
	// tenant is its name.
	Tenant string `json:"tenant"`
	// seal is a salted digest of the tenant's UID, by which the server tells it from a
	// later tenant of that name. It looks the same if there was no such tenant.
	UIDDigest string `json:"seal"`
}

// TenantAccessPolicyList is a list of policies.
//
// +kubebuilder:object:root=true
type TenantAccessPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []TenantAccessPolicy `json:"items"`
}
