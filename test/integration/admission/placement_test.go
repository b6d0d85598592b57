package admission

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/tenantry/tenantry/internal/tenant"
)

var _ = Describe("Pods that choose their nodes", func() {
	selecting := func(label string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{label: "x"} }
	}
	deploying := func(ctx context.Context, client kubernetes.Interface, label string) error {
		labels := map[string]string{"app": "d"}
		_, err := client.AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "d-"},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec:       corev1.PodSpec{NodeSelector: map[string]string{label: "x"}, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
				},
			},
		}, metav1.CreateOptions{})
		return err
	}

	It("are refused, limited or allowed as their tenant says", func(ctx SpecContext) {
		n := tenantry.NewTenant(ctx, "placed")
		a := tenantry.Client(n)
		ensureServiceAccount(ctx, a, "default")
		refused := func(err error, what string) {
			GinkgoHelper()
			Expect(err).To(beForbidden())
			Expect(err).To(MatchError(And(ContainSubstring("SpacePolicy: node placement is "), ContainSubstring(what))))
		}
		_, err := newPod(ctx, a, "default", selecting("disk"))
		refused(err, `Disabled in this tenant, which does not allow spec.nodeSelector "disk"`)
		_, err = newPod(ctx, a, "default", func(pod *corev1.Pod) { pod.Spec.NodeName = "n" })
		refused(err, `spec.nodeName "n"`)
		refused(deploying(ctx, a, "disk"), `spec.template.spec.nodeSelector "disk"`)
		Expect(deploying(ctx, a, "kubernetes.io/os")).To(Succeed())
		pod, err := newPod(ctx, a, "default")
		Expect(err).NotTo(HaveOccurred(), "a pod that chooses nothing")
		refused(a.CoreV1().Pods("default").Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"},
		}, metav1.CreateOptions{}), `target "n"`)

		Expect(tenantry.SetSpec(ctx, n, "nodePlacement", `{"mode":"Limited","allowedLabels":["zone"]}`)).To(Succeed())
		Eventually(func() error {
			_, err := newPod(ctx, a, "default", selecting("zone"))
			return err
		}).Should(Succeed())
		Expect(deploying(ctx, a, "zone")).To(Succeed())
		_, err = newPod(ctx, a, "default", selecting("disk"))
		refused(err, `Limited to labels [zone] and taints []`)
		refused(deploying(ctx, a, "disk"), `spec.template.spec.nodeSelector "disk"`)

		Expect(tenantry.SetSpec(ctx, n, "nodePlacement", `{"mode":"Enabled","allowedLabels":null}`)).To(Succeed())
		Eventually(func() error {
			_, err := newPod(ctx, a, "default", selecting("disk"))
			return err
		}).Should(Succeed())
		Expect(deploying(ctx, a, "disk")).To(Succeed())

		_, err = newPod(ctx, tenantry.Client(tenant.System), "default", func(pod *corev1.Pod) { pod.Spec.NodeName = "n" })
		Expect(err).NotTo(HaveOccurred(), "in the system space")
	})

	It("are refused what would lead them to nodes by other objects, or by other fields", func(ctx SpecContext) {
		a := newTenant(ctx, "led")
		ensureServiceAccount(ctx, a, "default")
		refused := func(_ any, err error) func(string) {
			return func(what string) {
				GinkgoHelper()
				Expect(err).To(beForbidden())
				Expect(err).To(MatchError(And(ContainSubstring("SpacePolicy: node placement is Disabled"), ContainSubstring(what))))
			}
		}
		refused(newPod(ctx, a, "default", func(pod *corev1.Pod) {
			pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				TopologyKey: "disk", MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{},
			}}
		}))(`topology key "disk"`)
		pod, err := newPod(ctx, a, "default", func(pod *corev1.Pod) {
			pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				TopologyKey: corev1.LabelTopologyZone, MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{},
			}}
			pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
		})
		Expect(err).NotTo(HaveOccurred(), "spread as usual")
		pods := a.CoreV1().Pods("default")
		By("a pod that waits, whose node selector may still change")
		refused(pods.Patch(ctx, pod.Name, types.MergePatchType, []byte(`{"spec": {"nodeSelector": {"disk": "x"}}}`), metav1.PatchOptions{}))(`spec.nodeSelector "disk"`)
		By("the status of a pod, whose nominated node the scheduler tries first")
		refused(pods.Patch(ctx, pod.Name, types.MergePatchType, []byte(`{"status": {"nominatedNodeName": "n"}}`), metav1.PatchOptions{}, "status"))(`nominatedNodeName "n"`)
		By("a class of pods")
		_, err = a.NodeV1().RuntimeClasses().Create(ctx, &nodev1.RuntimeClass{
			ObjectMeta: metav1.ObjectMeta{Name: "led"}, Handler: "h", Scheduling: &nodev1.Scheduling{NodeSelector: map[string]string{"disk": "x"}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() error {
			_, err := newPod(ctx, a, "default", func(pod *corev1.Pod) { pod.Spec.RuntimeClassName = new("led") })
			return err
		}).Should(MatchError(ContainSubstring(`spec.nodeSelector "disk"`)))
		By("volumes")
		affinity := &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"n"}}}},
		}}}
		refused(a.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "v"},
			Spec: corev1.PersistentVolumeSpec{
				Capacity: corev1.ResourceList{"storage": resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/"}}, NodeAffinity: affinity,
			},
		}, metav1.CreateOptions{}))(`spec.nodeAffinity "kubernetes.io/hostname"`)
		refused(a.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: "led"}, Provisioner: "example.com/none",
			AllowedTopologies: []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{
				{Key: corev1.LabelTopologyZone, Values: []string{"z"}},
			}}},
		}, metav1.CreateOptions{}))(`allowedTopologies "topology.kubernetes.io/zone"`)
	})
})
