package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// ConditionAvailable is true while a server of a ControlPlane answers requests.
	ConditionAvailable = "Available"
	// ConditionProgressing is true while a ControlPlane becomes what its spec says.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is true while something keeps a ControlPlane from that.
	ConditionDegraded = "Degraded"

	// ReasonServersReady and the others are the reasons of a ControlPlane's conditions.
	ReasonServersReady       = "ServersReady"
	ReasonServersNotReady    = "ServersNotReady"
	ReasonRollingOut         = "RollingOut"
	ReasonAwaitingAddress    = "AwaitingAddress"
	ReasonAsDesired          = "AsDesired"
	ReasonBlocked            = "Blocked"
	ReasonAsExpected         = "AsExpected"
	ReasonPodFailing         = "PodFailing"
	ReasonNameTaken          = "NameTaken"
	ReasonKeysMissing        = "KeysMissing"
	ReasonKeysInvalid        = "KeysInvalid"
	ReasonUnsupportedVersion = "UnsupportedVersion"
)

// ControlPlane is an installation of Tenantry on a host cluster: its servers, their volume,
// keys and addresses. The operator makes all of it in the namespace of the ControlPlane, and
// keeps the volume and the Secrets of keys when the ControlPlane is deleted.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`
// +kubebuilder:printcolumn:name="Degraded",type=string,JSONPath=`.status.conditions[?(@.type=="Degraded")].status`
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.status.endpoint`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Degraded")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$')",message="metadata.name is also that of a Service and the beginning of other names: at most 40 lower case letters, digits and '-', beginning with a letter and not ending with '-'"
type ControlPlane struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the platform wants.
	// +optional
	// +kubebuilder:default={}
	Spec ControlPlaneSpec `json:"spec,omitzero"`
	// status is what has been observed.
	// +optional
	Status ControlPlaneStatus `json:"status,omitempty"`
}

// ControlPlaneSpec is what the platform wants of a ControlPlane.
type ControlPlaneSpec struct {
	// version of Tenantry that runs, such as v0.1.0. Defaults to the operator's, and follows
	// it. The servers of a version that the operator does not run stay as they are.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)$`
	Version string `json:"version,omitempty"`
	// storage is where the objects of all spaces are.
	// +optional
	// +kubebuilder:default={embedded: {}}
	Storage ControlPlaneStorage `json:"storage,omitzero"`
	// expose is how clients reach the servers.
	// +optional
	// +kubebuilder:default={type: ClusterIP}
	Expose ControlPlaneExpose `json:"expose,omitzero"`
	// pod is what the servers' pods have beside what the operator gives them.
	// +optional
	Pod ControlPlanePod `json:"pod,omitzero"`
}

// ControlPlaneStorage is where the objects of all spaces are.
// +kubebuilder:validation:XValidation:rule="has(self.embedded)",message="name the kind of storage: embedded"
type ControlPlaneStorage struct {
	// embedded is an etcd of one member, in the process of the one server.
	// +optional
	Embedded *EmbeddedStorage `json:"embedded,omitempty"`
}

// EmbeddedStorage is a volume for an etcd of one member.
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",message="storageClassName cannot be changed: the volume is there already"
type EmbeddedStorage struct {
	// size of the volume. Half of it is for the database, the rest for its log and for the
	// copies that are made of it. Defaults to 10Gi, and is 1Gi at least. It cannot be changed.
	// +optional
	// +kubebuilder:default="10Gi"
	// +kubebuilder:validation:XValidation:rule="string(self).matches('[eE][-+]?[0-9.]{3}') || quantity(string(self)).compareTo(quantity('1Gi')) >= 0",message="size must be 1Gi at least"
	// +kubebuilder:validation:XValidation:rule="string(self).matches('[eE][-+]?[0-9.]{3}') || quantity(string(self)).compareTo(quantity('1Pi')) <= 0",message="size must be 1Pi at most"
	// +kubebuilder:validation:XValidation:rule="string(self).matches('[eE][-+]?[0-9.]{3}') || quantity(string(self)).compareTo(quantity(string(oldSelf))) == 0",message="size cannot be changed: enlarge the volume by its claim"
	Size resource.Quantity `json:"size,omitzero"`
	// storageClassName of the volume. Defaults to the default of the host. It cannot be
	// changed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Subdomain().validate(self).hasValue()",message="storageClassName must be the name of a StorageClass"
	StorageClassName *string `json:"storageClassName,omitempty"`
}

// ExposeType is the kind of the Service by which clients reach the servers.
// +enum
type ExposeType string

const (
	// ExposeClusterIP is for clients in the host cluster.
	ExposeClusterIP ExposeType = "ClusterIP"
	// ExposeNodePort is a port of every node of the host cluster.
	ExposeNodePort ExposeType = "NodePort"
	// ExposeLoadBalancer is an address outside of the host cluster.
	ExposeLoadBalancer ExposeType = "LoadBalancer"
)

// ControlPlaneExpose is how clients reach the servers.
// +kubebuilder:validation:XValidation:rule="self.type != 'NodePort' || (has(self.names) && size(self.names) > 0)",message="type NodePort needs names: a name or an address of the nodes, by which clients reach them"
type ControlPlaneExpose struct {
	// type is ClusterIP, NodePort or LoadBalancer. Defaults to ClusterIP.
	// +optional
	// +kubebuilder:default=ClusterIP
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type ExposeType `json:"type,omitempty"`
	// names are further host names and IP addresses by which clients reach the servers. The
	// servers' certificate has them, and kubeconfigs name the first. Without one they name the
	// Service, or the address of the load balancer.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.all(n, isIP(n) ? ip(n).isGlobalUnicast() || ip(n).isLoopback() || ip(n).isLinkLocalUnicast() : !format.dns1123Subdomain().validate(n).hasValue() && !n.matches('^[0-9.]+$'))",message="each of names must be a host name in lower case or the IP address of one machine"
	Names []string `json:"names,omitempty"`
}

// ControlPlanePod is what the servers' pods have beside what the operator gives them.
type ControlPlanePod struct {
	// image is the image of the servers, such as one by digest from a mirror. It must be of
	// the version that is to run. Defaults to that of the operator.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^(([a-zA-Z0-9][-a-zA-Z0-9]*(\.[a-zA-Z0-9][-a-zA-Z0-9]*)+(:[0-9]+)?|[a-zA-Z0-9][-a-zA-Z0-9]*:[0-9]+)/)?[a-z0-9]+([-._]+[a-z0-9]+)*(/[a-z0-9]+([-._]+[a-z0-9]+)*)*(:[a-zA-Z0-9_][-a-zA-Z0-9_.]{0,127})?(@[a-z0-9]+([-+._][a-z0-9]+)*:[0-9a-fA-F]+)?$`
	Image string `json:"image,omitempty"`
	// resources of a server. By default it requests 500m of CPU and 1Gi of memory, and has at
	// most 4Gi of memory.
	// +optional
	Resources *ControlPlaneResources `json:"resources,omitempty"`
}

// ControlPlaneResources are the resources of a container.
// +kubebuilder:validation:XValidation:rule="!has(self.requests) || !has(self.limits) || self.requests.all(k, !(k in self.limits) || [self.requests[k], self.limits[k]].exists(q, string(q).matches('[eE][-+]?[0-9.]{3}')) || quantity(string(self.requests[k])).compareTo(quantity(string(self.limits[k]))) <= 0)",message="requests must not be more than limits"
type ControlPlaneResources struct {
	// requests is what a node must have free.
	// +optional
	// +kubebuilder:validation:MaxProperties=3
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['cpu', 'memory', 'ephemeral-storage'] && !string(self[k]).startsWith('-'))",message="requests are cpu, memory and ephemeral-storage, and not negative"
	Requests corev1.ResourceList `json:"requests,omitempty"`
	// limits is the most that a server may use.
	// +optional
	// +kubebuilder:validation:MaxProperties=3
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['cpu', 'memory', 'ephemeral-storage'] && !string(self[k]).startsWith('-'))",message="limits are cpu, memory and ephemeral-storage, and not negative"
	Limits corev1.ResourceList `json:"limits,omitempty"`
}

// ControlPlaneStatus is what has been observed of a ControlPlane.
type ControlPlaneStatus struct {
	// observedGeneration is the generation of the spec that the conditions are about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions of the ControlPlane: Available, Progressing, Degraded.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +patchMergeKey=type
	// +patchStrategy=merge
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
	// endpoint is the URL of the system space. Those of other spaces are below it.
	// +optional
	Endpoint string `json:"endpoint,omitempty"`
	// certificateAuthority is the bundle by which clients verify the servers, in PEM.
	// +optional
	CertificateAuthority string `json:"certificateAuthority,omitempty"`
	// version that all servers run.
	// +optional
	Version string `json:"version,omitempty"`
	// replicas is the number of servers that answer requests.
	// +optional
	Replicas int32 `json:"replicas"`
}

// ControlPlaneList is a list of ControlPlanes.
//
// +kubebuilder:object:root=true
type ControlPlaneList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ControlPlane `json:"items"`
}
