package translate

import (
	"maps"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// treatment is what becomes of a field: same, changed, or the reason for which it is refused.
type treatment string

const (
	// same fields are the host's as they are, but for what the table says of fields below them.
	same treatment = "same"
	// changed fields are something else on the host, or nothing, see pod.go. If there is a condition for
	// them it is in check.go.
	changed treatment = "changed"
)

// What is refused, and the way out.
const (
	noNodes     treatment = "pods of a space have nothing of the host's nodes; remove it"
	noPorts     treatment = "pods of a space have no ports of the host's nodes; use a Service"
	noHosts     treatment = "probes and hooks go to the pod itself; remove it"
	noVolume    treatment = "volumes of this type reach what is not the tenant's; use persistentVolumeClaim, ephemeral, emptyDir, configMap, secret, projected, downwardAPI or image"
	noDriver    treatment = "drivers of the host's volumes are not for pods to name; use persistentVolumeClaim or ephemeral, with a class that is published"
	noSelector  treatment = "volumes of the host are not chosen by labels; remove it, and name a class that is published"
	noModifying treatment = "attributes of volumes are the host's, in classes that are not published yet; remove it"
	noElsewhere treatment = "a volume is not made of what is in another namespace; remove it"
	noDevices   treatment = "devices and their claims are not there yet for pods that run on a host cluster; remove it"
	noGroups    treatment = "groups of pods are not scheduled together on a host cluster; remove it"
	noProfile   treatment = "profiles of the host's nodes are not for pods of a space; use RuntimeDefault"
	noLevel     treatment = "SELinux levels keep the host's containers apart, and are chosen by the host; remove it"
	noGMSA      treatment = "the host's credentials are not for pods of a space; remove it"
	noRuntime   treatment = "RuntimeClasses are not there yet for pods that run on a host cluster; remove it"
	noSpread    treatment = "affinity to pods is with those of the same namespace; remove it"
	noFQDN      treatment = "the host has another domain; remove it, or use hostnameOverride"
	noBundles   treatment = "trust bundles and certificates of pods are not there yet for pods that run on a host cluster; use a Secret or ConfigMap"
	noDebug     treatment = "ephemeral containers may not have this field; remove it"
	noExternal  treatment = "addresses from outside could take traffic that is others' (CVE-2020-8554); use a Service without them"
	noChoice    treatment = "the host cluster chooses what makes a load balancer, and its address; remove it"
	noDefault   treatment = "an Ingress would have what is sent for every host name by it; name hosts in rules, and remove it"
	noResource  treatment = "what serves Ingresses could reach by it what is not the tenant's; use a Service"
	noFilter    treatment = "what serves Gateways could reach by it what is not the tenant's; use RequestHeaderModifier, ResponseHeaderModifier, RequestRedirect or URLRewrite"
	noPerRef    treatment = "filters are of a rule; put the backend into a rule of its own, with them there"
	noPolicy    treatment = "what serves Gateways of all tenants does not do it; remove it, or have the Service do it"
	noResponder treatment = "evictions on the host wait for nobody in a space; remove it"
)

// fields is the table: what becomes of each field of a type.
var fields = map[reflect.Type]map[string]treatment{
	reflect.TypeFor[corev1.PodSpec](): {
		"Volumes": changed, "InitContainers": same, "Containers": same, "EphemeralContainers": changed, "RestartPolicy": same,
		"TerminationGracePeriodSeconds": changed, "ActiveDeadlineSeconds": same, "DNSPolicy": changed, "NodeSelector": same,
		"ServiceAccountName": changed, "DeprecatedServiceAccount": changed, "AutomountServiceAccountToken": changed,
		"NodeName": changed, "HostNetwork": noNodes, "HostPID": noNodes, "HostIPC": noNodes, "ShareProcessNamespace": same,
		"SecurityContext": same, "ImagePullSecrets": changed, "Hostname": same, "Subdomain": same, "Affinity": same,
		"SchedulerName": changed, "Tolerations": same, "HostAliases": same, "PriorityClassName": changed, "Priority": changed,
		"DNSConfig": changed, "ReadinessGates": same, "RuntimeClassName": noRuntime, "EnableServiceLinks": changed,
		"PreemptionPolicy": changed, "Overhead": noRuntime, "TopologySpreadConstraints": same, "SetHostnameAsFQDN": noFQDN, "OS": same,
		"HostUsers": same, "SchedulingGates": changed, "ResourceClaims": noDevices, "Resources": same, "HostnameOverride": same,
		"SchedulingGroup": noGroups, "EvictionResponders": noResponder,
	},
	reflect.TypeFor[corev1.PodReadinessGate](): all(same, "ConditionType"),
	reflect.TypeFor[corev1.Volume]():           all(same, "Name", "VolumeSource"),
	reflect.TypeFor[corev1.VolumeSource](): merged(
		all(same, "EmptyDir", "DownwardAPI", "Image", "Projected", "Secret", "ConfigMap", "PersistentVolumeClaim"),
		all(changed, "Ephemeral"), all(noDriver, "CSI"),
		all(noVolume, "HostPath", "GCEPersistentDisk", "AWSElasticBlockStore", "GitRepo", "NFS", "ISCSI", "Glusterfs", "RBD", "FlexVolume",
			"Cinder", "CephFS", "Flocker", "FC", "AzureFile", "VsphereVolume", "Quobyte", "AzureDisk", "PhotonPersistentDisk",
			"PortworxVolume", "ScaleIO", "StorageOS")),
	reflect.TypeFor[corev1.EmptyDirVolumeSource]():    all(same, "Medium", "SizeLimit", "Mode"),
	reflect.TypeFor[corev1.SecretVolumeSource]():      merged(all(changed, "SecretName"), all(same, "Items", "DefaultMode", "Optional", "DefaultUser")),
	reflect.TypeFor[corev1.ConfigMapVolumeSource]():   all(same, "LocalObjectReference", "Items", "DefaultMode", "Optional", "DefaultUser"),
	reflect.TypeFor[corev1.KeyToPath]():               all(same, "Key", "Path", "Mode", "User"),
	reflect.TypeFor[corev1.LocalObjectReference]():    all(changed, "Name"),
	reflect.TypeFor[corev1.DownwardAPIVolumeSource](): all(same, "Items", "DefaultMode", "DefaultUser"),
	reflect.TypeFor[corev1.DownwardAPIVolumeFile]():   all(same, "Path", "FieldRef", "ResourceFieldRef", "Mode", "User"),
	reflect.TypeFor[corev1.ObjectFieldSelector]():     all(changed, "APIVersion", "FieldPath"),
	reflect.TypeFor[corev1.ResourceFieldSelector]():   all(same, "ContainerName", "Resource", "Divisor"),
	reflect.TypeFor[corev1.ProjectedVolumeSource]():   all(same, "Sources", "DefaultMode", "DefaultUser"),
	reflect.TypeFor[corev1.VolumeProjection](): merged(all(same, "Secret", "DownwardAPI", "ConfigMap"),
		all(changed, "ServiceAccountToken"), all(noBundles, "ClusterTrustBundle", "PodCertificate")),
	reflect.TypeFor[corev1.SecretProjection]():              all(same, "LocalObjectReference", "Items", "Optional"),
	reflect.TypeFor[corev1.ConfigMapProjection]():           all(same, "LocalObjectReference", "Items", "Optional"),
	reflect.TypeFor[corev1.DownwardAPIProjection]():         all(same, "Items"),
	reflect.TypeFor[corev1.ServiceAccountTokenProjection](): all(changed, "Audience", "ExpirationSeconds", "Path", "User"),
	reflect.TypeFor[corev1.ImageVolumeSource]():             merged(all(same, "Reference"), all(changed, "PullPolicy")),
	reflect.TypeFor[corev1.Container](): merged(
		all(same, "Name", "Image", "Command", "Args", "WorkingDir", "Ports", "EnvFrom", "Env", "Resources", "ResizePolicy", "RestartPolicy",
			"RestartPolicyRules", "VolumeMounts", "LivenessProbe", "ReadinessProbe", "StartupProbe", "Lifecycle",
			"TerminationMessagePath", "TerminationMessagePolicy", "Stdin", "StdinOnce", "TTY", "VolumeDevices"),
		all(changed, "ImagePullPolicy", "SecurityContext")),
	// They are added by a subresource of the host's pod.
	reflect.TypeFor[corev1.EphemeralContainer](): all(same, "EphemeralContainerCommon", "TargetContainerName"),
	reflect.TypeFor[corev1.EphemeralContainerCommon](): merged(
		all(same, "Image", "Command", "Args", "WorkingDir", "EnvFrom", "Env", "VolumeMounts", "TerminationMessagePath", "TerminationMessagePolicy",
			"Stdin", "StdinOnce", "TTY", "VolumeDevices"),
		all(changed, "Name", "ImagePullPolicy", "SecurityContext"),
		all(noDebug, "Ports", "Resources", "ResizePolicy", "RestartPolicy", "RestartPolicyRules", "LivenessProbe", "ReadinessProbe", "StartupProbe", "Lifecycle")),
	reflect.TypeFor[corev1.VolumeDevice]():                    all(same, "Name", "DevicePath"),
	reflect.TypeFor[corev1.ContainerPort]():                   merged(all(same, "Name", "ContainerPort", "Protocol"), all(noPorts, "HostPort", "HostIP")),
	reflect.TypeFor[corev1.EnvFromSource]():                   all(same, "Prefix", "ConfigMapRef", "SecretRef"),
	reflect.TypeFor[corev1.ConfigMapEnvSource]():              all(same, "LocalObjectReference", "Optional"),
	reflect.TypeFor[corev1.SecretEnvSource]():                 all(same, "LocalObjectReference", "Optional"),
	reflect.TypeFor[corev1.EnvVar]():                          all(same, "Name", "Value", "ValueFrom"),
	reflect.TypeFor[corev1.EnvVarSource]():                    all(same, "FieldRef", "ResourceFieldRef", "ConfigMapKeyRef", "SecretKeyRef", "FileKeyRef"),
	reflect.TypeFor[corev1.ConfigMapKeySelector]():            all(same, "LocalObjectReference", "Key", "Optional"),
	reflect.TypeFor[corev1.SecretKeySelector]():               all(same, "LocalObjectReference", "Key", "Optional"),
	reflect.TypeFor[corev1.FileKeySelector]():                 all(same, "VolumeName", "Path", "Key", "Optional"),
	reflect.TypeFor[corev1.ResourceRequirements]():            merged(all(same, "Limits", "Requests"), all(noDevices, "Claims")),
	reflect.TypeFor[corev1.ContainerResizePolicy]():           all(same, "ResourceName", "RestartPolicy"),
	reflect.TypeFor[corev1.ContainerRestartRule]():            all(same, "Action", "ExitCodes"),
	reflect.TypeFor[corev1.ContainerRestartRuleOnExitCodes](): all(same, "Operator", "Values"),
	reflect.TypeFor[corev1.VolumeMount](): all(same, "Name", "ReadOnly", "RecursiveReadOnly", "MountPath", "SubPath", "MountPropagation",
		"SubPathExpr", "BindMountOptions"),
	reflect.TypeFor[corev1.Probe](): all(same, "ProbeHandler", "InitialDelaySeconds", "TimeoutSeconds", "PeriodSeconds", "SuccessThreshold",
		"FailureThreshold", "TerminationGracePeriodSeconds"),
	reflect.TypeFor[corev1.ProbeHandler]():     all(same, "Exec", "HTTPGet", "TCPSocket", "GRPC"),
	reflect.TypeFor[corev1.ExecAction]():       all(same, "Command"),
	reflect.TypeFor[corev1.HTTPGetAction]():    merged(all(same, "Path", "Port", "Scheme", "HTTPHeaders", "Protocol"), all(noHosts, "Host")),
	reflect.TypeFor[corev1.HTTPHeader]():       all(same, "Name", "Value"),
	reflect.TypeFor[corev1.TCPSocketAction]():  merged(all(same, "Port"), all(noHosts, "Host")),
	reflect.TypeFor[corev1.GRPCAction]():       all(same, "Port", "Service", "Mode"),
	reflect.TypeFor[corev1.Lifecycle]():        all(same, "PostStart", "PreStop", "StopSignal"),
	reflect.TypeFor[corev1.LifecycleHandler](): all(same, "Exec", "HTTPGet", "TCPSocket", "Sleep"),
	reflect.TypeFor[corev1.SleepAction]():      all(same, "Seconds"),
	// What a security context may ask for is the Pod Security level's to say, see level.go.
	reflect.TypeFor[corev1.SecurityContext](): merged(
		all(same, "Privileged", "SELinuxOptions", "WindowsOptions", "RunAsUser", "RunAsGroup", "RunAsNonRoot", "ReadOnlyRootFilesystem",
			"AllowPrivilegeEscalation", "ProcMount", "SeccompProfile", "AppArmorProfile"),
		all(changed, "Capabilities")),
	reflect.TypeFor[corev1.Capabilities]():                  all(changed, "Add", "Drop"),
	reflect.TypeFor[corev1.SELinuxOptions]():                merged(all(same, "User", "Role", "Type"), all(noLevel, "Level")),
	reflect.TypeFor[corev1.WindowsSecurityContextOptions](): merged(all(same, "RunAsUserName"), all(noGMSA, "GMSACredentialSpecName", "GMSACredentialSpec"), all(noNodes, "HostProcess")),
	reflect.TypeFor[corev1.SeccompProfile]():                merged(all(same, "Type"), all(noProfile, "LocalhostProfile")),
	reflect.TypeFor[corev1.AppArmorProfile]():               merged(all(same, "Type"), all(noProfile, "LocalhostProfile")),
	reflect.TypeFor[corev1.PodSecurityContext](): all(same, "SELinuxOptions", "WindowsOptions", "RunAsUser", "RunAsGroup", "RunAsNonRoot",
		"SupplementalGroups", "SupplementalGroupsPolicy", "FSGroup", "Sysctls", "FSGroupChangePolicy", "SeccompProfile", "AppArmorProfile",
		"SELinuxChangePolicy"),
	reflect.TypeFor[corev1.Sysctl](): all(same, "Name", "Value"),
	// Which nodes a pod may choose is the Tenant's nodePlacement's to say, which admission asks.
	reflect.TypeFor[corev1.Affinity]():                all(same, "NodeAffinity", "PodAffinity", "PodAntiAffinity"),
	reflect.TypeFor[corev1.NodeAffinity]():            all(same, "RequiredDuringSchedulingIgnoredDuringExecution", "PreferredDuringSchedulingIgnoredDuringExecution"),
	reflect.TypeFor[corev1.NodeSelector]():            all(same, "NodeSelectorTerms"),
	reflect.TypeFor[corev1.NodeSelectorTerm]():        all(same, "MatchExpressions", "MatchFields"),
	reflect.TypeFor[corev1.NodeSelectorRequirement](): all(same, "Key", "Operator", "Values"),
	reflect.TypeFor[corev1.PreferredSchedulingTerm](): all(same, "Weight", "Preference"),
	reflect.TypeFor[corev1.PodAffinity]():             all(same, "RequiredDuringSchedulingIgnoredDuringExecution", "PreferredDuringSchedulingIgnoredDuringExecution"),
	reflect.TypeFor[corev1.PodAntiAffinity]():         all(same, "RequiredDuringSchedulingIgnoredDuringExecution", "PreferredDuringSchedulingIgnoredDuringExecution"),
	reflect.TypeFor[corev1.WeightedPodAffinityTerm](): all(same, "Weight", "PodAffinityTerm"),
	reflect.TypeFor[corev1.PodAffinityTerm](): merged(all(same, "LabelSelector", "TopologyKey"), all(changed, "MatchLabelKeys", "MismatchLabelKeys"),
		all(noSpread, "Namespaces", "NamespaceSelector")),
	reflect.TypeFor[corev1.TopologySpreadConstraint](): merged(all(changed, "MatchLabelKeys"),
		all(same, "MaxSkew", "TopologyKey", "WhenUnsatisfiable", "LabelSelector", "MinDomains", "NodeAffinityPolicy", "NodeTaintsPolicy")),
	reflect.TypeFor[corev1.Toleration]():                        all(same, "Key", "Operator", "Value", "Effect", "TolerationSeconds"),
	reflect.TypeFor[corev1.HostAlias]():                         all(same, "IP", "Hostnames"),
	reflect.TypeFor[corev1.PodDNSConfig]():                      all(same, "Nameservers", "Searches", "Options"),
	reflect.TypeFor[corev1.PodDNSConfigOption]():                all(same, "Name", "Value"),
	reflect.TypeFor[corev1.PodOS]():                             all(same, "Name"),
	reflect.TypeFor[corev1.PodSchedulingGate]():                 all(changed, "Name"),
	reflect.TypeFor[corev1.PersistentVolumeClaimVolumeSource](): all(same, "ClaimName", "ReadOnly"),
	reflect.TypeFor[corev1.EphemeralVolumeSource]():             all(changed, "VolumeClaimTemplate"),
	reflect.TypeFor[corev1.PersistentVolumeClaimTemplate]():     all(changed, "ObjectMeta", "Spec"),
	// The host finds and makes volumes, see claim.go.
	reflect.TypeFor[corev1.PersistentVolumeClaimSpec](): merged(
		all(same, "AccessModes", "Resources", "StorageClassName", "VolumeMode", "DataSource"),
		all(changed, "VolumeName", "DataSourceRef"), all(noSelector, "Selector"), all(noModifying, "VolumeAttributesClassName")),
	reflect.TypeFor[corev1.VolumeResourceRequirements](): all(same, "Limits", "Requests"),
	reflect.TypeFor[corev1.TypedLocalObjectReference]():  all(same, "APIGroup", "Kind", "Name"),
	reflect.TypeFor[corev1.TypedObjectReference]():       merged(all(changed, "APIGroup", "Kind", "Name"), all(noElsewhere, "Namespace")),
	// The host gives addresses and ports, see service.go.
	reflect.TypeFor[corev1.ServiceSpec](): merged(
		all(same, "Ports", "SessionAffinity", "SessionAffinityConfig", "ExternalTrafficPolicy", "InternalTrafficPolicy",
			"PublishNotReadyAddresses", "TrafficDistribution", "LoadBalancerSourceRanges", "AllocateLoadBalancerNodePorts"),
		all(changed, "Type", "ExternalName", "Selector", "ClusterIP", "ClusterIPs", "IPFamilies", "IPFamilyPolicy", "HealthCheckNodePort"),
		all(noExternal, "ExternalIPs"),
		all(noChoice, "LoadBalancerIP", "LoadBalancerClass")),
	// What an Ingress may say of hosts, classes and paths is in ingress.go.
	reflect.TypeFor[networkingv1.IngressSpec]():           merged(all(same, "Rules", "TLS"), all(changed, "IngressClassName"), all(noDefault, "DefaultBackend")),
	reflect.TypeFor[networkingv1.IngressTLS]():            merged(all(same, "Hosts"), all(changed, "SecretName")),
	reflect.TypeFor[networkingv1.IngressRule]():           all(same, "Host", "IngressRuleValue"),
	reflect.TypeFor[networkingv1.IngressRuleValue]():      all(same, "HTTP"),
	reflect.TypeFor[networkingv1.HTTPIngressRuleValue]():  all(same, "Paths"),
	reflect.TypeFor[networkingv1.HTTPIngressPath]():       all(same, "Path", "PathType", "Backend"),
	reflect.TypeFor[networkingv1.IngressBackend]():        merged(all(same, "Service"), all(noResource, "Resource")),
	reflect.TypeFor[networkingv1.IngressServiceBackend](): all(same, "Name", "Port"),
	reflect.TypeFor[networkingv1.ServiceBackendPort]():    all(same, "Name", "Number"),
	// What an HTTPRoute may say of Gateways, hosts, matches, filters and backends is in route.go.
	reflect.TypeFor[gatewayv1.HTTPRouteSpec]():   all(same, "CommonRouteSpec", "Hostnames", "Rules"),
	reflect.TypeFor[gatewayv1.CommonRouteSpec](): merged(all(changed, "ParentRefs"), all(noPolicy, "UseDefaultGateways")),
	reflect.TypeFor[gatewayv1.ParentReference](): all(same, "Group", "Kind", "Namespace", "Name", "SectionName", "Port"),
	reflect.TypeFor[gatewayv1.HTTPRouteRule](): merged(all(same, "Name", "Matches", "Filters", "BackendRefs", "Timeouts"),
		all(noPolicy, "Retry", "SessionPersistence")),
	reflect.TypeFor[gatewayv1.HTTPRouteMatch]():      all(same, "Path", "Headers", "QueryParams", "Method"),
	reflect.TypeFor[gatewayv1.HTTPPathMatch]():       all(same, "Type", "Value"),
	reflect.TypeFor[gatewayv1.HTTPHeaderMatch]():     all(same, "Type", "Name", "Value"),
	reflect.TypeFor[gatewayv1.HTTPQueryParamMatch](): all(same, "Type", "Name", "Value"),
	reflect.TypeFor[gatewayv1.HTTPRouteFilter](): merged(
		all(same, "Type", "RequestHeaderModifier", "ResponseHeaderModifier", "RequestRedirect", "URLRewrite"),
		all(noFilter, "RequestMirror", "CORS", "ExternalAuth", "ExtensionRef")),
	reflect.TypeFor[gatewayv1.HTTPHeaderFilter]():          all(same, "Set", "Add", "Remove"),
	reflect.TypeFor[gatewayv1.HTTPHeader]():                all(same, "Name", "Value"),
	reflect.TypeFor[gatewayv1.HTTPRequestRedirectFilter](): all(same, "Scheme", "Hostname", "Path", "Port", "StatusCode"),
	reflect.TypeFor[gatewayv1.HTTPURLRewriteFilter]():      all(same, "Hostname", "Path"),
	reflect.TypeFor[gatewayv1.HTTPPathModifier]():          all(same, "Type", "ReplaceFullPath", "ReplacePrefixMatch"),
	reflect.TypeFor[gatewayv1.HTTPBackendRef]():            merged(all(same, "BackendRef"), all(noPerRef, "Filters")),
	reflect.TypeFor[gatewayv1.BackendRef]():                all(same, "BackendObjectReference", "Weight"),
	reflect.TypeFor[gatewayv1.BackendObjectReference]():    merged(all(same, "Group", "Kind", "Name", "Port"), all(changed, "Namespace")),
	reflect.TypeFor[gatewayv1.HTTPRouteTimeouts]():         all(same, "Request", "BackendRequest"),
	reflect.TypeFor[corev1.ServicePort]():                  merged(all(same, "Name", "Protocol", "AppProtocol", "Port", "TargetPort"), all(changed, "NodePort")),
	reflect.TypeFor[corev1.SessionAffinityConfig]():        all(same, "ClientIP"),
	reflect.TypeFor[corev1.ClientIPConfig]():               all(same, "TimeoutSeconds"),
}

// values are types that are one value, whatever their fields are.
var values = map[reflect.Type]bool{
	reflect.TypeFor[resource.Quantity]():    true,
	reflect.TypeFor[intstr.IntOrString]():   true,
	reflect.TypeFor[metav1.LabelSelector](): true,
	reflect.TypeFor[metav1.ObjectMeta]():    true,
	reflect.TypeFor[metav1.Time]():          true,
}

// all returns the same treatment of some fields.
func all(t treatment, names ...string) map[string]treatment {
	treated := map[string]treatment{}
	for _, name := range names {
		treated[name] = t
	}
	return treated
}

// merged returns the treatments of several groups of fields of one type.
func merged(groups ...map[string]treatment) map[string]treatment {
	treated := map[string]treatment{}
	for _, group := range groups {
		maps.Copy(treated, group)
	}
	return treated
}
