package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// ConditionAvailable is true while a server of a ControlPlane answers requests.
	ConditionAvailable = "Available"
	// ConditionProgressing is true while a ControlPlane becomes what its spec says.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is true while something keeps a ControlPlane from that.
	ConditionDegraded = "Degraded"
	// ConditionKeysRotating is true while tokens of service accounts get another key, until those of the
	// key before have ended.
	ConditionKeysRotating = "KeysRotating"
	// ConditionHostPublished is true while what a ControlPlane publishes of the host is in it.
	ConditionHostPublished = "HostPublished"

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
	ReasonKeysNotAdopted     = "KeysNotAdopted"
	ReasonInControlPlane     = "InControlPlane"
	ReasonNotPublished       = "NotPublished"
	ReasonUnsupportedVersion = "UnsupportedVersion"
	ReasonEtcdSecretMissing  = "EtcdSecretMissing"
	ReasonEtcdSecretInvalid  = "EtcdSecretInvalid"

	ReasonConfigurationMissing = "ConfigurationMissing"
	ReasonConfigurationInvalid = "ConfigurationInvalid"

	// ReasonKeyPublished and the others are the reasons of ConditionKeysRotating.
	ReasonKeyPublished    = "KeyPublished"
	ReasonOldKeysVerify   = "OldKeysVerify"
	ReasonTooManyKeys     = "TooManyKeys"
	ReasonRotationIsWhole = "RotationIsWhole"
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
// +kubebuilder:printcolumn:name="Workloads",type=string,JSONPath=`.status.conditions[?(@.type=="WorkloadsReady")].status`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Degraded")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$')",message="metadata.name is also that of a Service and the beginning of other names: at most 40 lower case letters, digits and '-', beginning with a letter and not ending with '-'"
// +kubebuilder:validation:XValidation:rule="!self.metadata.name.matches('-(manager|members|syncer)$')",message="metadata.name must not end with '-manager', '-members' or '-syncer': the parts of another ControlPlane are called so"
// +k8s:openapi-gen=false
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
//
// +k8s:openapi-gen=false
// +kubebuilder:validation:XValidation:rule="!has(self.replicas) || self.replicas == 1 || has(self.storage.etcd)",message="replicas must be 1 with storage.embedded, which is an etcd of one member in the process of the one server: several servers need storage.etcd"
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
	// replicas is the number of servers. With storage.etcd it defaults to 2: each has all
	// objects in its memory. With storage.embedded it is 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16
	Replicas *int32 `json:"replicas,omitempty"`
	// expose is how clients reach the servers.
	// +optional
	// +kubebuilder:default={type: ClusterIP}
	Expose ControlPlaneExpose `json:"expose,omitzero"`
	// authentication says who users are, beside those whom the operator and Tenants have
	// kubeconfigs for.
	// +optional
	Authentication *ControlPlaneAuthentication `json:"authentication,omitempty"`
	// serviceAccounts is about the tokens of service accounts of all spaces.
	// +optional
	ServiceAccounts ControlPlaneServiceAccounts `json:"serviceAccounts,omitzero"`
	// authorization says which authorizers decide within a space.
	// +optional
	Authorization *ControlPlaneAuthorization `json:"authorization,omitempty"`
	// audit says what is logged of requests, and where. Without it nothing is, of any tenant.
	// +optional
	Audit *ControlPlaneAudit `json:"audit,omitempty"`
	// admission configures admission plugins, such as SpacePolicy.
	// +optional
	Admission *ControlPlaneAdmission `json:"admission,omitempty"`
	// tenantWebhooks says where webhooks of tenants may be.
	// +optional
	TenantWebhooks *ControlPlaneTenantWebhooks `json:"tenantWebhooks,omitempty"`
	// manager configures the controllers of Tenants.
	// +optional
	Manager *ControlPlaneManager `json:"manager,omitempty"`
	// limits are what Tenants have that say nothing themselves, and bounds of each server.
	// +optional
	Limits *ControlPlaneLimits `json:"limits,omitempty"`
	// tenantLimits are the most that Tenants of this host may ask for. They hold for what the
	// operator writes into the control plane, and not for its administrators.
	// +optional
	TenantLimits *TenantLimits `json:"tenantLimits,omitempty"`
	// pod is what the servers' pods have beside what the operator gives them.
	// +optional
	Pod ControlPlanePod `json:"pod,omitzero"`
	// publish is what of the host is in every space. Objects need the annotation
	// multi-tenancy.k8s.io/published with the value "true", too. The operator must have the
	// right to read them.
	// +optional
	Publish *ControlPlanePublish `json:"publish,omitempty"`
	// workloads has the pods of spaces run on the host. Without it they stay pending. Taking it away
	// stops nothing that runs, and nothing looks after that any more.
	// +optional
	Workloads *ControlPlaneWorkloads `json:"workloads,omitempty"`
}

// ControlPlaneServiceAccounts is about the tokens of service accounts.
// +k8s:openapi-gen=false
type ControlPlaneServiceAccounts struct {
	// keyRotation is any text, such as a date. Another one than before has a new key made for
	// tokens. Servers verify by it for 70 minutes before they sign by it. The key before
	// verifies until its tokens have ended, so that none is refused. Taking the text away does
	// nothing.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[-A-Za-z0-9_.:]*$`
	KeyRotation string `json:"keyRotation,omitempty"`
	// maxTokenLifetime is the longest time that tokens are issued for, from 1h to 8760h. Requests
	// for more get this. Defaults to 8760h, a year; if it is less, tokens of pods are not good for longer than
	// pods ask for. Tokens in Secrets have no end, but with their key.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1h') && duration(self) <= duration('8760h')",message="maxTokenLifetime must be from 1h to 8760h"
	MaxTokenLifetime metav1.Duration `json:"maxTokenLifetime,omitzero"`
	// refuseOldKeys ends the time of all keys that sign no more, as when one was stolen: their
	// tokens are refused.
	// +optional
	RefuseOldKeys bool `json:"refuseOldKeys,omitempty"`
}

// ControlPlanePublish names objects of the host that are published to every space.
// +k8s:openapi-gen=false
type ControlPlanePublish struct {
	// resources are those of which the annotated objects in the namespace of the ControlPlane
	// are published, as RESOURCE or RESOURCE.GROUP, such as configmaps. Secrets, RBAC, webhooks,
	// admission policies and definitions are published by name alone.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.all(r, r.matches('^[a-z]+([.][a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$'))",message="each of resources must be RESOURCE or RESOURCE.GROUP in lower case, such as configmaps"
	// +kubebuilder:validation:XValidation:rule="self.all(r, r != 'secrets' && !r.endsWith('.rbac.authorization.k8s.io') && !r.endsWith('.admissionregistration.k8s.io') && !r.endsWith('.apiextensions.k8s.io'))",message="Secrets, RBAC, webhooks, admission policies and definitions are published by name: list them in objects"
	Resources []string `json:"resources,omitempty"`
	// objects are published by name: those of the namespace of the ControlPlane, or those that
	// have no namespace. Secrets need the label tenantry.io/control-plane with the name of the
	// ControlPlane, too.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	Objects []HostObject `json:"objects,omitempty"`
	// namespace in the system space, and in every space, where the objects are that have one on
	// the host. It must be there. Defaults to default.
	// +optional
	// +kubebuilder:default=default
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Label().validate(self).hasValue()",message="namespace must be the name of a namespace"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('kube-')",message="namespaces kube-* are the platform's own"
	Namespace string `json:"namespace,omitempty"`
}

// HostObject names an object of the host.
// +k8s:openapi-gen=false
type HostObject struct {
	// resource is RESOURCE or RESOURCE.GROUP, such as
	// validatingadmissionpolicies.admissionregistration.k8s.io.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]+([.][a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$')",message="resource must be RESOURCE or RESOURCE.GROUP in lower case, such as secrets"
	Resource string `json:"resource"`
	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
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
// +k8s:openapi-gen=false
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
//
// +k8s:openapi-gen=false
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
	// managerResources are those of a manager beside servers on storage.etcd. By default it
	// requests 100m of CPU and 128Mi of memory, and has at most 1Gi of memory.
	// +optional
	ManagerResources *ControlPlaneResources `json:"managerResources,omitempty"`
	// nodeSelector is the labels that a node must have.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// tolerations are the taints of nodes that the pods tolerate.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// affinity says beside what the pods are to be. The operator spreads servers on
	// storage.etcd over nodes and zones in any case.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// priorityClassName is the PriorityClass of the pods. Defaults to that of the host.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Subdomain().validate(self).hasValue()",message="priorityClassName must be the name of a PriorityClass"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('system-')",message="priorityClassName must not be one of the host's own, which begin with system-: create another PriorityClass"
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// imagePullSecrets are Secrets of the ControlPlane's namespace by which nodes get the image.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	ImagePullSecrets []ControlPlanePullSecret `json:"imagePullSecrets,omitempty"`
	// proxy is by what the servers and managers call what is outside of the host, such as
	// issuers of tokens and webhooks. Where webhooks of tenants may be, the proxy then decides,
	// too.
	// +optional
	Proxy *ControlPlaneProxy `json:"proxy,omitempty"`
}

// ControlPlaneTenantWebhooks are networks, compared with the addresses that servers connect to.
// +k8s:openapi-gen=false
type ControlPlaneTenantWebhooks struct {
	// deniedCIDRs are networks that no webhook of a tenant may be in, such as those of the host's
	// nodes, pods and Services. Loopback and link-local addresses, and those of the servers, of
	// their etcd and of the host's API are denied anyway. With workloads, so are private addresses
	// and networkIsolation.clusterCIDRs, but for Services of the tenant's own space.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.all(c, isCIDR(c) && cidr(c) == cidr(c).masked())",message="each of deniedCIDRs must be a network such as 10.0.0.0/8 or fd00::/8, without bits of an address in it"
	DeniedCIDRs []string `json:"deniedCIDRs,omitempty"`
	// allowedCIDRs are networks that webhooks of tenants may be in although they are denied. With
	// workloads, name none of the host's pods, Services or nodes: by their addresses, one tenant's
	// webhook reaches another's.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.all(c, isCIDR(c) && cidr(c) == cidr(c).masked())",message="each of allowedCIDRs must be a network such as 10.0.0.0/8 or fd00::/8, without bits of an address in it"
	AllowedCIDRs []string `json:"allowedCIDRs,omitempty"`
}

// ControlPlanePullSecret names a Secret by which nodes get an image.
// +k8s:openapi-gen=false
type ControlPlanePullSecret struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Subdomain().validate(self).hasValue()",message="name must be the name of a Secret"
	Name string `json:"name,omitempty"`
}

// ControlPlaneProxy is a proxy of HTTP.
// +k8s:openapi-gen=false
type ControlPlaneProxy struct {
	// url of the proxy, as http://HOST:PORT or https://HOST:PORT.
	// +required
	// +kubebuilder:validation:MaxLength=280
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*|[[][0-9a-f:.]+[]]):([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$')",message="url must be http://HOST:PORT or https://HOST:PORT, without credentials"
	URL string `json:"url,omitempty"`
	// noProxy are host names, domains such as .example.com, addresses and networks that are
	// called directly. The servers themselves and their etcd always are.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.all(n, n.matches('^[-a-zA-Z0-9.:/*]+$'))",message="each of noProxy must be a host name, a domain, an address or a network"
	NoProxy []string `json:"noProxy,omitempty"`
}

// ControlPlaneResources are the resources of a container.
// +kubebuilder:validation:XValidation:rule="!has(self.requests) || !has(self.limits) || self.requests.all(k, !(k in self.limits) || [self.requests[k], self.limits[k]].exists(q, string(q).matches('[eE][-+]?[0-9.]{3}')) || quantity(string(self.requests[k])).compareTo(quantity(string(self.limits[k]))) <= 0)",message="requests must not be more than limits"
// +k8s:openapi-gen=false
type ControlPlaneResources struct {
	// requests is what a node must have free.
	// +optional
	// +kubebuilder:validation:MaxProperties=3
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['cpu', 'memory', 'ephemeral-storage'] && !string(self[k]).startsWith('-'))",message="requests are cpu, memory and ephemeral-storage, and not negative"
	Requests corev1.ResourceList `json:"requests,omitempty"`
	// limits is the most that the container may use.
	// +optional
	// +kubebuilder:validation:MaxProperties=3
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['cpu', 'memory', 'ephemeral-storage'] && !string(self[k]).startsWith('-'))",message="limits are cpu, memory and ephemeral-storage, and not negative"
	Limits corev1.ResourceList `json:"limits,omitempty"`
}

// ControlPlaneStatus is what has been observed of a ControlPlane.
//
// +k8s:openapi-gen=false
type ControlPlaneStatus struct {
	// observedGeneration is the generation of the spec that the conditions are about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions of the ControlPlane: Available, Progressing, Degraded and, where something of
	// the host is published, HostPublished. Where pods of spaces are to run on the host, WorkloadsReady.
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
	// keys are the Secrets of keys that the operator has made, or was told to adopt. What is in
	// their place otherwise is not used.
	// +optional
	// +listType=map
	// +listMapKey=secretName
	Keys []ControlPlaneKeys `json:"keys,omitempty"`
	// tokenKeys are the keys of tokens of service accounts, the newest last.
	// +optional
	// +listType=map
	// +listMapKey=secretName
	TokenKeys []ControlPlaneTokenKey `json:"tokenKeys,omitempty"`
	// keyRotation is that of the spec for which the newest key was made.
	// +optional
	KeyRotation string `json:"keyRotation,omitempty"`
	// copies are the Secrets of what servers are configured by, and log in to an external etcd with, as
	// the operator has made them last. What is in their place otherwise is not used.
	// +optional
	// +listType=map
	// +listMapKey=secretName
	Copies []ControlPlaneCopy `json:"copies,omitempty"`
	// published are the resources of which the control plane has objects of the host.
	// +optional
	// +listType=set
	Published []string `json:"published,omitempty"`
	// version that all servers run.
	// +optional
	Version string `json:"version,omitempty"`
	// replicas is the number of servers that answer requests.
	// +optional
	Replicas int32 `json:"replicas"`
}

const (
	// HostPublishedLabel marks, with the value "true", objects of the system space that are copies
	// of those of the host, and HostObjectAnnotation has the NAMESPACE/NAME there.
	HostPublishedLabel   = "tenantry.io/host-published"
	HostObjectAnnotation = "tenantry.io/host-object"
	// HostContentAnnotation has a hash of what the host says.
	HostContentAnnotation = "tenantry.io/host-content"
)

// ControlPlaneList is a list of ControlPlanes.
//
// +kubebuilder:object:root=true
// +k8s:openapi-gen=false
type ControlPlaneList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ControlPlane `json:"items"`
}
