package attack

import (
	"fmt"
	"math"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/tenantry/tenantry/test/env/suite"
)

// Controllers serve all spaces, and make gigabytes or minutes of work of these objects.
var _ = Describe("Objects that controllers multiply", func() {
	refused := func(err error, message string) {
		GinkgoHelper()
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring(message)))
	}
	labels := map[string]string{"app": "factors"}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	newSet := func(name string, replicas int32) *appsv1.StatefulSet {
		return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To(replicas), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template,
		}}
	}

	It("are refused: replicas of StatefulSets", func(ctx SpecContext) {
		const message = "replicas, and a StatefulSet in a space at most 10000"
		sets := suite.Client(tenantry.Config("a")).AppsV1().StatefulSets("default")
		_, err := sets.Create(ctx, newSet("endless", math.MaxInt32), metav1.CreateOptions{})
		refused(err, message)
		set, err := sets.Create(ctx, newSet("scaled", 0), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		set.Spec.Replicas = ptr.To[int32](math.MaxInt32)
		_, err = sets.Update(ctx, set, metav1.UpdateOptions{})
		refused(err, message)

		By("scaling")
		scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "scaled", Namespace: "default"}, Spec: autoscalingv1.ScaleSpec{Replicas: math.MaxInt32}}
		_, err = sets.UpdateScale(ctx, "scaled", scale, metav1.UpdateOptions{})
		refused(err, message)
		for _, kind := range []types.PatchType{types.MergePatchType, types.StrategicMergePatchType} {
			_, err = sets.Patch(ctx, "scaled", kind, []byte(`{"spec":{"replicas":2147483647}}`), metav1.PatchOptions{}, "scale")
			refused(err, message)
		}
	})

	It("are refused: addresses of Endpoints, times their ports", func(ctx SpecContext) {
		endpoints := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "factors"}, Subsets: []corev1.EndpointSubset{{}}}
		for i := range 1_001 {
			endpoints.Subsets[0].Addresses = append(endpoints.Subsets[0].Addresses, corev1.EndpointAddress{IP: fmt.Sprintf("10.0.%d.%d", i/250, i%250+1)})
		}
		for i := range 100 {
			endpoints.Subsets[0].Ports = append(endpoints.Subsets[0].Ports, corev1.EndpointPort{Name: fmt.Sprintf("p%d", i), Port: int32(i + 1)})
		}
		_, err := suite.Client(tenantry.Config("a")).CoreV1().Endpoints("default").Create(ctx, endpoints, metav1.CreateOptions{})
		refused(err, "100100 endpoints, which are addresses times ports")
	})

	It("are refused: values of selectors", func(ctx SpecContext) {
		const message = "101 values, and one in a space at most 100"
		selector := &metav1.LabelSelector{MatchLabels: labels, MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "k", Operator: metav1.LabelSelectorOpNotIn, Values: slices.Repeat([]string{"v"}, 101)},
		}}
		apps := suite.Client(tenantry.Config("a")).AppsV1()
		_, err := apps.ReplicaSets("default").Create(ctx, &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Name: "factors"}, Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: template},
		}, metav1.CreateOptions{})
		refused(err, message)
		_, err = suite.Client(tenantry.Config("a")).AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "factors"}, Webhooks: []admissionregistrationv1.ValidatingWebhook{{
				Name: "factors.example.com", NamespaceSelector: selector, SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
				ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1")},
				AdmissionReviewVersions: []string{"v1"},
			}},
		}, metav1.CreateOptions{})
		refused(err, message)
	})

	It("are refused: ControllerRevisions, which are applied without validation", func(ctx SpecContext) {
		revisions := suite.Client(tenantry.Config("a")).AppsV1().ControllerRevisions("default")
		_, err := revisions.Create(ctx, &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{Name: "factors"}, Revision: 1,
			Data: runtime.RawExtension{Raw: []byte(`{"spec":{"selector":null,"template":{"$patch":"replace"}}}`)},
		}, metav1.CreateOptions{})
		refused(err, "ControllerRevisions are made by the controllers")

		By("those of the controller, which can be deleted and are made again")
		_, err = suite.Client(tenantry.Config("a")).AppsV1().StatefulSets("default").Create(ctx, newSet("revised", 0), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		made := func(g Gomega, other types.UID) (made *appsv1.ControllerRevision) {
			list, err := revisions.List(ctx, metav1.ListOptions{LabelSelector: "app=factors"})
			g.Expect(err).NotTo(HaveOccurred())
			for i, r := range list.Items {
				if len(r.OwnerReferences) > 0 && r.OwnerReferences[0].Name == "revised" && r.UID != other {
					made = &list.Items[i]
				}
			}
			g.Expect(made).NotTo(BeNil())
			return made
		}
		var revision *appsv1.ControllerRevision
		Eventually(func(g Gomega) { revision = made(g, "") }, "30s").Should(Succeed())
		revision.Labels["own"] = "label"
		_, err = revisions.Update(ctx, revision, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(revisions.Delete(ctx, revision.Name, metav1.DeleteOptions{})).To(Succeed())

		// A deleted revision wakes nobody: the controller looks when the set
		// changes, and may look before its cache has seen the deletion.
		changes := 0
		Eventually(func(g Gomega) {
			changes++
			_, err = suite.Client(tenantry.Config("a")).AppsV1().StatefulSets("default").Patch(ctx, "revised", types.MergePatchType,
				fmt.Appendf(nil, `{"metadata":{"annotations":{"again":"%d"}}}`, changes), metav1.PatchOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			made(g, revision.UID)
		}, "30s").Should(Succeed())
	})

	It("are refused: ports of Services", func(ctx SpecContext) {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "factors"}, Spec: corev1.ServiceSpec{Selector: labels}}
		for i := range 101 {
			service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: fmt.Sprintf("p%d", i), Port: int32(i + 1)})
		}
		_, err := suite.Client(tenantry.Config("a")).CoreV1().Services("default").Create(ctx, service, metav1.CreateOptions{})
		refused(err, "101 ports, and a Service in a space at most 100")
	})
})
