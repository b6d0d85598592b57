package translate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/fieldpath"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

var home = Home{Namespace: names.Namespace{Installation: "i", Tenant: "acme", TenantUID: "t", Name: "shop", UID: "n"}, HostUID: "h"}

var runtimeDefault = &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}

// TestSeccomp checks that what a pod says about system calls stays.
func TestSeccomp(t *testing.T) {
	unconfined := &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}}
	for name, tc := range map[string]struct {
		change func(*corev1.PodSpec)
		want   *corev1.PodSecurityContext
	}{
		"nothing":    {func(*corev1.PodSpec) {}, runtimeDefault},
		"unconfined": {func(s *corev1.PodSpec) { s.SecurityContext = unconfined }, unconfined},
	} {
		pod := plain()
		tc.change(&pod.Spec)
		if diff := cmp.Diff(tc.want, Options{}.Pod(pod, home).Spec.SecurityContext); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestPod(t *testing.T) {
	pod := plain()
	pod.Labels = map[string]string{"app": "web", "workloads.tenantry.io/installation": "forged"}
	pod.Annotations = map[string]string{"k8s.v1.cni.cncf.io/networks": "out", "workloads.tenantry.io/uid": "forged", "kubectl.kubernetes.io/default-container": "c"}
	pod.Finalizers, pod.GenerateName = []string{"f"}, "web-"
	pod.Spec.NodeName, pod.Spec.PriorityClassName, pod.Spec.Priority = "node", "mine", new(int32(1000000000))
	pod.Spec.PreemptionPolicy = new(corev1.PreemptLowerPriority)
	pod.Spec.TerminationGracePeriodSeconds = new(int64(315360000))
	projected("kube-api-access-x", corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}})(pod)
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "kube-api-access-x", MountPath: "/var/run/secrets"}, {Name: "v", MountPath: "/v"}}
	before := pod.DeepCopy()
	got := Options{}.Pod(pod, home)
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-0", Namespace: home.Host(),
			Labels: map[string]string{"app": "web", names.InstallationLabel: "i"},
			Annotations: map[string]string{
				"kubectl.kubernetes.io/default-container": "c",
				names.TenantAnnotation:                    "acme", names.TenantUIDAnnotation: "t",
				names.NamespaceAnnotation: "shop", names.NamespaceUIDAnnotation: "n",
				names.NameAnnotation: "web-0", names.UIDAnnotation: "p",
			},
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "c", Image: "i", ImagePullPolicy: corev1.PullAlways,
				VolumeMounts:    []corev1.VolumeMount{{Name: "kube-api-access-x", MountPath: "/var/run/secrets"}, {Name: "v", MountPath: "/v"}},
				SecurityContext: &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"NET_RAW"}}},
			}},
			Volumes: []corev1.Volume{{Name: "kube-api-access-x", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{Secret: &corev1.SecretProjection{
					LocalObjectReference: corev1.LocalObjectReference{Name: names.Tokens("p")}, Items: []corev1.KeyToPath{{Key: "token-0", Path: "token"}},
				}}},
			}}}},
			DNSPolicy: corev1.DNSDefault, SchedulerName: corev1.DefaultSchedulerName,
			AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false), PriorityClassName: priorityClass,
			TerminationGracePeriodSeconds: new(int64(3600)), SecurityContext: runtimeDefault,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, pod); diff != "" {
		t.Errorf("the pod of the space has changed:\n%s", diff)
	}
}

// TestControlled checks that a host lets go of pods that somebody makes again.
func TestControlled(t *testing.T) {
	pod := plain()
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "r", Controller: new(true)}}
	owners := Options{}.Pod(pod, home).OwnerReferences
	if len(owners) != 1 || owners[0].Kind != "Namespace" || owners[0].UID != "h" || owners[0].Name != home.Host() || !*owners[0].Controller {
		t.Errorf("it has %v", owners)
	}
}

func TestTrustLocalImages(t *testing.T) {
	pod := plain()
	volume(corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "i", PullPolicy: corev1.PullNever}})(pod)
	always, trusting := Options{}.Pod(pod, home).Spec, Options{TrustLocalImages: true}.Pod(pod, home).Spec
	if always.Containers[0].ImagePullPolicy != corev1.PullAlways || always.Volumes[0].Image.PullPolicy != corev1.PullAlways {
		t.Error("an image of the node is used that nobody has pulled")
	}
	if trusting.Containers[0].ImagePullPolicy != corev1.PullIfNotPresent || trusting.Volumes[0].Image.PullPolicy != corev1.PullNever {
		t.Error("an image is pulled against its policy")
	}
}

func TestNames(t *testing.T) {
	configMap, secret := corev1.LocalObjectReference{Name: "c"}, corev1.LocalObjectReference{Name: "s"}
	pod := plain()
	pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}, {}}
	volume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "vc"}}})(pod)
	volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "vs"}})(pod)
	projected("p", corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: configMap}, Secret: &corev1.SecretProjection{LocalObjectReference: secret}})(pod)
	container(func(c *corev1.Container) {
		c.EnvFrom = []corev1.EnvFromSource{{
			ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "ec"}},
			SecretRef:    &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "es"}},
		}}
		c.Env = []corev1.EnvVar{{ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "kc"}}}},
			{ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "ks"}}}}}
	})(pod)
	set := func(all ...string) map[string]bool {
		of := map[string]bool{}
		for _, name := range all {
			of[name] = true
		}
		return of
	}
	want := References{ConfigMaps: set("vc", "c", "ec", "kc"), Secrets: set("pull", "vs", "s", "es", "ks")}
	if diff := cmp.Diff(want, ReferencesOf(&pod.Spec)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	host := Options{}.Pod(pod, home)
	want = References{ConfigMaps: set("tn-vc", "tn-c", "tn-ec", "tn-kc"), Secrets: set("tn-pull", "tn-vs", "tn-s", "tn-es", "tn-ks")}
	if diff := cmp.Diff(want, ReferencesOf(&host.Spec)); diff != "" {
		t.Errorf("on the host (-want +got):\n%s", diff)
	}
}

// TestDownward checks that the downward API of a host's pod has what that of the space's would have.
func TestDownward(t *testing.T) {
	for _, path := range []string{
		"metadata.name", "metadata.namespace", "metadata.uid", "spec.serviceAccountName", "metadata.labels", "metadata.annotations",
		"metadata.labels['app']", "metadata.labels['none']", "metadata.annotations['own']", "metadata.annotations['none']",
		"metadata.annotations['workloads.tenantry.io/uid']", "metadata.annotations['kubectl.kubernetes.io/default-container']",
	} {
		t.Run(path, func(t *testing.T) {
			pod := plain()
			pod.Namespace, pod.Spec.ServiceAccountName = "shop", "robot"
			pod.Labels = map[string]string{"app": "web"}
			pod.Annotations = map[string]string{"own": "a\nb=\"c\"", "workloads.tenantry.io/uid": "forged", "kubectl.kubernetes.io/default-container": "c"}
			volume(corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}}})(pod)
			want := pod.Spec.ServiceAccountName
			if path != "spec.serviceAccountName" {
				var err error
				if want, err = fieldpath.ExtractFieldPathAsString(pod, path); err != nil {
					t.Fatal(err)
				}
			}
			host := Options{}.Pod(pod, home)
			got, err := fieldpath.ExtractFieldPathAsString(host, host.Spec.Volumes[0].DownwardAPI.Items[0].FieldRef.FieldPath)
			if err != nil || got != want {
				t.Errorf("got %q, want %q, error %v", got, want, err)
			}
			if host.Annotations[names.UIDAnnotation] != "p" {
				t.Errorf("the mark is %q", host.Annotations[names.UIDAnnotation])
			}
		})
	}
}

func TestNetRaw(t *testing.T) {
	for name, tc := range map[string]struct{ add, drop, want []corev1.Capability }{
		"nothing":        {want: []corev1.Capability{"NET_RAW"}},
		"another":        {drop: []corev1.Capability{"CHOWN"}, want: []corev1.Capability{"CHOWN", "NET_RAW"}},
		"all":            {drop: []corev1.Capability{"ALL"}, want: []corev1.Capability{"ALL"}},
		"itself":         {drop: []corev1.Capability{"NET_RAW"}, want: []corev1.Capability{"NET_RAW"}},
		"as no other":    {drop: []corev1.Capability{"CAP_NET_RAW", "net_raw", "CAP_ALL", "all"}, want: []corev1.Capability{"CAP_NET_RAW", "net_raw", "CAP_ALL", "all", "NET_RAW"}},
		"asked for":      {add: []corev1.Capability{"net_raw"}},
		"all of the are": {add: []corev1.Capability{"ALL"}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := plain()
			security(corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: tc.add, Drop: tc.drop}})(pod)
			pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon(pod.Spec.Containers[0])}}
			host := Options{}.Pod(pod, home).Spec
			for _, got := range []*corev1.SecurityContext{host.Containers[0].SecurityContext, host.EphemeralContainers[0].SecurityContext} {
				if diff := cmp.Diff(&corev1.Capabilities{Add: tc.add, Drop: tc.want}, got.Capabilities); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// TestDNS checks that pods ask the server of the spaces' names if there is one, and never the host's.
func TestDNS(t *testing.T) {
	option := func(name, value string) corev1.PodDNSConfigOption {
		return corev1.PodDNSConfigOption{Name: name, Value: &value}
	}
	ours := []string{"shop.svc.cluster.local", "svc.cluster.local", "cluster.local"}
	long := strings.Repeat("a", 60) + "." + strings.Repeat("b", 60)
	var longs, shorts []string
	for i := range 40 {
		longs, shorts = append(longs, fmt.Sprintf("%s.x%d", long, i)), append(shorts, fmt.Sprintf("x%d", i))
	}
	for name, tc := range map[string]struct {
		policy     corev1.DNSPolicy
		server     []string
		config     *corev1.PodDNSConfig
		want       corev1.DNSPolicy
		wantConfig *corev1.PodDNSConfig
	}{
		"of the space": {policy: corev1.DNSClusterFirst, server: []string{"10.43.0.10"}, want: corev1.DNSNone,
			wantConfig: &corev1.PodDNSConfig{Nameservers: []string{"10.43.0.10"}, Searches: ours, Options: []corev1.PodDNSConfigOption{option("ndots", "5")}}},
		"by default": {server: []string{"10.43.0.10", "2001:db8::10"}, want: corev1.DNSNone,
			wantConfig: &corev1.PodDNSConfig{Nameservers: []string{"10.43.0.10", "2001:db8::10"}, Searches: ours, Options: []corev1.PodDNSConfigOption{option("ndots", "5")}}},
		"beside its own": {policy: corev1.DNSClusterFirstWithHostNet, server: []string{"10.43.0.10"},
			config: &corev1.PodDNSConfig{Nameservers: []string{"192.0.2.1", "10.43.0.10"}, Searches: []string{"example.com", "cluster.local"}, Options: []corev1.PodDNSConfigOption{option("timeout", "1")}},
			want:   corev1.DNSNone,
			wantConfig: &corev1.PodDNSConfig{Nameservers: []string{"10.43.0.10", "192.0.2.1"}, Searches: append(slices.Clone(ours), "example.com"),
				Options: []corev1.PodDNSConfigOption{option("ndots", "5"), option("timeout", "1")}}},
		"with its own dots": {policy: corev1.DNSClusterFirst, server: []string{"10.43.0.10"}, config: &corev1.PodDNSConfig{Options: []corev1.PodDNSConfigOption{option("ndots", "2")}},
			want: corev1.DNSNone, wantConfig: &corev1.PodDNSConfig{Nameservers: []string{"10.43.0.10"}, Searches: ours, Options: []corev1.PodDNSConfigOption{option("ndots", "2")}}},
		"as much as a pod may have": {policy: corev1.DNSClusterFirst, server: []string{"10.43.0.10"}, config: &corev1.PodDNSConfig{Nameservers: []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"}, Searches: shorts},
			want: corev1.DNSNone, wantConfig: &corev1.PodDNSConfig{Nameservers: []string{"10.43.0.10", "192.0.2.1", "192.0.2.2"}, Searches: append(slices.Clone(ours), shorts[:29]...),
				Options: []corev1.PodDNSConfigOption{option("ndots", "5")}}},
		"as long as they may be": {policy: corev1.DNSClusterFirst, server: []string{"10.43.0.10"}, config: &corev1.PodDNSConfig{Searches: longs},
			want: corev1.DNSNone, wantConfig: &corev1.PodDNSConfig{Nameservers: []string{"10.43.0.10"}, Searches: append(slices.Clone(ours), longs[:15]...),
				Options: []corev1.PodDNSConfigOption{option("ndots", "5")}}},
		"without a server": {policy: corev1.DNSClusterFirst, config: &corev1.PodDNSConfig{Searches: []string{"example.com"}}, want: corev1.DNSDefault,
			wantConfig: &corev1.PodDNSConfig{Searches: []string{"example.com"}}},
		"of the node": {policy: corev1.DNSDefault, server: []string{"10.43.0.10"}, want: corev1.DNSDefault},
		"its own": {policy: corev1.DNSNone, server: []string{"10.43.0.10"}, config: &corev1.PodDNSConfig{Nameservers: []string{"192.0.2.1"}}, want: corev1.DNSNone,
			wantConfig: &corev1.PodDNSConfig{Nameservers: []string{"192.0.2.1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := plain()
			pod.Spec.DNSPolicy, pod.Spec.DNSConfig = tc.policy, tc.config
			before := pod.DeepCopy()
			got := Options{DNS: tc.server}.Pod(pod, home).Spec
			if got.DNSPolicy != tc.want {
				t.Errorf("it has %s, want %s", got.DNSPolicy, tc.want)
			}
			if diff := cmp.Diff(tc.wantConfig, got.DNSConfig); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, pod); diff != "" {
				t.Errorf("the pod of the space has changed:\n%s", diff)
			}
		})
	}
}

func TestStatus(t *testing.T) {
	pod := plain()
	pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}, {Name: "pull-2"}}
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/gate"}, {ConditionType: "example.com/unset"}}
	gate := corev1.PodCondition{Type: "example.com/gate", Status: corev1.ConditionTrue}
	evicted := corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"}
	pod.Status = corev1.PodStatus{QOSClass: corev1.PodQOSGuaranteed, NominatedNodeName: "n", Conditions: []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: corev1.PodInitialized, Status: corev1.ConditionTrue}, evicted, gate,
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Unix(2, 0)},
	}}
	host := &corev1.Pod{Status: corev1.PodStatus{
		Phase: corev1.PodPending, QOSClass: corev1.PodQOSBurstable, NominatedNodeName: "other", PodIP: "10.0.0.1", ObservedGeneration: 7,
		Message: "pod " + home.Host() + "/web-0",
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, ObservedGeneration: 7, LastTransitionTime: metav1.Unix(1, 0),
				Message: "0/37 nodes are available: 5 Insufficient cpu, 30 Insufficient memory, 2 node(s) had untolerated taint {secret: yes}."},
			{Type: corev1.PodReady, Status: corev1.ConditionFalse, Message: "as it is", LastTransitionTime: metav1.Unix(1, 0)},
			{Type: gate.Type, Status: corev1.ConditionFalse}, {Type: "example.com/unset", Status: corev1.ConditionTrue},
		},
		InitContainerStatuses: []corev1.ContainerStatus{{Name: "injected-init"}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "injected"}, {Name: "c", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
			Reason: "CreateContainerConfigError", Message: `secret "tn-pull-2" not found, nor "tn-pull", nor "` + names.Tokens("p") + `"`,
		}}}},
	}}
	want := corev1.PodStatus{
		Phase: corev1.PodPending, QOSClass: corev1.PodQOSGuaranteed, NominatedNodeName: "n", PodIP: "10.0.0.1", Message: "pod shop/web-0",
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Unix(2, 0), Message: "no node of the host cluster can run the pod now: Insufficient cpu, Insufficient memory"},
			{Type: corev1.PodReady, Status: corev1.ConditionFalse, Message: "as it is", LastTransitionTime: metav1.Unix(1, 0)},
			evicted, gate,
		},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
			Reason: "CreateContainerConfigError", Message: `secret "pull-2" not found, nor "pull", nor "token of the service account"`,
		}}}},
	}
	if diff := cmp.Diff(want, Status(host, pod, home.Namespace, false)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !strings.Contains(host.Status.Message, home.Host()) {
		t.Error("the host's pod has changed")
	}
}

// TestStatusGetsIn checks that a space takes a status whatever it has written itself, and whatever devices a webhook of
// the host has added.
func TestStatusGetsIn(t *testing.T) {
	pod, host := plain(), &corev1.Pod{}
	pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}
	for i := range 10_000 {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodConditionType(fmt.Sprint("example.com/", i))})
	}
	own := corev1.ResourceStatus{Name: "example.com/gpu", Resources: []corev1.ResourceHealth{{ResourceID: "1"}}}
	host.Status = corev1.PodStatus{
		Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "c", AllocatedResourcesStatus: []corev1.ResourceStatus{{Name: "example.com/added"}, own, {Name: "claim:added"}}}},
	}
	status := Status(host, pod, home.Namespace, true)
	if n := len(status.Conditions); n != 1+maxOwnConditions || status.Conditions[0].Type != corev1.PodReady {
		t.Errorf("it has %d conditions, the first of type %s", n, status.Conditions[0].Type)
	}
	if diff := cmp.Diff([]corev1.ResourceStatus{own}, status.ContainerStatuses[0].AllocatedResourcesStatus); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestStatusOfPodLevel checks that a space is told what resources of its own the host's pod has where its node says
// nothing of them: quotas count what a pod has, whatever it asks for now.
func TestStatusOfPodLevel(t *testing.T) {
	cpu := func(n string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(n)}
	}
	host := &corev1.Pod{Spec: corev1.PodSpec{Resources: &corev1.ResourceRequirements{Requests: cpu("9"), Limits: cpu("10")}}}
	if status := Status(host, plain(), home.Namespace, true); !status.AllocatedResources.Cpu().Equal(resource.MustParse("9")) || !status.Resources.Limits.Cpu().Equal(resource.MustParse("10")) {
		t.Errorf("the space is told %v, %v", status.AllocatedResources, status.Resources)
	}
	host.Status.AllocatedResources = cpu("3")
	if status := Status(host, plain(), home.Namespace, true); !status.AllocatedResources.Cpu().Equal(resource.MustParse("3")) || status.Resources != nil {
		t.Errorf("where the node says it, the space is told %v, %v", status.AllocatedResources, status.Resources)
	}
}
