package attack

import (
	"context"
	"fmt"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/tenantry/tenantry/internal/tenant"
)

// What upstream's storage asks the server itself for, it asks in the space of the
// request that it serves.

var _ = Describe("An eviction", func() {
	labels := map[string]string{"evicted": "maybe"}

	// running makes a pod that runs and is ready, for as long as the spec.
	running := func(ctx context.Context, client kubernetes.Interface, pod string) {
		GinkgoHelper()
		pods := client.CoreV1().Pods("default")
		created, err := pods.Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: pod, Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			now := int64(0)
			if err := pods.Delete(ctx, pod, metav1.DeleteOptions{GracePeriodSeconds: &now}); !apierrors.IsNotFound(err) {
				Expect(err).NotTo(HaveOccurred())
			}
		})
		created.Status.Phase = corev1.PodRunning
		created.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		_, err = pods.UpdateStatus(ctx, created, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
	// budget makes a budget for the pods that run, which allows so many evictions.
	budget := func(ctx context.Context, client kubernetes.Interface, budget string, minAvailable, allowed int32) {
		GinkgoHelper()
		budgets := client.PolicyV1().PodDisruptionBudgets("default")
		least := intstr.FromInt32(minAvailable)
		_, err := budgets.Create(ctx, &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: budget},
			Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &least, Selector: &metav1.LabelSelector{MatchLabels: labels}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) { Expect(budgets.Delete(ctx, budget, metav1.DeleteOptions{})).To(Succeed()) })
		Eventually(func(g Gomega) {
			b, err := budgets.Get(ctx, budget, metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(b.Status.ObservedGeneration).To(Equal(b.Generation))
			g.Expect(b.Status.ExpectedPods).To(BeNumerically(">", 0))
			g.Expect(b.Status.DisruptionsAllowed).To(Equal(allowed))
		}).Should(Succeed())
	}
	evict := func(ctx context.Context, pod string) answer {
		GinkgoHelper()
		return newWire(tenantry.Config("a")).send(ctx, call{
			method: http.MethodPost, path: "/api/v1/namespaces/default/pods/" + pod + "/eviction",
			body: fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":%q}}`, pod),
		}, nil)
	}
	// stored returns the version of the system's budget in etcd.
	stored := func(ctx context.Context) int64 {
		GinkgoHelper()
		response, err := tenantry.Etcd().Get(ctx, "/registry/poddisruptionbudgets/default/"+canary, clientv3.WithKeysOnly())
		Expect(err).NotTo(HaveOccurred())
		Expect(response.Kvs).To(HaveLen(1))
		return response.Kvs[0].ModRevision
	}

	It("counts on the budget of its space, and leaves the system's alone", func(ctx SpecContext) {
		own, system := tenantry.Client("a"), tenantry.Client(tenant.System)
		running(ctx, system, canary)
		budget(ctx, system, canary, 1, 0) // used up
		running(ctx, own, "evicted")
		budget(ctx, own, "own", 0, 1)
		before := stored(ctx)
		changes, err := own.PolicyV1().PodDisruptionBudgets("default").Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=own"})
		Expect(err).NotTo(HaveOccurred())
		defer changes.Stop()

		got := evict(ctx, "evicted")
		Expect(got.status).To(Equal(http.StatusCreated), got.body)
		Expect(got.body).NotTo(ContainSubstring(canary))
		for counted := false; !counted; {
			event, open := <-changes.ResultChan()
			Expect(open).To(BeTrue(), "the watch ended before the own budget had counted the pod")
			b, ok := event.Object.(*policyv1.PodDisruptionBudget)
			Expect(ok).To(BeTrue(), "%v", event)
			_, counted = b.Status.DisruptedPods["evicted"]
		}
		Expect(stored(ctx)).To(Equal(before), "the system's budget has been written")
	}, NodeTimeout(time.Minute))

	It("is refused by the budget of its space, whatever the system's allows", func(ctx SpecContext) {
		own, system := tenantry.Client("a"), tenantry.Client(tenant.System)
		running(ctx, system, canary)
		budget(ctx, system, canary, 0, 1)
		running(ctx, own, "kept")
		budget(ctx, own, "own", 1, 0)
		before := stored(ctx)

		got := evict(ctx, "kept")
		Expect(got.status).To(Equal(http.StatusTooManyRequests), got.body)
		Expect(got.body).To(ContainSubstring("The disruption budget own needs 1 healthy pods and has 1 currently"))
		Expect(got.body).NotTo(ContainSubstring(canary))
		Expect(stored(ctx)).To(Equal(before), "the system's budget has been written")
	}, NodeTimeout(time.Minute))

	It("needs no budget, although the system has one for such pods", func(ctx SpecContext) {
		own, system := tenantry.Client("a"), tenantry.Client(tenant.System)
		running(ctx, system, canary)
		budget(ctx, system, canary, 1, 0)
		running(ctx, own, "free")
		got := evict(ctx, "free")
		Expect(got.status).To(Equal(http.StatusCreated), got.body)
	}, NodeTimeout(time.Minute))

	It("in the system space counts on the system's budget", func(ctx SpecContext) {
		system := tenantry.Client(tenant.System)
		running(ctx, system, canary)
		budget(ctx, system, canary, 1, 0)
		err := system.CoreV1().Pods("default").EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: canary}})
		Expect(apierrors.IsTooManyRequests(err)).To(BeTrue(), "%v", err)
	}, NodeTimeout(time.Minute))
})
