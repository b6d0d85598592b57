package workloads

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

var _ = Describe("Pods for which the host has no node", func() {
	It("stay in their space, few of them on the host, and say what the scheduler says", func(ctx SpecContext) {
		const some, stay = 23, 20
		n := tenantry.NewTenant(ctx, "waits")
		pods := tenantry.Client(n).CoreV1().Pods("default")
		for i := range some {
			_, err := pods.Create(ctx, plainPod(fmt.Sprint("stuck-", i)), metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		hostOf := func(g Gomega) []corev1.Pod {
			list, err := host.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: names.InstallationLabel})
			g.Expect(err).NotTo(HaveOccurred())
			var of []corev1.Pod
			for _, pod := range list.Items {
				if pod.Annotations[names.TenantAnnotation] == n.String() {
					of = append(of, pod)
				}
			}
			return of
		}
		seen := map[string]bool{}
		Eventually(func(g Gomega) { // as a scheduler does that finds none
			for _, pod := range hostOf(g) {
				seen[pod.Name] = true
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/3 nodes are available: 3 Insufficient cpu."}}
				if _, err := host.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, &pod, metav1.UpdateOptions{}); !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
					g.Expect(err).NotTo(HaveOccurred())
				}
			}
			g.Expect(seen).To(HaveLen(some))
			g.Expect(hostOf(g)).To(HaveLen(stay))
		}).WithTimeout(time.Minute).Should(Succeed())
		Consistently(func(g Gomega) {
			list, err := pods.List(ctx, metav1.ListOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(list.Items).To(HaveLen(some))
		}).WithTimeout(5 * time.Second).Should(Succeed())

		about := hostOf(NewWithT(GinkgoT()))[0]
		_, err := host.EventsV1().Events(about.Namespace).Create(ctx, &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: "none"}, EventTime: metav1.NowMicro(), Type: corev1.EventTypeWarning,
			ReportingController: corev1.DefaultSchedulerName, ReportingInstance: "scheduler-of-the-host", Action: "Scheduling", Reason: "FailedScheduling",
			Note:      "0/3 nodes are available: 2 node(s) had untolerated taint {tenant: globex}, 1 Insufficient cpu.",
			Regarding: corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: about.Namespace, Name: about.Name, UID: about.UID},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func(g Gomega) {
			list, err := tenantry.Client(n).CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "reason=FailedScheduling"})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(list.Items).To(ConsistOf(And(HaveField("InvolvedObject.Name", about.Name), HaveField("Source.Component", corev1.DefaultSchedulerName),
				HaveField("Message", "no node of the host cluster can run the pod now: Insufficient cpu"), HaveField("ReportingInstance", ""))))
		}).Should(Succeed())
	})
})
