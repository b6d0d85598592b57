package v1alpha1

const (
	// ConditionWorkloadsReady is true while pods of the spaces of a ControlPlane run on the host, and is there if
	// spec.workloads is, or was.
	ConditionWorkloadsReady = "WorkloadsReady"

	// ReasonSyncerReady and the others are the reasons of ConditionWorkloadsReady.
	ReasonSyncerReady    = "SyncerReady"
	ReasonSyncerNotReady = "SyncerNotReady"
	ReasonStopped        = "Stopped"
)

// ControlPlaneWorkloads has the pods of spaces run on the host. The operator makes what is needed in the namespace of the
// ControlPlane, and gives no rights: an administrator of the host binds those of config/workloads to the ServiceAccount
// NAME.syncer.tenantry.io, as the condition WorkloadsReady says.
// +k8s:openapi-gen=false
type ControlPlaneWorkloads struct {
	// networkIsolation is how pods of tenants are kept apart on the network of the host.
	// +optional
	NetworkIsolation ControlPlaneNetworkIsolation `json:"networkIsolation,omitzero"`
	// localImages is whether pods may use images that are on their node already, as their pull policies
	// say. Defaults to Untrusted: images are always pulled, so that nobody uses what another tenant has
	// pulled. Trusted is for hosts whose kubelets look after that (--trust-local-images of the syncer).
	// +optional
	// +kubebuilder:validation:Enum=Untrusted;Trusted
	LocalImages LocalImages `json:"localImages,omitempty"`
	// orphanLimit is how many objects of the host may be deleted within ten minutes whose counterpart
	// in a space is gone without having been seen to be deleted. If it would be more than that, and
	// more than a tenth of all, nothing more of them is deleted. Of one tenant it is half as many, and
	// nothing more of that tenant. As many pods of spaces, counted apart, are deleted that have run on
	// a host and are on it no more. Defaults to 50 (--orphan-limit).
	// +optional
	// +kubebuilder:validation:Minimum=0
	OrphanLimit *int32 `json:"orphanLimit,omitempty"`
	// resources of the syncer, which makes what is on the host. By default it requests 100m of CPU and
	// 128Mi of memory, and has at most 1Gi of memory.
	// +optional
	Resources *ControlPlaneResources `json:"resources,omitempty"`
}

// ControlPlaneNetworkIsolation is how pods of tenants are kept apart on a network.
// +k8s:openapi-gen=false
type ControlPlaneNetworkIsolation struct {
	// mode is Enforced or Unenforced. Defaults to Enforced: pods run only while two pods of the
	// operator's image find that the host enforces network policies. Unenforced runs them in any case,
	// by which you accept that every pod may reach every other tenant's (--network-isolation).
	// +optional
	// +kubebuilder:validation:Enum=Enforced;Unenforced
	Mode NetworkIsolationMode `json:"mode,omitempty"`
	// clusterCIDRs are the networks of the host's pods, Services and nodes, and of whatever else is not
	// outside for pods of spaces. Without them, these are all private ones. What nodes and ServiceCIDRs
	// tell is added (--network-isolation-cluster-cidrs).
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.all(c, isCIDR(c) && cidr(c) == cidr(c).masked())",message="each of clusterCIDRs must be a network such as 10.0.0.0/8 or fd00::/8, without bits of an address in it"
	ClusterCIDRs []string `json:"clusterCIDRs,omitempty"`
	// allowedCIDRs are networks that all pods of spaces reach, whatever policies say, such as those of
	// name servers with a private address (--network-isolation-allow-cidrs).
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.all(c, isCIDR(c) && cidr(c) == cidr(c).masked())",message="each of allowedCIDRs must be a network such as 10.0.0.0/8 or fd00::/8, without bits of an address in it"
	AllowedCIDRs []string `json:"allowedCIDRs,omitempty"`
}

// NetworkIsolationMode says whether the host must keep tenants' pods apart.
// +enum
type NetworkIsolationMode string

const (
	// NetworkIsolationEnforced runs pods only while the host enforces network policies.
	NetworkIsolationEnforced NetworkIsolationMode = "Enforced"
	// NetworkIsolationUnenforced runs pods in any case.
	NetworkIsolationUnenforced NetworkIsolationMode = "Unenforced"
)

// LocalImages says whether pods use images that others have pulled.
// +enum
type LocalImages string

const (
	// LocalImagesUntrusted has all images pulled each time.
	LocalImagesUntrusted LocalImages = "Untrusted"
	// LocalImagesTrusted leaves pull policies as pods have them.
	LocalImagesTrusted LocalImages = "Trusted"
)
