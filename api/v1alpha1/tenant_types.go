package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

const (
	// SpaceFinalizer holds a Tenant until its space is empty. It is removed
	// through the subresource "finalize" alone, which verifies that etcd holds
	// no key of the tenant.
	SpaceFinalizer = "tenantry.io/space"

	// ConditionReady is true when a user of the tenant can work in the space.
	ConditionReady = "Ready"
	// ConditionDeleting tells what a deletion waits for.
	ConditionDeleting = "Deleting"

	// TenantQuota is the name of the ResourceQuota, in the namespace "default" of
	// every space, that holds for the tenant as a whole: for all namespaces and for
	// what has none.
	TenantQuota = "tenant-quota"
	// ResourceStoredBytes limits, in a tenant's quota, what all objects of the
	// space take in etcd, events left out.
	ResourceStoredBytes corev1.ResourceName = "tenantry.io/stored-bytes"

	// CauseKeysLeft is the type of the causes of a refusal by the subresource
	// finalize. Each names a resource of which etcd still holds keys, in its
	// field, and their number, in its message.
	CauseKeysLeft metav1.CauseType = "KeysLeft"

	// ReasonReady and the others are the reasons of the conditions.
	ReasonReady       = "SpaceReady"
	ReasonProgressing = "SpaceProgressing"
	ReasonSuspended   = "Suspended"
	ReasonTerminating = "Terminating"
	ReasonFailed      = "ReconcileFailed"
	ReasonInvalid     = "InvalidSpec"
)

// Tenant is a customer or department with a virtual cluster of its own, its
// space: its own namespaces and its own cluster-scoped objects.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=te
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Suspended",type=boolean,JSONPath=`.spec.suspended`,priority=1
// +kubebuilder:printcolumn:name="Objects",type=integer,JSONPath=`.status.usage.objects`,priority=1
// +kubebuilder:printcolumn:name="Bytes",type=integer,JSONPath=`.status.usage.storedBytes`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$')",message="metadata.name must be a DNS-1123 label: at most 63 lower case letters, digits and '-', beginning and ending with a letter or digit"
// +kubebuilder:validation:XValidation:rule="self.metadata.name != 'all'",message="\"all\" is reserved: in a URL it stands for every tenant"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec) || !has(oldSelf.spec.controlPlaneRef) || has(self.spec) && has(self.spec.controlPlaneRef) && self.spec.controlPlaneRef == oldSelf.spec.controlPlaneRef",message="spec.controlPlaneRef cannot be changed: the tenant's objects are in that control plane. Delete the Tenant, with all that is in its space, and create it in the other one"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.controlPlaneRef) || has(self.status) && has(self.status.controlPlaneRef) && self.status.controlPlaneRef == oldSelf.status.controlPlaneRef",message="status.controlPlaneRef cannot be changed: the tenant's objects are in that control plane"
// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.controlPlaneRef) || !has(self.status) || !has(self.status.controlPlaneRef) || self.spec.controlPlaneRef.__namespace__ == self.status.controlPlaneRef.__namespace__ && self.spec.controlPlaneRef.name == self.status.controlPlaneRef.name",message="spec.controlPlaneRef must be status.controlPlaneRef, where the tenant's objects are, or be left out"
type Tenant struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the platform wants of the tenant.
	// +optional
	Spec TenantSpec `json:"spec,omitempty"`
	// status is what has been observed.
	// +optional
	Status TenantStatus `json:"status,omitempty"`
}

// TenantSpec is what the platform wants of a tenant.
// +kubebuilder:validation:XValidation:rule="!has(self.suspendedReason) || size(self.suspendedReason) == 0 || (has(self.suspended) && self.suspended)",message="suspendedReason needs suspended: true; remove suspendedReason, too"
type TenantSpec struct {
	// admins have every right in the space. Defaults to the user "admin".
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Admins []Subject `json:"admins,omitempty"`
	// suspended refuses every request in the space with 403 and keeps its data.
	// +optional
	Suspended bool `json:"suspended,omitempty"`
	// suspendedReason is shown to the tenant's users with each refusal.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	SuspendedReason string `json:"suspendedReason,omitempty"`
	// quota is the hard limits of the tenant as a whole, by the names of a
	// ResourceQuota: compute, storage and extended resources, count/RESOURCE.GROUP
	// of any resource, namespaced or not, and tenantry.io/stored-bytes. Defaults to
	// the quota of the manager's configuration.
	// +optional
	// +kubebuilder:validation:MaxProperties=128
	// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="self.all(k, (oldSelf.hasValue() && k in oldSelf.value()) || k in ['cpu', 'memory', 'ephemeral-storage', 'requests.cpu', 'requests.memory', 'requests.ephemeral-storage', 'requests.storage', 'limits.cpu', 'limits.memory', 'limits.ephemeral-storage', 'pods', 'services', 'services.nodeports', 'services.loadbalancers', 'replicationcontrollers', 'resourcequotas', 'secrets', 'configmaps', 'persistentvolumeclaims', 'tenantry.io/stored-bytes'] || k.startsWith('count/') || k.startsWith('requests.') || k.startsWith('hugepages-') || k.endsWith('.storageclass.storage.k8s.io/requests.storage') || k.endsWith('.storageclass.storage.k8s.io/persistentvolumeclaims') || k.endsWith('.deviceclass.resource.k8s.io/devices'))",message="an unknown limit: use the names of a ResourceQuota, count/RESOURCE.GROUP, requests.DOMAIN/RESOURCE or tenantry.io/stored-bytes"
	// +kubebuilder:validation:XValidation:optionalOldSelf=true,rule="self.all(k, (type(self[k]) == int ? self[k] >= 0 : !self[k].startsWith('-')) || (oldSelf.hasValue() && k in oldSelf.value() && (type(oldSelf.value()[k]) == int ? oldSelf.value()[k] < 0 : oldSelf.value()[k].startsWith('-'))))",message="a limit must not be negative"
	Quota map[corev1.ResourceName]resource.Quantity `json:"quota,omitempty"`
	// nodePlacement is how far the tenant's pods may choose their nodes. Defaults to
	// what the server's admission configuration says for SpacePolicy, without which
	// they may not.
	// +optional
	NodePlacement *NodePlacement `json:"nodePlacement,omitempty"`
	// daemonSets is what becomes of the tenant's DaemonSets. Defaults to what the
	// server's admission configuration says for SpacePolicy, without which they are
	// refused.
	// +optional
	DaemonSets *DaemonSets `json:"daemonSets,omitempty"`
	// workloads is what the tenant's pods and Services may, where pods of spaces run on a host
	// cluster. Elsewhere it has no effect.
	// +optional
	Workloads *Workloads `json:"workloads,omitempty"`
	// rateLimit bounds what the tenant's users may ask of each server. What is
	// not set is as the server's flags have it.
	// +optional
	RateLimit *RateLimit `json:"rateLimit,omitempty"`
	// requestLimit bounds how large one request of the tenant's users may be. What
	// is not set is as the server's flags have it.
	// +optional
	RequestLimit *RequestLimit `json:"requestLimit,omitempty"`
	// auditPolicy is what the audit log has of the tenant, by the rules of an
	// audit.k8s.io/v1 Policy. For the tenant's users in its space they hold instead
	// of the server's policy; what others do there, and what the tenant's users try
	// elsewhere, is logged by both, in the more detail of the two. Without a policy
	// the server's alone holds, and without an audit log of the server none has an
	// effect.
	// +optional
	AuditPolicy *AuditPolicy `json:"auditPolicy,omitempty"`
	// controlPlaneRef is, on a host cluster, the ControlPlane that the tenant has its space in.
	// Defaults to what the operator has as its default, which status.controlPlaneRef then
	// says. It cannot be changed. In a control plane it has no effect.
	// +optional
	ControlPlaneRef *ControlPlaneReference `json:"controlPlaneRef,omitempty"`
	// kubeconfigSecret asks, on a host cluster, for the Secret NAME-kubeconfig in the namespace
	// of the ControlPlane, with a kubeconfig for a user of the tenant under the key kubeconfig.
	// In a control plane it has no effect.
	// +optional
	KubeconfigSecret *KubeconfigSecret `json:"kubeconfigSecret,omitempty"`
}

// DaemonSetMode says what becomes of DaemonSets in a space.
// +enum
type DaemonSetMode string

const (
	// DaemonSetsRefused refuses new ones.
	DaemonSetsRefused DaemonSetMode = "Refused"
	// DaemonSetsInert stores them. They have no pods, as in a cluster without nodes.
	DaemonSetsInert DaemonSetMode = "Inert"
)

// ConditionInert is the condition of DaemonSets in spaces, which have no pods.
const ConditionInert = "Inert"

// DaemonSets is what becomes of DaemonSets in a space, which has no nodes to run a
// pod on each of.
type DaemonSets struct {
	// mode is Refused or Inert. With Inert, charts and operators that bring
	// DaemonSets can be installed. A change of the mode does not affect existing ones.
	// +kubebuilder:validation:Enum=Refused;Inert
	Mode DaemonSetMode `json:"mode"`
}

// NodePlacementMode says how far pods may choose their nodes.
// +enum
type NodePlacementMode string

const (
	// NodePlacementDisabled lets no pod choose.
	NodePlacementDisabled NodePlacementMode = "Disabled"
	// NodePlacementLimited lets pods choose by some labels and taints.
	NodePlacementLimited NodePlacementMode = "Limited"
	// NodePlacementEnabled lets pods choose as in a cluster of their own.
	NodePlacementEnabled NodePlacementMode = "Enabled"
)

// NodePlacement is how far pods may choose their nodes, by node name, node
// selector, node affinity and tolerations. Node selectors and affinity for
// kubernetes.io/os and kubernetes.io/arch are allowed in every mode.
// +kubebuilder:validation:XValidation:rule="self.mode == 'Limited' || (!has(self.allowedLabels) && !has(self.allowedTaints))",message="allowedLabels and allowedTaints need mode: Limited"
type NodePlacement struct {
	// mode is Disabled, Limited or Enabled.
	// +kubebuilder:validation:Enum=Disabled;Limited;Enabled
	Mode NodePlacementMode `json:"mode"`
	// allowedLabels are keys of node labels for node selectors and affinity, in
	// mode Limited.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=317
	// +kubebuilder:validation:items:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	AllowedLabels []string `json:"allowedLabels,omitempty"`
	// allowedTaints are keys of taints that pods may tolerate, in mode Limited.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=317
	// +kubebuilder:validation:items:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	AllowedTaints []string `json:"allowedTaints,omitempty"`
}

// RateLimit bounds what one server does for the users of a tenant. A request
// beyond a limit is answered with 429 and the time after which to try again.
// +kubebuilder:validation:XValidation:rule="!has(self.burst) || has(self.requestsPerSecond)",message="burst needs requestsPerSecond"
// +kubebuilder:validation:XValidation:rule="!has(self.burst) || !has(self.requestsPerSecond) || self.burst == 0 || self.requestsPerSecond > 0",message="burst has no effect without a limit of requestsPerSecond, and 0 is none: leave burst out"
// +kubebuilder:validation:XValidation:rule="!has(self.burst) || !has(self.requestsPerSecond) || self.burst >= self.requestsPerSecond",message="burst must not be less than requestsPerSecond"
type RateLimit struct {
	// requestsPerSecond is the number of requests that are served in a second,
	// on average. 0 is no limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	RequestsPerSecond *int32 `json:"requestsPerSecond,omitempty"`
	// burst is the number of requests that are served at once after a pause.
	// Defaults to twice requestsPerSecond.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2000000
	Burst *int32 `json:"burst,omitempty"`
	// inFlight is the number of requests that are served at a time, watches and
	// other requests without an end left out. 0 is no limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	InFlight *int32 `json:"inFlight,omitempty"`
	// watches is the number of watches that are open at a time. 0 is no limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Watches *int32 `json:"watches,omitempty"`
}

// RequestLimit bounds how large one request of a tenant's users may be, in
// whatever space. A request beyond a limit is answered with 413.
type RequestLimit struct {
	// bodyBytes is the size of the largest body that is read, in bytes. Every server
	// refuses bodies beyond 3 MiB.
	// +optional
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=3145728
	BodyBytes *int64 `json:"bodyBytes,omitempty"`
	// listObjects is the number of objects that one answer may have. Larger pages
	// are cut; what asks for no pages and would have more is refused: lists, watches
	// that begin with the current state, as those of informers do, and deletions of
	// collections. 0 is no limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	ListObjects *int32 `json:"listObjects,omitempty"`
}

// AuditPolicy is which requests are logged, and in how much detail.
type AuditPolicy struct {
	// rules are asked in turn; the first that matches a request decides. What
	// matches none is not logged.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Rules []auditv1.PolicyRule `json:"rules,omitempty"`
	// omitStages are stages of requests that make no events, beside those of each
	// rule.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4
	OmitStages []auditv1.Stage `json:"omitStages,omitempty"`
	// omitManagedFields leaves the managed fields out of logged bodies, where a rule
	// does not say otherwise.
	// +optional
	OmitManagedFields bool `json:"omitManagedFields,omitempty"`
}

// SubjectKind is the kind of a Subject.
// +enum
type SubjectKind string

const (
	// SubjectUser is a user by name.
	SubjectUser SubjectKind = "User"
	// SubjectGroup is a group by name.
	SubjectGroup SubjectKind = "Group"
)

// Subject is a user or a group of the tenant.
// +kubebuilder:validation:XValidation:rule="!self.name.startsWith('system:') || (self.kind == 'User' ? self.name.matches('^system:serviceaccount:[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?:[a-z0-9]([-.a-z0-9]*[a-z0-9])?$') : self.name in ['system:authenticated', 'system:serviceaccounts'] || self.name.matches('^system:serviceaccounts:[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$'))",message="names that begin with system: are the platform's, and no user of a tenant has one; service accounts are User system:serviceaccount:NAMESPACE:NAME or Group system:serviceaccounts[:NAMESPACE]"
// +kubebuilder:validation:XValidation:rule="self.name == self.name.trim() && !self.name.matches('[[:cntrl:]]')",message="a name with blanks around it or control characters is nobody's: remove them"
type Subject struct {
	// kind is User or Group.
	// +kubebuilder:validation:Enum=User;Group
	Kind SubjectKind `json:"kind"`
	// name of the user or group, as authentication gives it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// TenantList is a list of tenants.
//
// +kubebuilder:object:root=true
type TenantList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Tenant `json:"items"`
}
