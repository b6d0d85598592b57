package workloads

import (
	"encoding/json"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/held"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/test/env/suite"
)

// debug adds an ephemeral container to a pod.
func debug(ctx SpecContext, pods coreclient.PodInterface, pod string, c corev1.EphemeralContainerCommon) error {
	c.Image = "localhost/i:1"
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"ephemeralContainers": []corev1.EphemeralContainer{{EphemeralContainerCommon: c}}}})
	Expect(err).NotTo(HaveOccurred())
	_, err = pods.Patch(ctx, pod, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "ephemeralcontainers")
	return err
}

// sized is a pod that asks for so many processors.
func sized(name, cpu string) *corev1.Pod {
	pod := plainPod(name)
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list, Limits: list}
	return pod
}

// resize asks for so many processors for a pod.
func resize(ctx SpecContext, pods coreclient.PodInterface, pod, cpu string) error {
	patch := fmt.Sprintf(`{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":%q},"limits":{"cpu":%q}}}]}}`, cpu, cpu)
	_, err := pods.Patch(ctx, pod, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "resize")
	return err
}

// kubeletSays has a kubelet write the status of a pod of the host, for its generation.
func kubeletSays(ctx SpecContext, pod *corev1.Pod, change func(*corev1.Pod)) {
	GinkgoHelper()
	Eventually(func() error {
		now, err := host.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		now.Status.ObservedGeneration = now.Generation
		change(now)
		_, err = host.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, now, metav1.UpdateOptions{})
		return err
	}).Should(Succeed())
}

var _ = Describe("Ephemeral containers", func() {
	It("are added to the host's pod, and their status comes back", func(ctx SpecContext) {
		core := tenantry.Client(acme).CoreV1()
		pods := core.Pods("default")
		_, err := core.Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "for-debuggers"}, StringData: map[string]string{"k": "v"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = pods.Create(ctx, plainPod("debugged"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		there := onHost(ctx, acme, "debugged")
		start(ctx, there)
		Expect(debug(ctx, pods, "debugged", corev1.EphemeralContainerCommon{Name: "d", EnvFrom: []corev1.EnvFromSource{
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "for-debuggers"}}},
		}})).To(Succeed())
		Eventually(func(g Gomega) {
			added := onHost(ctx, acme, "debugged").Spec.EphemeralContainers
			g.Expect(added).To(HaveLen(1))
			g.Expect(added[0].Name).To(Equal("tn-d"))
			g.Expect(added[0].ImagePullPolicy).To(Equal(corev1.PullAlways))
			g.Expect(added[0].SecurityContext.Capabilities.Drop).To(ConsistOf(corev1.Capability("NET_RAW")))
			g.Expect(added[0].EnvFrom[0].SecretRef.Name).To(Equal("tn-for-debuggers"))
			g.Expect(added[0].Env[0].Name).To(Equal("KUBERNETES_SERVICE_HOST"))
		}).Should(Succeed())
		_, err = host.CoreV1().Secrets(there.Namespace).Get(ctx, "tn-for-debuggers", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred(), "it is there before the container")
		Expect(debug(ctx, host.CoreV1().Pods(there.Namespace), "debugged", corev1.EphemeralContainerCommon{Name: "admins"})).To(Succeed())
		kubeletSays(ctx, there, func(p *corev1.Pod) {
			running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
			p.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "tn-d", State: running}, {Name: "admins", State: running}}
		})
		Eventually(func(g Gomega) {
			now, err := pods.Get(ctx, "debugged", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(now.Generation).To(Equal(int64(2)))
			g.Expect(now.Status.ObservedGeneration).To(Equal(int64(2)))
			g.Expect(now.Status.EphemeralContainerStatuses).To(HaveLen(1))
			g.Expect(now.Status.EphemeralContainerStatuses[0].Name).To(Equal("d"))
			g.Expect(now.Status.EphemeralContainerStatuses[0].State.Running).NotTo(BeNil())
		}).Should(Succeed())
	})

	It("are held to what other containers are", func(ctx SpecContext) {
		pods := tenantry.Client(acme).CoreV1().Pods("default")
		_, err := pods.Create(ctx, plainPod("held-to-it"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		onHost(ctx, acme, "held-to-it")
		for _, s := range []*corev1.SecurityContext{
			{Privileged: new(true)}, {Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"CAP_NET_RAW"}}}, {Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN"}}},
		} {
			Expect(debug(ctx, pods, "held-to-it", corev1.EphemeralContainerCommon{Name: "d", SecurityContext: s})).
				To(And(Satisfy(apierrors.IsForbidden), MatchError(ContainSubstring("Pod Security level baseline"))))
		}
		Expect(debug(ctx, pods, "held-to-it", corev1.EphemeralContainerCommon{Name: "d", EnvFrom: []corev1.EnvFromSource{
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "../x"}}}}})).To(HaveOccurred())
		Consistently(func() []corev1.EphemeralContainer { return onHost(ctx, acme, "held-to-it").Spec.EphemeralContainers }, "1s").Should(BeEmpty())
	})

	It("that the host refuses say why, and others are added", func(ctx SpecContext) {
		pods := tenantry.Client(acme).CoreV1().Pods("default")
		pod := plainPod("taken")
		pod.Spec.Containers[0].Name = "tn-d" // as its ephemeral container is called on the host
		_, err := pods.Create(ctx, pod, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		onHost(ctx, acme, "taken")
		Expect(debug(ctx, pods, "taken", corev1.EphemeralContainerCommon{Name: "d"})).To(Succeed())
		Eventually(func(g Gomega) {
			now, err := pods.Get(ctx, "taken", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(now.Status.EphemeralContainerStatuses).To(HaveLen(1))
			g.Expect(now.Status.EphemeralContainerStatuses[0].State.Waiting.Reason).To(Equal("RefusedByHost"))
			g.Expect(now.Status.EphemeralContainerStatuses[0].State.Waiting.Message).To(ContainSubstring("Duplicate value"))
			events, err := tenantry.Client(acme).CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "reason=RefusedByHost,involvedObject.name=taken"})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(events.Items).NotTo(BeEmpty())
		}).Should(Succeed())
		Expect(debug(ctx, pods, "taken", corev1.EphemeralContainerCommon{Name: "e"})).To(Succeed())
		Eventually(func() []corev1.EphemeralContainer { return onHost(ctx, acme, "taken").Spec.EphemeralContainers }).Should(HaveLen(1))
	})

	It("are added by a stolen credential to nobody else's pods, and with no more rights", func(ctx SpecContext) {
		_, err := tenantry.Client(acme).CoreV1().Pods("default").Create(ctx, plainPod("coveted"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		there := onHost(ctx, acme, "coveted")
		_, err = host.CoreV1().Pods("default").Create(ctx, plainPod("hosts"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		config := tenantry.Config(tenant.System)
		config.Impersonate.UserName = "system:serviceaccount:tenantry-workloads:syncer"
		config.Impersonate.Groups = []string{"system:serviceaccounts", "system:serviceaccounts:tenantry-workloads", "system:authenticated"}
		stolen := suite.Client(config).CoreV1()
		dropped := &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"NET_RAW"}}}
		Expect(debug(ctx, stolen.Pods("default"), "hosts", corev1.EphemeralContainerCommon{Name: "d", SecurityContext: dropped})).To(Satisfy(apierrors.IsForbidden))
		Expect(resize(ctx, stolen.Pods("default"), "hosts", "1")).To(Satisfy(apierrors.IsForbidden))
		Eventually(func() error { // the policy holds some time after it has been made
			return debug(ctx, stolen.Pods(there.Namespace), "coveted", corev1.EphemeralContainerCommon{Name: "d"})
		}).Should(MatchError(ContainSubstring("containers of spaces drop NET_RAW")))
		Expect(debug(ctx, host.CoreV1().Pods(there.Namespace), "coveted", corev1.EphemeralContainerCommon{Name: "admins"})).To(Succeed())
		Expect(debug(ctx, stolen.Pods(there.Namespace), "coveted", corev1.EphemeralContainerCommon{Name: "d", SecurityContext: dropped})).To(Succeed(), "an administrator's is none of ours")
	})

	It("are not added to a successor of the pod", func(ctx SpecContext) {
		_, err := host.CoreV1().Pods("default").Create(ctx, plainPod("successor"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		for _, subresource := range []string{"", "ephemeralcontainers", "resize"} {
			_, err := host.CoreV1().Pods("default").Patch(ctx, "successor", types.StrategicMergePatchType, []byte(`{"metadata":{"uid":"another"}}`), metav1.PatchOptions{}, subresource)
			Expect(err).To(And(Satisfy(apierrors.IsInvalid), MatchError(ContainSubstring("metadata.uid"))), subresource)
		}
	})
})

var _ = Describe("Resizes", func() {
	// The node stays: the syncer shows nodes of the host, and this host is the system space that it shows them in.
	BeforeEach(func(ctx SpecContext) {
		nodes := host.CoreV1().Nodes()
		Eventually(func() error {
			_, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}, metav1.CreateOptions{})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
			node, err := nodes.Get(ctx, "node", metav1.GetOptions{})
			if err != nil {
				return err
			}
			node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("4Gi")}
			_, err = nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{})
			return err
		}).Should(Succeed())
	})

	// cpuOnHost returns for how many processors the host's pod asks.
	cpuOnHost := func(ctx SpecContext, name string) func() string {
		return func() string { return onHost(ctx, acme, name).Spec.Containers[0].Resources.Requests.Cpu().String() }
	}

	// begun makes a pod that runs.
	begun := func(ctx SpecContext, name, cpu string) (coreclient.PodInterface, *corev1.Pod) {
		pods := tenantry.Client(acme).CoreV1().Pods("default")
		_, err := pods.Create(ctx, sized(name, cpu), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		there := onHost(ctx, acme, name)
		start(ctx, there)
		Eventually(func() (string, error) {
			now, err := pods.Get(ctx, name, metav1.GetOptions{})
			return now.Spec.NodeName, err
		}).Should(Equal("node"))
		return pods, there
	}

	It("get to the host's pod, and report their conditions", func(ctx SpecContext) {
		pods, there := begun(ctx, "resized", "1")
		Expect(resize(ctx, pods, "resized", "2")).To(Succeed())
		Eventually(cpuOnHost(ctx, "resized")).Should(Equal("2"))
		Eventually(func() map[string]string { return onHost(ctx, acme, "resized").Annotations }).Should(HaveKeyWithValue(names.Prefix+"resources", Not(BeEmpty())))
		for _, condition := range []corev1.PodCondition{
			{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonDeferred, Message: "Node didn't have enough resource: cpu, requested: 2000, used: 3500, capacity: 4000"},
			{Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue},
		} {
			kubeletSays(ctx, there, func(p *corev1.Pod) {
				condition.ObservedGeneration = p.Generation
				p.Status.Conditions = []corev1.PodCondition{condition}
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", AllocatedResources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
					Resources: &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}}}
			})
			Eventually(func(g Gomega) {
				now, err := pods.Get(ctx, "resized", metav1.GetOptions{})
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(now.Status.ObservedGeneration).To(Equal(now.Generation))
				g.Expect(now.Status.ContainerStatuses[0].AllocatedResources.Cpu().String()).To(Equal("1"))
				var found *corev1.PodCondition
				for _, c := range now.Status.Conditions {
					if c.Type == condition.Type {
						found = &c
					}
				}
				g.Expect(found).NotTo(BeNil())
				g.Expect(found.Reason).To(Equal(condition.Reason))
				g.Expect(found.ObservedGeneration).To(Equal(now.Generation))
				g.Expect(found.Message).NotTo(ContainSubstring("used"))
			}).Should(Succeed())
		}
		holds := func() {
			GinkgoHelper()
			kubeletSays(ctx, there, func(p *corev1.Pod) {
				p.Status.Conditions = nil
				p.Status.ContainerStatuses[0].Resources = p.Spec.Containers[0].Resources.DeepCopy()
			})
		}
		holds()
		Expect(resize(ctx, pods, "resized", "1")).To(Succeed())
		Eventually(cpuOnHost(ctx, "resized")).Should(Equal("1"))
		holds()
		Eventually(func() (string, error) {
			now, err := pods.Get(ctx, "resized", metav1.GetOptions{})
			return now.Status.ContainerStatuses[0].Resources.Requests.Cpu().String(), err
		}).Should(Equal("1"))
	})

	It("that are taken back count until the host has made the last one", func(ctx SpecContext) {
		core := tenantry.Client(acme).CoreV1()
		pods, there := begun(ctx, "back", "1")
		kubeletSays(ctx, there, func(*corev1.Pod) {})
		names := []corev1.ResourceName{corev1.ResourceRequestsCPU, corev1.ResourceLimitsCPU}
		_, err := core.ResourceQuotas("default").Create(ctx, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "back"}, Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{names[0]: resource.MustParse("50"), names[1]: resource.MustParse("50")},
		}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			Expect(core.ResourceQuotas("default").Delete(ctx, "back", metav1.DeleteOptions{})).To(Succeed())
		})
		used := func() (used []int64, err error) {
			quota, err := core.ResourceQuotas("default").Get(ctx, "back", metav1.GetOptions{})
			for _, name := range names {
				used = append(used, quota.Status.Used.Name(name, resource.DecimalSI).MilliValue())
			}
			return used, err
		}
		Eventually(used).ShouldNot(ContainElement(int64(0)))
		before, err := used()
		Expect(err).NotTo(HaveOccurred())
		beyond := func(milli int64) []int64 { return []int64{before[0] + milli, before[1] + milli} }
		Expect(resize(ctx, pods, "back", "3")).To(Succeed())
		Eventually(used).Should(Equal(beyond(2000)))
		Expect(resize(ctx, pods, "back", "1")).To(Succeed())
		Expect(used()).To(Equal(beyond(2000)), "the host may have the one before")
		Eventually(cpuOnHost(ctx, "back")).Should(Equal("1"))
		kubeletSays(ctx, there, func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue, ObservedGeneration: p.Generation}}
		})
		Eventually(func() (int, error) {
			now, err := pods.Get(ctx, "back", metav1.GetOptions{})
			return len(now.Status.Conditions), err
		}).Should(BeNumerically(">", 0))
		Expect(used()).To(Equal(beyond(2000)), "its node is about it")
		kubeletSays(ctx, there, func(p *corev1.Pod) { p.Status.Conditions = nil })
		Eventually(used).Should(Equal(before))
		now, err := pods.Get(ctx, "back", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(held.Parse(now.Annotations)).To(Equal(held.Note{Generation: now.Generation}))
	})

	It("of a pod that waits are in what begins", func(ctx SpecContext) {
		pods := tenantry.Client(acme).CoreV1().Pods("default")
		waiting := sized("waiting", "1")
		waiting.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
		_, err := pods.Create(ctx, waiting, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(resize(ctx, pods, "waiting", "3")).To(Succeed())
		Expect(debug(ctx, pods, "waiting", corev1.EphemeralContainerCommon{Name: "d"})).To(Succeed())
		_, err = pods.Patch(ctx, "waiting", types.MergePatchType, []byte(`{"spec":{"schedulingGates":[]}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(cpuOnHost(ctx, "waiting")).Should(Equal("3"))
		Eventually(func() []corev1.EphemeralContainer { return onHost(ctx, acme, "waiting").Spec.EphemeralContainers }).Should(HaveLen(1))
	})

	It("beyond what a quota or a LimitRange allows are refused, also while the node says that one is infeasible", func(ctx SpecContext) {
		core := tenantry.Client(acme).CoreV1()
		pods, there := begun(ctx, "limited", "1")
		used := func() (string, error) {
			quota, err := core.ResourceQuotas("default").Get(ctx, "cpus", metav1.GetOptions{})
			return quota.Status.Used.Name(corev1.ResourceRequestsCPU, resource.DecimalSI).String(), err
		}
		var others int64
		list, err := pods.List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		for i := range list.Items {
			others += list.Items[i].Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
		}
		_, err = core.ResourceQuotas("default").Create(ctx, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "cpus"}, Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{corev1.ResourceRequestsCPU: *resource.NewMilliQuantity(others+1000, resource.DecimalSI)},
		}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			Expect(core.ResourceQuotas("default").Delete(ctx, "cpus", metav1.DeleteOptions{})).To(Succeed())
		})
		Eventually(used).Should(Equal(resource.NewMilliQuantity(others, resource.DecimalSI).String()))
		large := plainPod("large")
		two := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
		large.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: two, Limits: two}
		Eventually(func() error { // admission knows the quota some time after it has been made
			_, err := pods.Create(ctx, large, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}).Should(MatchError(ContainSubstring("exceeded quota")))
		Expect(resize(ctx, pods, "limited", "3")).To(And(Satisfy(apierrors.IsForbidden), MatchError(ContainSubstring("exceeded quota"))))
		Expect(resize(ctx, pods, "limited", "2")).To(Succeed())
		Eventually(cpuOnHost(ctx, "limited")).Should(Equal("2"))
		kubeletSays(ctx, there, func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible, ObservedGeneration: p.Generation}}
			one := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", AllocatedResources: one, Resources: &corev1.ResourceRequirements{Requests: one, Limits: one}}}
		})
		Eventually(func() (string, error) {
			now, err := pods.Get(ctx, "limited", metav1.GetOptions{})
			if err != nil || len(now.Status.Conditions) == 0 {
				return "", err
			}
			return now.Status.Conditions[0].Reason, nil
		}).Should(Equal(corev1.PodReasonInfeasible))
		Expect(resize(ctx, pods, "limited", "4")).To(MatchError(ContainSubstring("exceeded quota")))
		Expect(used()).To(Equal(resource.NewMilliQuantity(others+1000, resource.DecimalSI).String()))

		_, err = core.LimitRanges("default").Create(ctx, &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "small"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
			{Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m")}},
		}}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			Expect(core.LimitRanges("default").Delete(ctx, "small", metav1.DeleteOptions{})).To(Succeed())
		})
		Eventually(func() error { // admission knows the LimitRange some time after it has been made
			_, err := pods.Create(ctx, large, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}).Should(MatchError(ContainSubstring("maximum cpu usage per Container is 1500m")))
		Expect(resize(ctx, pods, "limited", "1600m")).To(MatchError(ContainSubstring("maximum cpu usage per Container is 1500m")))
		Expect(cpuOnHost(ctx, "limited")()).To(Equal("2"))
	})

	It("that the host refuses say why, and count until they are taken back", func(ctx SpecContext) {
		pods, there := begun(ctx, "too-large", "1")
		kubeletSays(ctx, there, func(*corev1.Pod) {})
		Expect(resize(ctx, pods, "too-large", "5")).To(Succeed(), "the space has no nodes")
		Eventually(func(g Gomega) {
			now, err := pods.Get(ctx, "too-large", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			var found *corev1.PodCondition
			for _, c := range now.Status.Conditions {
				if c.Type == corev1.PodResizePending {
					found = &c
				}
			}
			g.Expect(found).NotTo(BeNil())
			g.Expect(found.Reason).To(Equal("RefusedByHost"))
			g.Expect(found.Message).To(And(ContainSubstring("cpu, requested: 5000"), Not(ContainSubstring("4000"))))
		}).Should(Succeed())
		Expect(resize(ctx, pods, "too-large", "1")).To(Succeed())
		Eventually(func(g Gomega) {
			now, err := pods.Get(ctx, "too-large", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			for _, c := range now.Status.Conditions {
				g.Expect(c.Type).NotTo(Equal(corev1.PodResizePending))
			}
			g.Expect(onHost(ctx, acme, "too-large").Annotations).To(HaveKeyWithValue(names.Prefix+"resources", Not(BeEmpty())))
		}).Should(Succeed())
		Expect(cpuOnHost(ctx, "too-large")()).To(Equal("1"))
	})
})
