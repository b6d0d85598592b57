package v1alpha1

import "k8s.io/apimachinery/pkg/runtime"

// ConfigurationSource is where a configuration file is: in the ControlPlane itself, or in a
// ConfigMap or a Secret of its namespace that has the label tenantry.io/control-plane with its
// name.
//
// +k8s:openapi-gen=false
// +kubebuilder:validation:XValidation:rule="[has(self.inline), has(self.configMapName), has(self.secretName)].filter(h, h).size() == 1",message="name one source: inline, configMapName or secretName"
type ConfigurationSource struct {
	// inline is the content itself. Who may read the ControlPlane may read it: leave what is
	// secret to secretName.
	// +optional
	// +kubebuilder:validation:EmbeddedResource
	// +kubebuilder:pruning:PreserveUnknownFields
	Inline *runtime.RawExtension `json:"inline,omitempty"`
	// configMapName is a ConfigMap with the file under the key that the field says. Its other
	// keys are files beside it, which it may name.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Subdomain().validate(self).hasValue()",message="configMapName must be the name of a ConfigMap"
	ConfigMapName string `json:"configMapName,omitempty"`
	// secretName is a Secret with the same.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Subdomain().validate(self).hasValue()",message="secretName must be the name of a Secret"
	SecretName string `json:"secretName,omitempty"`
}

// ControlPlaneAuthentication says who users are.
// +k8s:openapi-gen=false
type ControlPlaneAuthentication struct {
	// configuration is an AuthenticationConfiguration of apiserver.config.k8s.io, under the key
	// authentication.yaml. Claims are mapped to tenants by the extra tenantry.io/tenant. Probes
	// of the host are anonymous, so that anonymous must be possible for /livez and /readyz.
	// Servers take over a change without new pods.
	// +required
	// +kubebuilder:validation:XValidation:rule="!has(self.inline) || self.inline.kind == 'AuthenticationConfiguration'",message="inline must be an AuthenticationConfiguration of apiserver.config.k8s.io"
	Configuration ConfigurationSource `json:"configuration,omitzero"`
	// systemIssuers are URLs of those issuers that may name the tenant system: their users can
	// be administrators of the control plane. None by default.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.all(i, i.matches('^https://[^, ]+$'))",message="each of systemIssuers must be the URL of an issuer, such as https://id.example.com/realms/operators"
	SystemIssuers []string `json:"systemIssuers,omitempty"`
}

// ControlPlaneAuthorization says which authorizers decide within a space.
// +k8s:openapi-gen=false
type ControlPlaneAuthorization struct {
	// configuration is an AuthorizationConfiguration of apiserver.config.k8s.io, under the key
	// authorization.yaml, with authorizers of the types Node, RBAC and Webhook. A kubeConfigFile
	// is /etc/tenantry/configuration/authorization/KEY, for another key of the ConfigMap or
	// Secret. Defaults to Node and RBAC. Servers take over a change of webhooks without new pods.
	// +required
	// +kubebuilder:validation:XValidation:rule="!has(self.inline) || self.inline.kind == 'AuthorizationConfiguration'",message="inline must be an AuthorizationConfiguration of apiserver.config.k8s.io"
	Configuration ConfigurationSource `json:"configuration,omitzero"`
}

// ControlPlaneAudit says what is logged of requests.
// +k8s:openapi-gen=false
type ControlPlaneAudit struct {
	// policy is a Policy of audit.k8s.io/v1, under the key audit.yaml. It holds where a Tenant
	// has no auditPolicy of its own.
	// +required
	// +kubebuilder:validation:XValidation:rule="!has(self.inline) || self.inline.kind == 'Policy'",message="inline must be a Policy of audit.k8s.io/v1"
	Policy ConfigurationSource `json:"policy,omitzero"`
	// webhookSecretName is a Secret with the kubeconfig of a webhook, under the key kubeconfig,
	// that events are sent to. It has the label tenantry.io/control-plane with the name of the
	// ControlPlane; its other keys are files beside the kubeconfig. Without it, events are
	// lines of JSON in the log of the servers' containers.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Subdomain().validate(self).hasValue()",message="webhookSecretName must be the name of a Secret"
	WebhookSecretName string `json:"webhookSecretName,omitempty"`
}

// ControlPlaneAdmission configures admission plugins.
// +k8s:openapi-gen=false
type ControlPlaneAdmission struct {
	// configuration is an AdmissionConfiguration of apiserver.config.k8s.io, under the key
	// admission.yaml. A path in it is another key of the ConfigMap or Secret.
	// +required
	// +kubebuilder:validation:XValidation:rule="!has(self.inline) || self.inline.kind == 'AdmissionConfiguration'",message="inline must be an AdmissionConfiguration of apiserver.config.k8s.io"
	Configuration ConfigurationSource `json:"configuration,omitzero"`
}

// ControlPlaneManager configures the controllers of Tenants.
// +k8s:openapi-gen=false
type ControlPlaneManager struct {
	// configuration is a ManagerConfiguration of config.tenantry.io/v1alpha1, under the key
	// manager.yaml.
	// +required
	// +kubebuilder:validation:XValidation:rule="!has(self.inline) || self.inline.kind == 'ManagerConfiguration'",message="inline must be a ManagerConfiguration of config.tenantry.io/v1alpha1"
	Configuration ConfigurationSource `json:"configuration,omitzero"`
}

// ControlPlaneLimits bound what tenants, and servers for all of them, may take.
// +k8s:openapi-gen=false
type ControlPlaneLimits struct {
	// rateLimit is that of Tenants that say nothing themselves. Without it there is no limit.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.burst) || self.burst <= 1000000",message="burst must be 1000000 at most"
	RateLimit *RateLimit `json:"rateLimit,omitempty"`
	// requestLimit is that of Tenants that say nothing themselves. Without it bodies have 3 MiB
	// at most, and lists any number of objects.
	// +optional
	RequestLimit *RequestLimit `json:"requestLimit,omitempty"`
	// tenantWatchBytes is what the watches of each tenant may hold of large events on a server,
	// in bytes, 32 MiB at least. 0 is no limit. Defaults to 64 MiB.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1099511627776
	// +kubebuilder:validation:XValidation:rule="self == 0 || self >= 33554432",message="tenantWatchBytes must be 0, no limit, or 33554432 at least"
	TenantWatchBytes *int64 `json:"tenantWatchBytes,omitempty"`
	// watchCacheHistoryBytes is what all watch caches of a server may keep of the past, for
	// clients that resume watches, in bytes. 0 is no limit. Defaults to 256 MiB.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1099511627776
	WatchCacheHistoryBytes *int64 `json:"watchCacheHistoryBytes,omitempty"`
}
