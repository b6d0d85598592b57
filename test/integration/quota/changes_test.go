package quota

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const strategic = types.StrategicMergePatchType

var _ = Describe("An object that changes", func() {
	It("is charged for what it grows by: a pod that is resized", func(ctx SpecContext) {
		s := newSpace(ctx, limits{"requests.cpu": "1"})
		pod := newPod("p")
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("400m")}
		_, err := s.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		resize := func(cpu string) error {
			patch := fmt.Sprintf(`{"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": %q}}}]}}`, cpu)
			_, err := s.CoreV1().Pods("default").Patch(ctx, "p", strategic, []byte(patch), metav1.PatchOptions{}, "resize")
			return err
		}
		Expect(resize("1100m")).To(beRefused())
		Expect(resize("1")).To(Succeed())
		Expect(s.quota(ctx).Status.Used).To(equalAmounts(limits{"requests.cpu": "1"}))
		Expect(resize("300m")).To(Succeed())
		Expect(s.quota(ctx).Status.Used).To(equalAmounts(limits{"requests.cpu": "300m"}))
		By("an ephemeral container, which takes nothing")
		_, err = s.CoreV1().Pods("default").Patch(ctx, "p", strategic,
			[]byte(`{"spec": {"ephemeralContainers": [{"name": "debug", "image": "i"}]}}`), metav1.PatchOptions{}, "ephemeralcontainers")
		Expect(err).NotTo(HaveOccurred())
		Expect(s.quota(ctx).Status.Used).To(equalAmounts(limits{"requests.cpu": "300m"}))
	}, SpecTimeout(time.Minute))

	It("is charged for what it grows by: a volume claim", func(ctx SpecContext) {
		s := newSpace(ctx, limits{"requests.storage": "10Gi"})
		_, err := s.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: "growing"}, Provisioner: "example.com/none", AllowVolumeExpansion: new(true),
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		claims := s.CoreV1().PersistentVolumeClaims("default")
		claim, err := claims.Create(ctx, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: "c"},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: new("growing"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeName: "v",
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("6Gi")}},
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		claim.Status.Phase = corev1.ClaimBound
		_, err = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		grow := func(size string) func() error {
			return func() error {
				patch := fmt.Sprintf(`{"spec": {"resources": {"requests": {"storage": %q}}}}`, size)
				_, err := claims.Patch(ctx, "c", strategic, []byte(patch), metav1.PatchOptions{})
				return err
			}
		}
		Eventually(grow("9Gi")).Should(Succeed()) // once the class is known
		Expect(grow("11Gi")()).To(beRefused())
		Expect(s.quota(ctx).Status.Used).To(equalAmounts(limits{"requests.storage": "9Gi"}))
	}, SpecTimeout(time.Minute))

	It("is charged for what it becomes: a Service", func(ctx SpecContext) {
		s := newSpace(ctx, limits{"services.nodeports": "1", "services.loadbalancers": "0"})
		services := s.CoreV1().Services("default")
		for _, name := range []string{"a", "b"} {
			_, err := services.Create(ctx, &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(80)}}},
			}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		become := func(name string, kind corev1.ServiceType) error {
			_, err := services.Patch(ctx, name, strategic, fmt.Appendf(nil, `{"spec": {"type": %q}}`, kind), metav1.PatchOptions{})
			return err
		}
		Expect(become("a", corev1.ServiceTypeLoadBalancer)).To(beRefused())
		Expect(become("a", corev1.ServiceTypeNodePort)).To(Succeed())
		Expect(become("b", corev1.ServiceTypeNodePort)).To(beRefused())
		Expect(become("a", corev1.ServiceTypeClusterIP)).To(Succeed())
		Expect(become("b", corev1.ServiceTypeNodePort)).To(Succeed())
	}, SpecTimeout(time.Minute))
})

var _ = Describe("Pods", func() {
	It("are charged whoever creates them, and by whatever verb", func(ctx SpecContext) {
		s := newSpace(ctx, limits{"pods": "5"})
		pods := s.CoreV1().Pods("default")
		creations := map[string]func() error{
			"a generated name": func() error {
				pod := newPod("")
				pod.GenerateName = "generated-"
				_, err := pods.Create(ctx, pod, metav1.CreateOptions{})
				return err
			},
			"an apply": func() error { return s.applyPod(ctx, "applied") },
			"an administrator of the platform": func() error {
				_, err := s.admin().CoreV1().Pods("default").Create(ctx, newPod("by-the-platform"), metav1.CreateOptions{})
				return err
			},
		}
		for what, create := range creations {
			Expect(create()).To(Succeed(), what)
		}
		By("a controller, which creates as many as fit")
		labels := map[string]string{"a": "b"}
		_, err := s.AppsV1().ReplicaSets("default").Create(ctx, &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Name: "r"},
			Spec: appsv1.ReplicaSetSpec{
				Replicas: new(int32(10)), Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: newPod("").Spec},
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() int64 { return s.used(ctx, "pods") }).Should(BeEquivalentTo(5))
		Eventually(func(g Gomega) {
			set, err := s.AppsV1().ReplicaSets("default").Get(ctx, "r", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(set.Status.Conditions).To(ContainElement(HaveField("Message", ContainSubstring("exceeded quota: tenant-quota"))))
		}).Should(Succeed())
		list, err := pods.List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(list.Items).To(HaveLen(5))
		Expect(s.applyPod(ctx, "applied-again")).To(beRefused())

		By("a collection that is deleted")
		Expect(s.AppsV1().ReplicaSets("default").Delete(ctx, "r", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationOrphan)})).To(Succeed())
		Eventually(func() error {
			_, err := s.AppsV1().ReplicaSets("default").Get(ctx, "r", metav1.GetOptions{})
			return err
		}).Should(Satisfy(apierrors.IsNotFound))
		Expect(pods.DeleteCollection(ctx, now, metav1.ListOptions{})).To(Succeed())
		Expect(s.used(ctx, "pods")).To(BeZero())
	}, SpecTimeout(time.Minute))

	It("are given back with the namespace in which they are", func(ctx SpecContext) {
		s := newSpace(ctx, limits{"pods": "3", "count/configmaps": "20"})
		before := s.used(ctx, "count/configmaps")
		s.newNamespace(ctx, "team")
		for i := range 3 {
			pod := newPod(fmt.Sprintf("p-%d", i))
			pod.Spec.TerminationGracePeriodSeconds = new(int64)
			_, err := s.CoreV1().Pods("team").Create(ctx, pod, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(s.createPod(ctx, "default", "more")).To(beRefused())
		Expect(s.CoreV1().Namespaces().Delete(ctx, "team", metav1.DeleteOptions{})).To(Succeed())
		Eventually(func() error { return s.createPod(ctx, "default", "more") }).Should(Succeed())
		Eventually(func() (string, error) {
			_, err := s.CoreV1().Namespaces().Get(ctx, "team", metav1.GetOptions{})
			return fmt.Sprint(err), nil
		}).Should(ContainSubstring("not found"))
		Expect(s.used(ctx, "pods")).To(BeEquivalentTo(1))
		Expect(s.used(ctx, "count/configmaps")).To(Equal(before))
	}, SpecTimeout(time.Minute))
})

func (s *space) applyPod(ctx context.Context, name string) error {
	pod := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i"}}},
	}}
	pod.SetName(name)
	_, err := s.dynamic.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace("default").Apply(ctx, name, pod,
		metav1.ApplyOptions{FieldManager: "test", Force: true})
	return err
}
