package translate

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

// debugger adds an ephemeral container to a pod.
func debugger(change func(*corev1.EphemeralContainer)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		c := corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: fmt.Sprintf("d%d", len(p.Spec.EphemeralContainers)), Image: "i"}}
		if change != nil {
			change(&c)
		}
		p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, c)
	}
}

func debuggersMany(count int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for range count {
			debugger(nil)(p)
		}
	}
}

// with returns a change of an ephemeral container to one with capabilities.
func with(add ...corev1.Capability) func(*corev1.EphemeralContainer) {
	return func(c *corev1.EphemeralContainer) {
		c.SecurityContext = &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: add}}
	}
}

// TestCheckEphemeral checks that ephemeral containers are held to what others are, and have nothing else.
func TestCheckEphemeral(t *testing.T) {
	privileged := Rules{Level: Privileged}
	for name, tc := range map[string]struct {
		rules  Rules
		change func(*corev1.Pod)
		want   string
	}{
		"one":                {change: debugger(nil)},
		"one of a container": {change: debugger(func(c *corev1.EphemeralContainer) { c.TargetContainerName = "c" })},
		"one that a user runs": {change: debugger(func(c *corev1.EphemeralContainer) {
			c.Stdin, c.TTY, c.Command, c.VolumeMounts = true, true, []string{"sh"}, []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
		})},
		"many":         {change: debuggersMany(32)},
		"too many":     {privileged, debuggersMany(33), "spec.ephemeralContainers: Forbidden: it has 33 ephemeral containers, and a pod that runs on a host cluster has at most 32"},
		"a long name":  {change: debugger(func(c *corev1.EphemeralContainer) { c.Name = strings.Repeat("d", 60) })},
		"a longer one": {privileged, debugger(func(c *corev1.EphemeralContainer) { c.Name = strings.Repeat("d", 61) }), "spec.ephemeralContainers[0].name: Forbidden: it is longer than 60 characters"},
		"a port":       {privileged, debugger(func(c *corev1.EphemeralContainer) { c.Ports = []corev1.ContainerPort{{HostPort: 1}} }), "spec.ephemeralContainers[0].ports: Forbidden: ephemeral containers may not have this field"},
		"a probe": {privileged, debugger(func(c *corev1.EphemeralContainer) {
			c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Host: "h"}}}
		}), "spec.ephemeralContainers[0].livenessProbe"},
		"a hook": {privileged, debugger(func(c *corev1.EphemeralContainer) { c.Lifecycle = &corev1.Lifecycle{} }), "spec.ephemeralContainers[0].lifecycle"},
		"a device": {privileged, debugger(func(c *corev1.EphemeralContainer) {
			c.Resources.Limits = corev1.ResourceList{"smarter-devices/mem": resource.MustParse("1")}
		}), "spec.ephemeralContainers[0].resources"},
		"a restart":              {privileged, debugger(func(c *corev1.EphemeralContainer) { c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways) }), "spec.ephemeralContainers[0].restartPolicy"},
		"all rights":             {Rules{}, debugger(func(c *corev1.EphemeralContainer) { c.SecurityContext = &corev1.SecurityContext{Privileged: new(true)} }), "level baseline of the Tenant: privileged (container \"d0\""},
		"all rights that may be": {rules: privileged, change: debugger(func(c *corev1.EphemeralContainer) { c.SecurityContext = &corev1.SecurityContext{Privileged: new(true)} })},
		"raw packets":            {Rules{}, debugger(with("NET_RAW")), "level baseline"},
		"raw packets, otherwise": {Rules{}, debugger(with("CAP_NET_RAW")), "level baseline"},
		"raw packets, in small":  {Rules{}, debugger(with("net_raw")), "level baseline"},
		"all capabilities":       {Rules{}, debugger(with("all")), "level baseline"},
		"the memory of others":   {Rules{}, debugger(with("SYS_PTRACE")), "level baseline"},
		"a root":                 {Rules{Level: Restricted}, debugger(nil), "level restricted"},
		"a level of SELinux": {privileged, debugger(func(c *corev1.EphemeralContainer) {
			c.SecurityContext = &corev1.SecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Level: "s0:c1"}}
		}), "spec.ephemeralContainers[0].securityContext.seLinuxOptions.level"},
		"a profile of the node": {privileged, debugger(func(c *corev1.EphemeralContainer) {
			c.SecurityContext = &corev1.SecurityContext{AppArmorProfile: &corev1.AppArmorProfile{LocalhostProfile: new("p")}}
		}), "appArmorProfile.localhostProfile"},
		"another's Secret": {privileged, debugger(func(c *corev1.EphemeralContainer) {
			c.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "../../kube-system/x"}}}}
		}), "is the name of no ConfigMap or Secret"},
		"a field that is unknown": {privileged, debugger(func(c *corev1.EphemeralContainer) {
			c.Env = []corev1.EnvVar{{ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.later"}}}}
		}), "spec.ephemeralContainers[0].env[0].valueFrom.fieldRef.fieldPath"},
		"many ConfigMaps and one": {privileged, both(namesMany(100), debugger(func(c *corev1.EphemeralContainer) {
			c.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}}
		})), "it names 101 ConfigMaps and Secrets"},
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

// TestEphemeralContainers checks what the host gets of an ephemeral container.
func TestEphemeralContainers(t *testing.T) {
	pod := plain()
	pod.Annotations = map[string]string{"own": "x"}
	debugger(func(c *corev1.EphemeralContainer) {
		c.TargetContainerName, c.ImagePullPolicy = "c", corev1.PullNever
		c.SecurityContext = &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"CAP_NET_RAW"}}}
		c.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}}
		c.Env = []corev1.EnvVar{
			{Name: "K", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "m"}}}},
			{Name: "A", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['own']"}}},
		}
	})(pod)
	if diff := cmp.Diff(References{ConfigMaps: map[string]bool{"m": true}, Secrets: map[string]bool{"s": true}}, ReferencesOf(&pod.Spec)); diff != "" {
		t.Errorf("it reads (-want +got):\n%s", diff)
	}
	host := Options{}.Pod(pod, home)
	want := corev1.EphemeralContainer{TargetContainerName: "c", EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: "tn-d0", Image: "i", ImagePullPolicy: corev1.PullAlways,
		SecurityContext: &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"CAP_NET_RAW", "NET_RAW"}}},
		EnvFrom:         []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "tn-s"}}}},
		Env: []corev1.EnvVar{
			{Name: "K", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "tn-m"}}}},
			{Name: "A", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.annotations['" + annotationOnHost("own") + "']"}}},
		},
	}}
	if diff := cmp.Diff([]corev1.EphemeralContainer{want}, host.Spec.EphemeralContainers); diff != "" {
		t.Errorf("on the host (-want +got):\n%s", diff)
	}
	if host.Annotations[annotationOnHost("own")] != "x" {
		t.Errorf("what it reads is %v", host.Annotations)
	}
	if pod.Spec.EphemeralContainers[0].Name != "d0" {
		t.Error("the pod of the space has changed")
	}
}

// TestEphemeralVariables checks that no ephemeral container asks the API of the host, and that all of them have some
// room.
func TestEphemeralVariables(t *testing.T) {
	var services []*corev1.Service
	for i := range 2000 {
		services = append(services, service(fmt.Sprintf("service-%04d", i), "10.43.0.9", corev1.ServicePort{Port: 80}))
	}
	pod := plain()
	debuggersMany(maxEphemeral)(pod)
	o := Options{API: netip.MustParseAddrPort("192.0.2.7:6443")}
	host := o.Pod(pod, home)
	before := host.Size()
	o.SetVariables(host, pod, services)
	if added := host.Size() - before; added > 2*maxVariables+(1+maxEphemeral)*1024 {
		t.Errorf("they have %d bytes", added)
	}
	for i := range host.Spec.EphemeralContainers {
		env := host.Spec.EphemeralContainers[i].Env
		if env[0] != (corev1.EnvVar{Name: "KUBERNETES_SERVICE_HOST", Value: "192.0.2.7"}) || env[8].Name != "SERVICE_0000_SERVICE_HOST" {
			t.Errorf("%d has %v", i, env[:9])
		}
	}
}

// TestDebuggerStatus checks that a space is told of its own ephemeral containers, by their names there.
func TestDebuggerStatus(t *testing.T) {
	pod := plain()
	debuggersMany(2)(pod)
	waiting := func(name, message string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Message: message}}}
	}
	host := &corev1.Pod{Status: corev1.PodStatus{EphemeralContainerStatuses: []corev1.ContainerStatus{
		waiting("tn-d1", `failed to start container "tn-d1"`), waiting("admins", "secret"), waiting("d0", "admins too"),
	}}}
	want := []corev1.ContainerStatus{waiting("d1", `failed to start container "d1"`)}
	if diff := cmp.Diff(want, Status(host, pod, home.Namespace, true).EphemeralContainerStatuses); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := Text("spec.ephemeralContainers{tn-d1}", host, pod, home.Namespace); got != "spec.ephemeralContainers{d1}" {
		t.Errorf("an event is about %q", got)
	}
}

// TestResizeStatus checks what a space is told of a resize: all but what others use of the node.
func TestResizeStatus(t *testing.T) {
	pending := func(generation int64, message string) corev1.PodCondition {
		return corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonDeferred, ObservedGeneration: generation, Message: message}
	}
	const told = "Node didn't have enough resource: cpu, requested: 900"
	allocated := []corev1.ContainerStatus{{Name: "c", AllocatedResources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}}
	for name, tc := range map[string]struct {
		observed, host, condition int64
		same                      bool
		want, wantOf              int64
	}{
		"what it was seen to be":        {observed: 3, host: 3, condition: 3, same: true, want: 7, wantOf: 7},
		"what it was before":            {observed: 2, host: 3, condition: 2, same: true, want: 5, wantOf: 4},
		"what it is, and was before":    {observed: 3, host: 3, condition: 2, same: true, want: 7, wantOf: 4},
		"what is not on the host yet":   {observed: 3, host: 3, condition: 3, want: 5, wantOf: 4},
		"a host that counts no changes": {same: true, want: 5, wantOf: 4},
	} {
		t.Run(name, func(t *testing.T) {
			pod, host := plain(), &corev1.Pod{}
			pod.Generation, pod.Status.ObservedGeneration, pod.Status.Conditions = 7, 5, []corev1.PodCondition{pending(4, "")}
			host.Generation, host.Status.ObservedGeneration = tc.host, tc.observed
			host.Status.Conditions = []corev1.PodCondition{pending(tc.condition, "Node didn't have enough resource: cpu, requested: 900, used: 3500, capacity: 4000")}
			host.Status.ContainerStatuses = allocated
			want := corev1.PodStatus{ObservedGeneration: tc.want, Conditions: []corev1.PodCondition{pending(tc.wantOf, told)}, ContainerStatuses: allocated}
			if diff := cmp.Diff(want, Status(host, pod, home.Namespace, tc.same)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	text := "node didn't have enough allocatable resources: cpu, requested: 9000, allocatable: 4000; memory, requested: 3, allocatable: 2"
	if got := Text(text, &corev1.Pod{}, plain(), home.Namespace); got != "node didn't have enough allocatable resources: cpu, requested: 9000; memory, requested: 3" {
		t.Errorf("it is told %q", got)
	}
	if names.Debugger("x") == "x" {
		t.Error("an ephemeral container is called as one of the host's administrators")
	}
}
