package translate

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/internal/workloads/names"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// container returns a pod of one container.
func container(change func(*corev1.Container)) func(*corev1.Pod) {
	return func(p *corev1.Pod) { change(&p.Spec.Containers[0]) }
}

func volume(source corev1.VolumeSource) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "v", VolumeSource: source})
	}
}

// fullOf gives a pod annotations of so many bytes, and those of the platform.
func fullOf(bytes int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Annotations = map[string]string{"a": strings.Repeat("x", bytes-1), names.HostUIDAnnotation: "h"}
	}
}

// labelled gives a pod so many labels.
func labelled(count int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Labels = map[string]string{}
		for i := range count {
			p.Labels[fmt.Sprint("label-", i)] = ""
		}
	}
}

func ephemeralClaim(spec corev1.PersistentVolumeClaimSpec) func(*corev1.Pod) {
	return volume(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: spec}}})
}

// claimsMany has a pod name so many claims.
func claimsMany(count int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for range count {
			volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}})(p)
		}
	}
}

func projected(name string, source corev1.VolumeProjection) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{source}},
		}})
	}
}

// tokens has a pod have tokens in one volume.
func tokens(all ...corev1.ServiceAccountTokenProjection) func(*corev1.Pod) {
	var sources []corev1.VolumeProjection
	for i := range all {
		sources = append(sources, corev1.VolumeProjection{ServiceAccountToken: &all[i]})
	}
	return volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources}})
}

// manyTokens has a pod have so many tokens that differ, each twice.
func manyTokens(count int) func(*corev1.Pod) {
	var all []corev1.ServiceAccountTokenProjection
	for i := range 2 * count {
		all = append(all, corev1.ServiceAccountTokenProjection{Audience: "a", ExpirationSeconds: new(int64(600 + i%count)), Path: fmt.Sprint(i)})
	}
	return tokens(all...)
}

func both(one, other func(*corev1.Pod)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		one(p)
		other(p)
	}
}

func env(path string) func(*corev1.Pod) {
	return container(func(c *corev1.Container) {
		c.Env = append(c.Env, corev1.EnvVar{Name: "E", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}})
	})
}

func security(s corev1.SecurityContext) func(*corev1.Pod) {
	return container(func(c *corev1.Container) { c.SecurityContext = &s })
}

// namesMany has a pod name so many ConfigMaps.
func namesMany(count int) func(*corev1.Pod) {
	return container(func(c *corev1.Container) {
		for i := range count {
			c.EnvFrom = append(c.EnvFrom, corev1.EnvFromSource{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: fmt.Sprint(i)}}})
		}
	})
}

func asks(limits corev1.ResourceList) func(*corev1.Pod) {
	return container(func(c *corev1.Container) { c.Resources.Limits = limits })
}

// valuesOf is a selector of so many values of one label.
func valuesOf(count int) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: metav1.LabelSelectorOpIn, Values: make([]string, count)}}}
}

// apart has a pod keep apart from others by so many terms of so many values.
func apart(terms, count int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		var all []corev1.PodAffinityTerm
		for range terms {
			all = append(all, corev1.PodAffinityTerm{LabelSelector: valuesOf(count), TopologyKey: corev1.LabelHostname})
		}
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: all}}
	}
}

func plain() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "acme|shop", UID: "p"},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: "i", ImagePullPolicy: corev1.PullIfNotPresent}},
			DNSPolicy:  corev1.DNSClusterFirst, SchedulerName: corev1.DefaultSchedulerName, ServiceAccountName: "default",
		},
	}
}

// containers gives a pod so many.
func containers(n int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		one := p.Spec.Containers[0]
		for i := len(p.Spec.Containers); i < n; i++ {
			one.Name = fmt.Sprint("c", i)
			p.Spec.InitContainers = append(p.Spec.InitContainers, one)
		}
	}
}

// probes gives a pod so many containers with a probe by a command.
func probes(n int, period int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		containers(n)(p)
		probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}, PeriodSeconds: period}
		p.Spec.Containers[0].LivenessProbe = probe
		for i := range p.Spec.InitContainers {
			p.Spec.InitContainers[i].ReadinessProbe = probe
		}
	}
}

func TestCheck(t *testing.T) {
	privileged, baseline, restricted := Rules{Level: Privileged}, Rules{}, Rules{Level: Restricted}
	for name, tc := range map[string]struct {
		rules  Rules
		change func(*corev1.Pod)
		want   string // the field and the rule; empty if it is allowed
	}{
		"a plain pod": {change: func(*corev1.Pod) {}},
		"what says nothing": {change: func(p *corev1.Pod) {
			p.Spec.SetHostnameAsFQDN, p.Spec.SecurityContext = new(false), &corev1.PodSecurityContext{}
		}},
		"hostPath":                       {privileged, volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}), "spec.volumes[0].hostPath: Forbidden: volumes of this type reach"},
		"an empty hostPath":              {privileged, volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}), "spec.volumes[0].hostPath"},
		"NFS":                            {privileged, volume(corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}), "spec.volumes[0].nfs"},
		"a disk of the cloud":            {privileged, volume(corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{}}), "spec.volumes[0].awsElasticBlockStore"},
		"inline CSI":                     {privileged, volume(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d"}}), "spec.volumes[0].csi"},
		"a claim":                        {change: volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}})},
		"too many claims":                {privileged, claimsMany(101), "spec.volumes: Forbidden: it names 101 claims, and a pod that runs on a host cluster names at most 100"},
		"many claims":                    {change: claimsMany(100)},
		"an ephemeral claim":             {change: ephemeralClaim(corev1.PersistentVolumeClaimSpec{StorageClassName: new("fast")})},
		"an ephemeral claim of a volume": {privileged, ephemeralClaim(corev1.PersistentVolumeClaimSpec{VolumeName: "v"}), "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.volumeName"},
		"an ephemeral claim of labels":   {privileged, ephemeralClaim(corev1.PersistentVolumeClaimSpec{Selector: &metav1.LabelSelector{}}), "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.selector"},
		"emptyDir":                       {change: volume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}})},
		"an image":                       {change: volume(corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "i"}})},
		"a token":                        {change: tokens(corev1.ServiceAccountTokenProjection{Audience: "vault", ExpirationSeconds: new(int64(600)), Path: "t"})},
		"a token for a long name":        {privileged, tokens(corev1.ServiceAccountTokenProjection{Audience: strings.Repeat("a", 1025)}), "spec.volumes[0].projected.sources[0].serviceAccountToken.audience: Forbidden: it is longer than 1024 bytes"},
		"too many tokens":                {privileged, manyTokens(11), "spec.volumes: Forbidden: it asks for 11 different tokens of its service account, and a pod that runs on a host cluster has at most 10"},
		"many tokens":                    {change: manyTokens(10)},
		"the token of every pod":         {change: projected("kube-api-access-x", corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "t"}})},
		"a certificate":                  {privileged, projected("mine", corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{SignerName: "s"}}), "spec.volumes[0].projected.sources[0].podCertificate"},
		"certificates of the host":       {privileged, projected("kube-api-access-x", corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Path: "p"}}), "clusterTrustBundle"},
		"the network of the node":        {privileged, func(p *corev1.Pod) { p.Spec.HostNetwork = true }, "spec.hostNetwork: Forbidden: pods of a space have nothing of the host's nodes"},
		"the processes of the node":      {privileged, func(p *corev1.Pod) { p.Spec.HostPID = true }, "spec.hostPID"},
		"the memory of the node":         {privileged, func(p *corev1.Pod) { p.Spec.HostIPC = true }, "spec.hostIPC"},
		"a port of the node":             {privileged, container(func(c *corev1.Container) { c.Ports = []corev1.ContainerPort{{ContainerPort: 1, HostPort: 1}} }), "spec.containers[0].ports[0].hostPort: Forbidden: pods of a space have no ports"},
		"an address of the node":         {privileged, container(func(c *corev1.Container) { c.Ports = []corev1.ContainerPort{{ContainerPort: 1, HostIP: "10.0.0.1"}} }), "spec.containers[0].ports[0].hostIP"},
		"a port":                         {change: container(func(c *corev1.Container) { c.Ports = []corev1.ContainerPort{{ContainerPort: 1}} })},
		"a probe of another": {privileged, container(func(c *corev1.Container) {
			c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Host: "169.254.169.254", Port: intstr.FromInt32(80)}}}
		}), "spec.containers[0].livenessProbe.httpGet.host: Forbidden: probes and hooks go to the pod itself"},
		"a probe of another by TCP": {privileged, container(func(c *corev1.Container) {
			c.StartupProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Host: "h"}}}
		}), "spec.containers[0].startupProbe.tcpSocket.host"},
		"a hook to another": {privileged, container(func(c *corev1.Container) {
			c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Host: "h"}}}
		}), "spec.containers[0].lifecycle.preStop.httpGet.host"},
		"a block device":    {change: container(func(c *corev1.Container) { c.VolumeDevices = []corev1.VolumeDevice{{Name: "v"}} })},
		"a device":          {privileged, container(func(c *corev1.Container) { c.Resources.Claims = []corev1.ResourceClaim{{Name: "d"}} }), "spec.containers[0].resources.claims"},
		"claims of devices": {privileged, func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "d"}} }, "spec.resourceClaims"},
		"an init container": {privileged, func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "i", Ports: []corev1.ContainerPort{{HostPort: 1}}}}
		}, "spec.initContainers[0].ports[0].hostPort"},
		"too many ConfigMaps":      {privileged, namesMany(101), "spec: Forbidden: it names 101 ConfigMaps and Secrets, and a pod that runs on a host cluster names at most 100"},
		"many ConfigMaps":          {change: namesMany(100)},
		"a limit of nothing":       {privileged, asks(corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("0")}), "spec.containers[0].resources.limits[memory]: Forbidden: a limit of 0 is none on a node"},
		"a limit of no processor":  {privileged, asks(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("0")}), "spec.containers[0].resources.limits[cpu]: Forbidden: a limit of 0 is none on a node"},
		"a device of a plugin":     {privileged, asks(corev1.ResourceList{"smarter-devices/mem": resource.MustParse("1")}), "spec.containers[0].resources.limits[smarter-devices/mem]: Forbidden: devices of the host's nodes are not for this Tenant"},
		"a device of its quota":    {rules: Rules{Quota: corev1.ResourceList{"requests.nvidia.com/gpu": resource.MustParse("2")}}, change: asks(corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")})},
		"a device of another name": {Rules{Quota: corev1.ResourceList{"requests.nvidia.com/gpu": resource.MustParse("2")}}, asks(corev1.ResourceList{"smarter-devices/mem": resource.MustParse("1")}), "requests.smarter-devices/mem in the quota of the Tenant"},
		"a device of an init container": {privileged, func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "i", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"a.b/c": resource.MustParse("1")}}}}
		}, "spec.initContainers[0].resources.requests[a.b/c]"},
		"a device of the pod": {privileged, func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{"a.b/c": resource.MustParse("1")}}
		}, "spec.resources.limits[a.b/c]"},
		"what every node has": {change: asks(corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1"), "ephemeral-storage": resource.MustParse("1"), "hugepages-2Mi": resource.MustParse("2Mi")})},
		"many terms":          {change: apart(maxTerms, 1)},
		"too many terms":      {privileged, apart(maxTerms+1, 1), "spec.affinity: Forbidden: it has 33 terms, and a pod that runs on a host cluster has at most 32"},
		"terms of each kind": {privileged, func(p *corev1.Pod) {
			pods := []corev1.PodAffinityTerm{{}, {}, {}, {}, {}, {}}
			weighted := []corev1.WeightedPodAffinityTerm{{}, {}, {}, {}, {}, {}}
			p.Spec.Affinity = &corev1.Affinity{
				NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: make([]corev1.NodeSelectorTerm, 6)},
					PreferredDuringSchedulingIgnoredDuringExecution: make([]corev1.PreferredSchedulingTerm, 6)},
				PodAffinity:     &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: pods, PreferredDuringSchedulingIgnoredDuringExecution: weighted},
				PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: pods, PreferredDuringSchedulingIgnoredDuringExecution: weighted},
			}
		}, "spec.affinity: Forbidden: it has 36 terms"},
		"too many values": {privileged, apart(1, maxConditions), "spec: Forbidden: it has 501 conditions and values in its nodeSelector, affinity"},
		"too many values of nodes": {privileged, func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "k", Values: make([]string, 600)}}}}}}}
		}, "it has 601 conditions"},
		"too many spreads": {privileged, func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = make([]corev1.TopologySpreadConstraint, maxSpread+1)
		}, "spec.topologySpreadConstraints: Forbidden: it has 17 constraints"},
		"too many values of spreads": {privileged, func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{LabelSelector: valuesOf(maxConditions)}}
		}, "it has 501 conditions"},
		"too many tolerations":    {privileged, func(p *corev1.Pod) { p.Spec.Tolerations = make([]corev1.Toleration, maxTolerated+1) }, "spec.tolerations: Forbidden: it has 51 tolerations"},
		"and the authority":       {change: both(namesMany(100), projected("kube-api-access-x", corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}}}))},
		"a privileged container":  {baseline, security(corev1.SecurityContext{Privileged: new(true)}), `spec: Forbidden: it violates the Pod Security level baseline of the Tenant: privileged`},
		"privileged where it may": {rules: privileged, change: security(corev1.SecurityContext{Privileged: new(true)})},
		"a capability":            {baseline, security(corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_RAW"}}}), "baseline"},
		"a root":                  {restricted, func(*corev1.Pod) {}, "restricted"},
		"a root where it may":     {change: security(corev1.SecurityContext{RunAsUser: new(int64(0))})},
		"a level of SELinux":      {privileged, security(corev1.SecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Level: "s0:c1"}}), "spec.containers[0].securityContext.seLinuxOptions.level"},
		"a profile of the node":   {privileged, security(corev1.SecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: new("p")}}), "spec.containers[0].securityContext.seccompProfile.localhostProfile"},
		"a profile of AppArmor": {privileged, func(p *corev1.Pod) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{AppArmorProfile: &corev1.AppArmorProfile{LocalhostProfile: new("p")}}
		}, "spec.securityContext.appArmorProfile.localhostProfile"},
		"Windows":                    {privileged, func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Windows} }, "spec.os.name: Forbidden: pods of a space run on nodes with Linux"},
		"Linux":                      {change: func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Linux} }},
		"credentials of Windows":     {privileged, security(corev1.SecurityContext{WindowsOptions: &corev1.WindowsSecurityContextOptions{GMSACredentialSpecName: new("g")}}), "gmsaCredentialSpecName"},
		"a process of Windows' host": {privileged, security(corev1.SecurityContext{WindowsOptions: &corev1.WindowsSecurityContextOptions{HostProcess: new(true)}}), "hostProcess"},
		"affinity elsewhere": {privileged, func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{NamespaceSelector: &metav1.LabelSelector{}}}}}
		}, "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespaceSelector"},
		"affinity in a namespace": {privileged, func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{PodAffinityTerm: corev1.PodAffinityTerm{Namespaces: []string{"kube-system"}}}}}}
		}, "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.namespaces"},
		"a scheduler":         {privileged, func(p *corev1.Pod) { p.Spec.SchedulerName = "mine" }, "spec.schedulerName: Forbidden: pods of a space may name default-scheduler"},
		"a runtime":           {privileged, func(p *corev1.Pod) { p.Spec.RuntimeClassName = new("r") }, "spec.runtimeClassName"},
		"many containers":     {change: containers(64)},
		"too many containers": {privileged, containers(65), "spec.containers: Forbidden: it has 65 containers, and a pod that runs on a host cluster has at most 64"},
		"too many volumes":    {privileged, func(p *corev1.Pod) { p.Spec.Volumes = make([]corev1.Volume, 129) }, "spec.volumes: Forbidden: it has 129 volumes"},
		"a pod that restarts": {privileged, func(p *corev1.Pod) {
			p.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestart}, {Action: corev1.ContainerRestartRuleActionRestartAllContainers}}
		}, "spec.containers[0].restartPolicyRules[1].action: Forbidden"},
		"a pod that restarts first": {privileged, func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{RestartPolicyRules: []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestartAllContainers}}}}
		}, "spec.initContainers[0].restartPolicyRules[0].action: Forbidden"},
		"a container that restarts": {change: func(p *corev1.Pod) {
			p.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestart}}
		}},
		"probes that start much":   {privileged, probes(11, 1), "spec.containers: Forbidden: its probes start 11 processes a second"},
		"probes that start some":   {change: probes(10, 1)},
		"many probes now and then": {change: probes(60, 10)},
		"too many readiness gates": {privileged, func(p *corev1.Pod) {
			for i := range 17 {
				p.Spec.ReadinessGates = append(p.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: corev1.PodConditionType(fmt.Sprint("example.com/g", i))})
			}
		}, "spec.readinessGates: Forbidden: it has 17 readiness gates"},
		"a readiness gate of a host":     {privileged, func(p *corev1.Pod) { p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "c"}} }, "spec.readinessGates[0].conditionType"},
		"the domain as host name":        {privileged, func(p *corev1.Pod) { p.Spec.SetHostnameAsFQDN = new(true) }, "spec.setHostnameAsFQDN"},
		"a scheduling group":             {privileged, func(p *corev1.Pod) { p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{} }, "spec.schedulingGroup"},
		"a responder":                    {privileged, func(p *corev1.Pod) { p.Spec.EvictionResponders = []corev1.EvictionResponder{{Name: "r"}} }, "spec.evictionResponders"},
		"a label of ours":                {privileged, func(p *corev1.Pod) { p.Labels = map[string]string{"workloads.tenantry.io/installation": "i"} }, "metadata.labels[workloads.tenantry.io/installation]"},
		"as many labels as there may be": {privileged, labelled(64), ""},
		"as many bytes as there may be":  {privileged, fullOf(252 << 10), ""},
		"too many labels":                {privileged, labelled(65), "metadata.labels"},
		"too many bytes of annotations":  {privileged, fullOf(252<<10 + 1), "metadata.annotations"},
		"our label by the downward API":  {privileged, env("metadata.labels['workloads.tenantry.io/installation']"), "fieldPath"},
		"a field of a later Kubernetes":  {privileged, env("status.later"), "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath"},
		"fields of the pod":              {change: env("metadata.annotations['a']")},
		"a node that it is on":           {change: func(p *corev1.Pod) { p.Spec.NodeName = "node" }},
		"a gate that it waits for":       {change: func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} }},
		"users of the node":              {change: func(p *corev1.Pod) { p.Spec.HostUsers = new(false) }},
		"a name that leads elsewhere":    {privileged, volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "../../kube-system/x"}}), `"../../kube-system/x" is the name of no ConfigMap or Secret`},
		"a hostPath of an unknown level": {Rules{Level: "none"}, func(*corev1.Pod) {}, "Internal error"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := plain()
			tc.change(pod)
			got := tc.rules.Check(&pod.ObjectMeta, &pod.Spec, field.NewPath("spec")).ToAggregate()
			if (got != nil) != (tc.want != "") || got != nil && !strings.Contains(got.Error(), tc.want) {
				t.Errorf("got %v, want %q", got, tc.want)
			}
		})
	}
}

// TestUnknownFields checks that what a later Kubernetes adds is refused until somebody has decided.
func TestUnknownFields(t *testing.T) {
	of := reflect.TypeFor[corev1.PodSpec]()
	table := fields[of]
	fields[of] = merged(table)
	delete(fields[of], "Hostname")
	defer func() { fields[of] = table }()
	pod := plain()
	if errs := (Rules{}).Check(&pod.ObjectMeta, &pod.Spec, field.NewPath("spec")); len(errs) > 0 {
		t.Errorf("where it is not set: %v", errs)
	}
	pod.Spec.Hostname = "h"
	if errs := (Rules{}).Check(&pod.ObjectMeta, &pod.Spec, field.NewPath("spec")); len(errs) != 1 || errs[0].Field != "spec.hostname" {
		t.Errorf("got %v", errs)
	}
}

func TestCheckPath(t *testing.T) {
	pod := plain()
	pod.Spec.HostNetwork = true
	errs := Rules{Level: Privileged}.Check(&pod.ObjectMeta, &pod.Spec, field.NewPath("spec", "template", "spec"))
	if len(errs) != 1 || errs[0].Field != "spec.template.spec.hostNetwork" {
		t.Errorf("got %v", errs)
	}
}

func BenchmarkCheck(b *testing.B) {
	pod := plain()
	for b.Loop() {
		Rules{}.Check(&pod.ObjectMeta, &pod.Spec, field.NewPath("spec"))
	}
}
