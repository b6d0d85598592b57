package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// ConditionIncomplete is true when Keystone's lists could not be read as a whole. Then
	// nothing is changed.
	ConditionIncomplete = "Incomplete"
	// ConditionGuardTripped is true while so much has gone from Keystone's lists that
	// somebody has to acknowledge it.
	ConditionGuardTripped = "GuardTripped"
	// ConditionClusterRolesMissing is true while a Tenant lacks a ClusterRole of a mapping, whose
	// bindings then give nothing.
	ConditionClusterRolesMissing = "ClusterRolesMissing"

	// ConditionDomainsMissing is true while spec.domains names domains that Keystone does not
	// have. The others are synchronised.
	ConditionDomainsMissing = "DomainsMissing"

	// ReasonSynced and the others are the reasons of the conditions of a KeystoneSync.
	ReasonSynced        = "Synced"
	ReasonPreviewed     = "Previewed"
	ReasonConflicts     = "Conflicts"
	ReasonNotConfigured = "NotConfigured"
	ReasonOverlaps      = "Overlaps"
	ReasonIncomplete    = "ListsIncomplete"
	ReasonComplete      = "ListsComplete"
	ReasonTooMuchGone   = "TooMuchGone"
	ReasonWithinLimit   = "WithinLimit"
	ReasonNotFound      = "NotFound"
	ReasonFound         = "Found"

	// AdoptKeystoneDomainAnnotation on a Tenant that exists makes it that of a domain:
	// KEYSTONE/DOMAIN-ID.
	AdoptKeystoneDomainAnnotation = "tenantry.io/adopt-keystone-domain"
)

// KeystoneSync makes domains of OpenStack's Keystone Tenants, their projects namespaces, and
// roles in them bindings. Whoever writes one needs the verb bind on each ClusterRole that
// it names, in all tenants' spaces.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=kss
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Domains",type=integer,JSONPath=`.status.domains`
// +kubebuilder:printcolumn:name="Projects",type=integer,JSONPath=`.status.projects`
// +kubebuilder:printcolumn:name="Last Sync",type=date,JSONPath=`.status.lastSyncTime`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type KeystoneSync struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is to be made of Keystone.
	Spec KeystoneSyncSpec `json:"spec"`
	// status is what has been made of it.
	// +optional
	Status KeystoneSyncStatus `json:"status,omitempty"`
}

// KeystoneSyncMode says whether anything is written.
// +enum
type KeystoneSyncMode string

const (
	// KeystoneSyncSync makes Tenants, namespaces and bindings.
	KeystoneSyncSync KeystoneSyncMode = "Sync"
	// KeystoneSyncPreview writes in the status what would be changed.
	KeystoneSyncPreview KeystoneSyncMode = "Preview"
)

// KeystoneSyncSpec is what is to be made of Keystone.
type KeystoneSyncSpec struct {
	// mode is Sync or, to see in the status what would be changed, Preview. Defaults to
	// Preview.
	// +optional
	// +kubebuilder:validation:Enum=Sync;Preview
	Mode KeystoneSyncMode `json:"mode,omitempty"`
	// interval is how long to wait between two runs, at least 10s. Defaults to 5m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10s')",message="must be at least 10s"
	Interval *metav1.Duration `json:"interval,omitempty"`
	// domains are those that become Tenants. A domain must not be among those of two
	// KeystoneSyncs; the later one then does nothing.
	Domains KeystoneDomains `json:"domains"`
	// roleMappings say which roles of Keystone have which rights. A role has one ClusterRole in
	// each scope.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	RoleMappings []KeystoneRoleMapping `json:"roleMappings,omitempty"`
	// tenantAdminRoleID is the id of the role that, on the domain, makes administrators of the
	// Tenant: spec.admins. Without it nobody is. The role admin must not be it unless Keystone
	// enforces scopes, because under its default policies who is admin anywhere is the
	// administrator of the cloud.
	// +optional
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_.@-]{1,64}$`
	TenantAdminRoleID string `json:"tenantAdminRoleID,omitempty"`
	// tenantTemplate is what Tenants have that are made of domains. A field of it is brought to the
	// Tenants as long as they have it as an earlier template said: what somebody changes in a
	// Tenant stays so. Adopted Tenants have none of it.
	// +optional
	TenantTemplate *KeystoneTenantTemplate `json:"tenantTemplate,omitempty"`
	// deletion is what becomes of what Keystone has deleted. By default it is kept.
	// +optional
	Deletion KeystoneDeletion `json:"deletion,omitzero"`
	// guard keeps what has gone from Keystone's lists if it is much.
	// +optional
	Guard KeystoneGuard `json:"guard,omitzero"`
}

// KeystoneDomains select domains: by ids and names, or all but some.
// +kubebuilder:validation:XValidation:rule="has(self.allExcept) != (has(self.ids) || has(self.names))",message="name domains by ids and names, or set allExcept, which may be {} for all"
type KeystoneDomains struct {
	// ids of domains.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z0-9_.@-]{1,64}$`
	IDs []string `json:"ids,omitempty"`
	// names of domains. Whoever may rename domains chooses by them which are synchronised.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	Names []string `json:"names,omitempty"`
	// allExcept are domains that are left out; all others are meant.
	// +optional
	AllExcept *KeystoneExcluded `json:"allExcept,omitempty"`
}

// KeystoneExcluded are domains that are left out.
type KeystoneExcluded struct {
	// ids of domains.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z0-9_.@-]{1,64}$`
	IDs []string `json:"ids,omitempty"`
	// names of domains.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	Names []string `json:"names,omitempty"`
}

// KeystoneScope is the scope of tokens.
// +enum
type KeystoneScope string

const (
	// KeystoneScopeProject is that of a project.
	KeystoneScopeProject KeystoneScope = "Project"
	// KeystoneScopeDomain is that of a domain.
	KeystoneScopeDomain KeystoneScope = "Domain"
)

// KeystoneRoleMapping gives tokens with a role the rights of a ClusterRole.
type KeystoneRoleMapping struct {
	// roleID is the id of the role. Names of roles may change, and give no rights.
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_.@-]{1,64}$`
	RoleID string `json:"roleID"`
	// description is for people, such as the role's name.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	Description string `json:"description,omitempty"`
	// scope is Project, for the rights in the namespace of the project that a token is for, or
	// Domain, for the rights in the whole space of a token for the domain.
	// +kubebuilder:validation:Enum=Project;Domain
	Scope KeystoneScope `json:"scope"`
	// clusterRole is the name of a ClusterRole of the space, such as edit.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ClusterRole string `json:"clusterRole"`
}

// KeystoneTenantTemplate are the limits of Tenants, as in their spec.
type KeystoneTenantTemplate struct {
	// quota is the hard limits of a tenant as a whole.
	// +optional
	// +kubebuilder:validation:MaxProperties=128
	Quota map[corev1.ResourceName]resource.Quantity `json:"quota,omitempty"`
	// nodePlacement is how far a tenant's pods may choose their nodes.
	// +optional
	NodePlacement *NodePlacement `json:"nodePlacement,omitempty"`
	// daemonSets is what becomes of a tenant's DaemonSets.
	// +optional
	DaemonSets *DaemonSets `json:"daemonSets,omitempty"`
	// rateLimit bounds what a tenant's users may ask of each server.
	// +optional
	RateLimit *RateLimit `json:"rateLimit,omitempty"`
	// requestLimit bounds how large one request of a tenant's users may be.
	// +optional
	RequestLimit *RequestLimit `json:"requestLimit,omitempty"`
}

// KeystoneDeletion is what becomes of what Keystone has deleted. Its rights are taken away
// in any case.
type KeystoneDeletion struct {
	// tenants is what becomes of Tenants whose domain is gone.
	// +optional
	Tenants KeystoneTenantDeletion `json:"tenants,omitzero"`
	// namespaces is what becomes of namespaces whose project is gone.
	// +optional
	Namespaces KeystoneNamespaceDeletion `json:"namespaces,omitzero"`
}

const (
	// KeystoneSuspend and KeystoneKeep keep what is in a space.
	KeystoneSuspend = "Suspend"
	KeystoneKeep    = "Keep"
	// KeystoneDelete deletes it after some time.
	KeystoneDelete = "Delete"
)

// KeystoneTenantDeletion is what becomes of Tenants.
// +kubebuilder:validation:XValidation:rule="!has(self.gracePeriod) || (has(self.policy) && self.policy == 'Delete')",message="gracePeriod needs policy: Delete"
type KeystoneTenantDeletion struct {
	// policy is Suspend or Delete, which suspends at once and deletes after gracePeriod.
	// Adopted Tenants are never deleted. Defaults to Suspend.
	// +optional
	// +kubebuilder:validation:Enum=Suspend;Delete
	Policy string `json:"policy,omitempty"`
	// gracePeriod is how long a Tenant stays suspended before it is deleted. Defaults to
	// 168h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s')",message="must not be negative"
	GracePeriod *metav1.Duration `json:"gracePeriod,omitempty"`
}

// KeystoneNamespaceDeletion is what becomes of namespaces.
// +kubebuilder:validation:XValidation:rule="!has(self.gracePeriod) || (has(self.policy) && self.policy == 'Delete')",message="gracePeriod needs policy: Delete"
type KeystoneNamespaceDeletion struct {
	// policy is Keep or Delete. Defaults to Keep.
	// +optional
	// +kubebuilder:validation:Enum=Keep;Delete
	Policy string `json:"policy,omitempty"`
	// gracePeriod is how long a namespace stays before it is deleted. Defaults to 168h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s')",message="must not be negative"
	GracePeriod *metav1.Duration `json:"gracePeriod,omitempty"`
}

// KeystoneGuard keeps what has gone from Keystone's lists if it is much: an account that has
// lost rights may see less than there is.
type KeystoneGuard struct {
	// maxRemovedPercent is the share of the domains, and of the projects, that may go or, if it is
	// more than one, be disabled between two runs. If there are more, they are treated as if
	// nothing had changed until somebody writes status.removed.token into acknowledged. Defaults
	// to 30.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	MaxRemovedPercent *int32 `json:"maxRemovedPercent,omitempty"`
	// acknowledged is the token of the removal that is right.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Acknowledged string `json:"acknowledged,omitempty"`
}

// KeystoneSyncStatus is what has been made of Keystone.
type KeystoneSyncStatus struct {
	// observedGeneration is the generation of the spec that the conditions are about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready, Incomplete, GuardTripped, DomainsMissing, ClusterRolesMissing.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +patchMergeKey=type
	// +patchStrategy=merge
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
	// lastSyncTime is when the last complete run began.
	// +optional
	LastSyncTime *metav1.Time `json:"lastSyncTime,omitempty"`
	// lastDuration is how long that run took.
	// +optional
	LastDuration *metav1.Duration `json:"lastDuration,omitempty"`
	// domains, projects and bindings are how many there are to be.
	// +optional
	Domains int32 `json:"domains"`
	// +optional
	Projects int32 `json:"projects"`
	// +optional
	Bindings int32 `json:"bindings"`
	// changes is how many the last run made or, with mode Preview, would have made.
	// +optional
	Changes int32 `json:"changes,omitempty"`
	// planned are the first 100 of the changes that mode Sync would make, with mode Preview.
	// +optional
	// +listType=atomic
	Planned []string `json:"planned,omitempty"`
	// conflicts are the first 100 things that are not done because something else is there.
	// +optional
	// +listType=atomic
	Conflicts []string `json:"conflicts,omitempty"`
	// removed is what has gone from Keystone's lists while that is not acknowledged.
	// +optional
	Removed *KeystoneRemoved `json:"removed,omitempty"`
	// unmappedRoles are the first 100 roles that somebody has in a selected domain or one of its
	// projects, and that are mapped in no scope.
	// +optional
	// +listType=atomic
	UnmappedRoles []KeystoneUnmappedRole `json:"unmappedRoles,omitempty"`
}

// KeystoneRemoved counts what has gone from Keystone's lists.
type KeystoneRemoved struct {
	// domains and projects are how many have gone.
	Domains  int32 `json:"domains"`
	Projects int32 `json:"projects"`
	// disabledDomains and disabledProjects are how many have been disabled.
	// +optional
	DisabledDomains int32 `json:"disabledDomains,omitempty"`
	// +optional
	DisabledProjects int32 `json:"disabledProjects,omitempty"`
	// token stands for what has gone, for spec.guard.acknowledged.
	Token string `json:"token"`
}

// KeystoneUnmappedRole is a role without mapping.
type KeystoneUnmappedRole struct {
	// id of the role.
	ID string `json:"id"`
	// name of the role.
	// +optional
	Name string `json:"name,omitempty"`
	// assignments is how often it is assigned.
	Assignments int32 `json:"assignments"`
}

// KeystoneSyncList is a list of KeystoneSyncs.
//
// +kubebuilder:object:root=true
type KeystoneSyncList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []KeystoneSync `json:"items"`
}
