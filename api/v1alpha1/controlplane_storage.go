package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
)

// ControlPlaneStorage is where the objects of all spaces are.
// +k8s:openapi-gen=false
// +kubebuilder:validation:XValidation:rule="has(self.embedded) != has(self.etcd)",message="name one kind of storage: embedded or etcd"
// +kubebuilder:validation:XValidation:rule="has(self.etcd) == has(oldSelf.etcd)",message="the kind of storage cannot be changed, because objects do not move: create another ControlPlane"
type ControlPlaneStorage struct {
	// embedded is an etcd of one member, in the process of the one server.
	// +optional
	Embedded *EmbeddedStorage `json:"embedded,omitempty"`
	// etcd is an etcd that somebody else runs, for several servers.
	// +optional
	Etcd *EtcdStorage `json:"etcd,omitempty"`
}

// EmbeddedStorage is a volume for an etcd of one member.
// +kubebuilder:validation:XValidation:rule="has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",message="storageClassName cannot be changed: the volume is there already"
// +k8s:openapi-gen=false
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

// EtcdStorage is an etcd that somebody else runs. It must ask for client certificates: who can
// write to it has all that is in the control plane.
// +kubebuilder:validation:XValidation:rule="has(self.prefix) == has(oldSelf.prefix) && (!has(self.prefix) || self.prefix == oldSelf.prefix)",message="prefix cannot be changed: the objects are below it already"
// +kubebuilder:validation:XValidation:rule="has(self.overrides) == has(oldSelf.overrides) && (!has(self.overrides) || self.overrides.map(o, o.resource) == oldSelf.overrides.map(o, o.resource))",message="overrides cannot be added, taken away or put into another order: the objects of their resources do not move. Their endpoints can be changed"
// +k8s:openapi-gen=false
type EtcdStorage struct {
	// endpoints are the members, as https://HOST:PORT. Change them in steps that keep one: a
	// change to another etcd would be one to no objects.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=9
	// +kubebuilder:validation:items:MaxLength=280
	// +kubebuilder:validation:XValidation:rule="self.all(e, e.matches('^https://([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*|[[][0-9a-f:.]+[]]):([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$'))",message="each of endpoints must be https://HOST:PORT, such as https://etcd-0.example.com:2379"
	// +kubebuilder:validation:XValidation:rule="self.exists(e, e in oldSelf)",message="keep one of the endpoints that were there: add the new ones first, and take the others away then"
	Endpoints []string `json:"endpoints,omitempty"`
	// prefix of all keys in that etcd, for this control plane alone. Defaults to
	// /control-planes/NAMESPACE/NAME. Servers start neither where another control plane is at
	// or below the prefix, or above it, nor where something else is. It cannot be changed.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^(/[a-zA-Z0-9][-a-zA-Z0-9_.]*)+$')",message="prefix must be a path such as /control-planes/one: letters, digits, '-', '_' and '.' after each '/', and no '/' at the end"
	// +kubebuilder:validation:XValidation:rule="self != '/tenantry' && !self.startsWith('/tenantry/')",message="prefix must not be in /tenantry, where servers keep the names of deleted tenants"
	Prefix string `json:"prefix,omitempty"`
	// secretName is the Secret with the certificate (tls.crt) and the key (tls.key) by which
	// servers log in to etcd, and with the authorities of etcd's own certificates (ca.crt). It
	// must be in the namespace of the ControlPlane and have the label
	// tenantry.io/control-plane with its name.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Subdomain().validate(self).hasValue()",message="secretName must be the name of a Secret"
	SecretName string `json:"secretName,omitempty"`
	// overrides put some resources into etcds of their own, which take the same certificate
	// and have the same prefix. They cannot be added or taken away later.
	// +optional
	// +listType=map
	// +listMapKey=resource
	// +kubebuilder:validation:MaxItems=8
	Overrides []EtcdOverride `json:"overrides,omitempty"`
}

// EtcdOverride is where the objects of one resource are.
// +k8s:openapi-gen=false
type EtcdOverride struct {
	// resource is "resource" or "resource.group", such as events or leases.coordination.k8s.io.
	// Custom resources, and those of tenantry.io, stay in the etcd of all others.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]+([.][a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$')",message="resource must be RESOURCE or RESOURCE.GROUP in lower case, such as events or leases.coordination.k8s.io"
	// +kubebuilder:validation:XValidation:rule="!self.endsWith('.tenantry.io')",message="resource must not be one of tenantry.io, which are in the etcd of all others"
	Resource string `json:"resource,omitempty"`
	// endpoints are the members, as those of all other resources.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=9
	// +kubebuilder:validation:items:MaxLength=280
	// +kubebuilder:validation:XValidation:rule="self.all(e, e.matches('^https://([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*|[[][0-9a-f:.]+[]]):([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$'))",message="each of endpoints must be https://HOST:PORT, such as https://etcd-0.example.com:2379"
	// +kubebuilder:validation:XValidation:rule="self.exists(e, e in oldSelf)",message="keep one of the endpoints that were there: add the new ones first, and take the others away then"
	Endpoints []string `json:"endpoints,omitempty"`
}
