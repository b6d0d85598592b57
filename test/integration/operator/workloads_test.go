package operator

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

const workloadsSpec = `{workloads: {networkIsolation: {mode: Unenforced, clusterCIDRs: ["fd00::/8", "10.0.0.0/8"], allowedCIDRs: ["192.0.2.53/32"]},
	localImages: Trusted, orphanLimit: 0, resources: {requests: {cpu: 200m}}}}`

// newRunning returns a ControlPlane whose spaces' pods run on the host.
func newRunning(name string) *v1alpha1.ControlPlane {
	cp := newControlPlane(name)
	cp.Spec.Workloads = &v1alpha1.ControlPlaneWorkloads{}
	return cp
}

// podOf creates a pod of a Deployment with a status, until the end of the spec.
func podOf(ctx context.Context, deployment, name string, status corev1.ContainerStatus) *corev1.Pod {
	GinkgoHelper()
	template := get(ctx, &appsv1.Deployment{}, deployment).Spec.Template
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: template.Labels}, Spec: template.Spec}
	Expect(admin.Create(ctx, pod)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(admin.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed()) })
	setContainer(ctx, pod, status)
	return pod
}

func setContainer(ctx context.Context, pod *corev1.Pod, status corev1.ContainerStatus) {
	GinkgoHelper()
	status.Name, status.Image, status.ImageID = "tenantry", image, "x"
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{status}
	Expect(admin.Status().Update(ctx, pod)).To(Succeed())
}

var _ = Describe("A ControlPlane whose spaces' pods run on the host", func() {
	syncer := func(ctx context.Context, cp string) *appsv1.Deployment {
		GinkgoHelper()
		return get(ctx, &appsv1.Deployment{}, cp+"-syncer")
	}
	at := func(ctx context.Context, cp string) string {
		GinkgoHelper()
		return "--workloads-api-address=" + get(ctx, &corev1.Service{}, cp).Spec.ClusterIP + ":443"
	}
	hasToken := func(pod corev1.PodSpec, account string) {
		GinkgoHelper()
		Expect(pod.ServiceAccountName).To(Equal(account))
		Expect(*pod.AutomountServiceAccountToken).To(BeFalse(), "a host lets the token that admission mounts live for a year")
		Expect(pod.Containers[0].VolumeMounts).To(ContainElement(corev1.VolumeMount{Name: "host-token", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true}))
		volume := pod.Volumes[slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == "host-token" })]
		Expect(volume.Projected.Sources).To(HaveLen(3))
		Expect(*volume.Projected.Sources[0].ServiceAccountToken.ExpirationSeconds).To(BeEquivalentTo(3600))
		Expect(pod.Containers[0].Args).To(ContainElement("--host-in-cluster"))
	}

	It("has a syncer, and servers that connect to pods", func(ctx SpecContext) {
		cp := newRunning("running")
		create(ctx, cp)
		expectCondition(ctx, cp.Name, v1alpha1.ConditionWorkloadsReady, metav1.ConditionFalse, v1alpha1.ReasonRollingOut)
		Expect(admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "running-syncer"}, &appsv1.Deployment{})).NotTo(Succeed(), "a syncer has nobody to talk to")
		setReady(ctx, cp.Name)
		expectCondition(ctx, cp.Name, v1alpha1.ConditionWorkloadsReady, metav1.ConditionTrue, v1alpha1.ReasonSyncerReady)
		expectCondition(ctx, cp.Name, v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonAsDesired)
		expectEvent(ctx, namespace, cp.Name, v1alpha1.ReasonSyncerReady)

		server := get(ctx, &appsv1.StatefulSet{}, cp.Name).Spec.Template.Spec
		hasToken(server, "running.connect.tenantry.io")
		Expect(server.Containers[0].Args).To(ContainElements("--syncer=false", at(ctx, cp.Name)))
		made := syncer(ctx, cp.Name)
		hasToken(made.Spec.Template.Spec, "running.syncer.tenantry.io")
		Expect(*made.Spec.Replicas).To(BeEquivalentTo(1))
		Expect(made.Spec.Template.Spec.Containers[0].Args).To(ContainElements(at(ctx, cp.Name), "--workloads-image="+image))
		for _, name := range []string{"running", "running.syncer.tenantry.io", "running.connect.tenantry.io"} {
			Expect(*get(ctx, &corev1.ServiceAccount{}, name).AutomountServiceAccountToken).To(BeFalse(), name)
		}
	})

	It("has two syncers beside several servers", func(ctx SpecContext) {
		cp := newOnEtcd("running-several")
		cp.Spec.Workloads = &v1alpha1.ControlPlaneWorkloads{}
		createAvailable(ctx, cp)
		server := get(ctx, &appsv1.Deployment{}, cp.Name).Spec.Template.Spec
		hasToken(server, "running-several.connect.tenantry.io")
		Expect(server.Containers[0].Args).To(ContainElement(at(ctx, cp.Name)))
		Expect(server.Containers[0].Args).NotTo(ContainElement("--syncer=false"))
		Expect(*syncer(ctx, cp.Name).Spec.Replicas).To(BeEquivalentTo(2))
		managers := get(ctx, &appsv1.Deployment{}, cp.Name+"-manager").Spec.Template.Spec
		Expect(managers.ServiceAccountName).To(Equal(cp.Name))
		Expect(*managers.AutomountServiceAccountToken).To(BeFalse())
	})

	It("has what its spec says, and an image that the spec does not choose", func(ctx SpecContext) {
		cp := newFrom(parse("running-so", workloadsSpec))
		cp.Spec.Pod.Image = "registry.example/mine:1"
		cp.Spec.Pod.Proxy = &v1alpha1.ControlPlaneProxy{URL: "http://proxy:3128"}
		cp.Spec.Pod.PriorityClassName = "high"
		createAvailable(ctx, cp)
		template := syncer(ctx, cp.Name).Spec.Template
		container := template.Spec.Containers[0]
		Expect(container.Image).To(Equal(image))
		Expect(container.Env).To(BeEmpty())
		Expect(template.Spec.PriorityClassName).To(Equal("high"))
		Expect(container.Args).To(ContainElements("--network-isolation=Unenforced", "--network-isolation-cluster-cidrs=10.0.0.0/8,fd00::/8",
			"--network-isolation-allow-cidrs=192.0.2.53/32", "--trust-local-images", "--orphan-limit=0"))
		Expect(container.Resources.Requests.Cpu().String()).To(Equal("200m"))
		server := get(ctx, &appsv1.StatefulSet{}, cp.Name).Spec.Template.Spec.Containers[0]
		direct := slices.IndexFunc(server.Env, func(e corev1.EnvVar) bool { return e.Name == "NO_PROXY" })
		Expect(server.Env[direct].Value).To(ContainSubstring("$(KUBERNETES_SERVICE_HOST)"))

		template.Spec.PriorityClassName, template.Spec.Priority = "", nil
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "x", Labels: template.Labels}, Spec: template.Spec}
		Expect(admin.Create(ctx, pod, client.DryRunAll)).To(Succeed(), "the Pod Security Standard restricted lets it run")
	})

	It("says what its syncer says at its end, such as that nobody has given it rights", func(ctx SpecContext) {
		cp := newRunning("denied")
		createAvailable(ctx, cp)
		said := "the ServiceAccount denied.syncer.tenantry.io may not: kubectl create clusterrolebinding x"
		pod := podOf(ctx, "denied-syncer", "denied-syncer-0", corev1.ContainerStatus{
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 1, Message: "I1123 a line\ntenantry: " + said + "\n", FinishedAt: metav1.NewTime(time.Now()),
			}},
		})
		for kind, status := range map[string]metav1.ConditionStatus{v1alpha1.ConditionWorkloadsReady: metav1.ConditionFalse, v1alpha1.ConditionDegraded: metav1.ConditionTrue} {
			condition := expectCondition(ctx, cp.Name, kind, status, v1alpha1.ReasonPodFailing)
			Expect(condition.Message).To(Equal("pod denied-syncer-0: CrashLoopBackOff: tenantry: " + said))
		}
		expectCondition(ctx, cp.Name, v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonServersReady)

		setContainer(ctx, pod, corev1.ContainerStatus{Started: new(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
		condition := expectCondition(ctx, cp.Name, v1alpha1.ConditionWorkloadsReady, metav1.ConditionFalse, v1alpha1.ReasonSyncerNotReady)
		Expect(condition.Message).To(ContainSubstring("kubectl -n tenantry-system describe pod denied-syncer-0"))
		expectEvent(ctx, namespace, cp.Name, v1alpha1.ReasonSyncerNotReady)

		setContainer(ctx, pod, corev1.ContainerStatus{Started: new(true), Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
		expectCondition(ctx, cp.Name, v1alpha1.ConditionWorkloadsReady, metav1.ConditionTrue, v1alpha1.ReasonSyncerReady)
		expectCondition(ctx, cp.Name, v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonAsExpected)
	})

	It("stops its syncer when it is not to run pods any more, and says what is left", func(ctx SpecContext) {
		cp := newRunning("stopped")
		createAvailable(ctx, cp)
		want := func(workloads *v1alpha1.ControlPlaneWorkloads) {
			GinkgoHelper()
			change(ctx, cp, cp.Name, func(cp *v1alpha1.ControlPlane) { cp.Spec.Workloads = workloads })
		}
		want(nil)
		Eventually(func() int32 { return *syncer(ctx, cp.Name).Spec.Replicas }).Should(BeZero())
		server := func() string { return get(ctx, &appsv1.StatefulSet{}, cp.Name).Spec.Template.Spec.ServiceAccountName }
		Eventually(server).Should(Equal(cp.Name))
		template := get(ctx, &appsv1.StatefulSet{}, cp.Name).Spec.Template.Spec
		Expect(*template.AutomountServiceAccountToken).To(BeFalse())
		Expect(template.Containers[0].Args).NotTo(ContainElement(HavePrefix("--host-in-cluster")))
		condition := expectCondition(ctx, cp.Name, v1alpha1.ConditionWorkloadsReady, metav1.ConditionFalse, v1alpha1.ReasonStopped)
		Expect(condition.Message).To(ContainSubstring(
			"kubectl delete namespaces -l workloads.tenantry.io/control-plane-namespace=tenantry-system,workloads.tenantry.io/control-plane=stopped"))
		expectEvent(ctx, namespace, cp.Name, v1alpha1.ReasonStopped)

		want(&v1alpha1.ControlPlaneWorkloads{})
		Eventually(server).Should(Equal("stopped.connect.tenantry.io"))
		Eventually(func() int32 {
			setReady(ctx, cp.Name)
			return *syncer(ctx, cp.Name).Spec.Replicas
		}).Should(BeEquivalentTo(1))
	})

	It("does not take another one's Deployment for its syncer", func(ctx SpecContext) {
		foreign := syncerOfAnother("taken-syncer")
		createFor(ctx, foreign)
		cp := newControlPlane("taken")
		createAvailable(ctx, cp)
		expectCondition(ctx, cp.Name, v1alpha1.ConditionDegraded, metav1.ConditionFalse, v1alpha1.ReasonAsExpected)
		change(ctx, cp, cp.Name, func(cp *v1alpha1.ControlPlane) { cp.Spec.Workloads = &v1alpha1.ControlPlaneWorkloads{} })
		condition := expectCondition(ctx, cp.Name, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonNameTaken)
		Expect(condition.Message).To(ContainSubstring(`Deployment "taken-syncer"`))
		expectCondition(ctx, cp.Name, v1alpha1.ConditionWorkloadsReady, metav1.ConditionFalse, v1alpha1.ReasonBlocked)
		Expect(*get(ctx, foreign, foreign.Name).Spec.Replicas).To(BeEquivalentTo(3))
	})
})

// syncerOfAnother is a Deployment that somebody else has made.
func syncerOfAnother(name string) *appsv1.Deployment {
	labels := map[string]string{"app": "other"}
	return named(&appsv1.Deployment{Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(3)), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
	}}, name)
}
