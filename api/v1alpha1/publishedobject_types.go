package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// ConditionPublished is true when every space has a current copy.
	ConditionPublished = "Published"

	// ReasonPublished and the others are the reasons of the condition.
	ReasonPublished      = "InAllSpaces"
	ReasonCopying        = "Copying"
	ReasonKept           = "TenantsObjectsKept"
	ReasonNotCopied      = "CopiesFailed"
	ReasonNotPublishable = "NotPublishable"
)

// PublishedObject says how far an object of the system space that is published is
// copied to the spaces. The manager writes it and administrators read it; what is
// published is said by the annotation multi-tenancy.k8s.io/published of the object itself.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=pub
// +kubebuilder:printcolumn:name="Copies",type=integer,JSONPath=`.status.copies`
// +kubebuilder:printcolumn:name="Spaces",type=integer,JSONPath=`.status.spaces`
// +kubebuilder:printcolumn:name="Kept",type=integer,JSONPath=`.status.kept`
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.failed`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Published")].reason`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Published")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PublishedObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// object is what is published.
	Object PublishedReference `json:"object"`
	// status is how far it is copied.
	// +optional
	Status PublishedObjectStatus `json:"status,omitempty"`
}

// PublishedReference names an object of the system space.
type PublishedReference struct {
	// group of the resource, empty for the core group.
	// +optional
	Group string `json:"group,omitempty"`
	// resource in the plural.
	Resource string `json:"resource"`
	// namespace, empty for what has none.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// name of the object.
	Name string `json:"name"`
}

// PublishedObjectStatus is how far an object is copied.
type PublishedObjectStatus struct {
	// spaces is the number of spaces that are to have a copy.
	Spaces int32 `json:"spaces"`
	// copies is the number of spaces that have a current one.
	Copies int32 `json:"copies"`
	// kept is the number of spaces in which the tenant has an object of its own in
	// the place of the copy.
	Kept int32 `json:"kept"`
	// failed is the number of spaces in which the copy could not be written.
	Failed int32 `json:"failed"`
	// conditions: Published, whose message says what failed, where and why.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +patchMergeKey=type
	// +patchStrategy=merge
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

// PublishedObjectList is a list of published objects.
//
// +kubebuilder:object:root=true
type PublishedObjectList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PublishedObject `json:"items"`
}
