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
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
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

var _ = Describe("Administrative access to devices", func() {
	labelled := map[string]string{resourcev1.DRAAdminNamespaceLabelKey: "true"}
	yes := true
	spec := resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
		Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "c", AdminAccess: &yes},
	}}}}
	plain := resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
		Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "c"},
	}}}}
	meta := metav1.ObjectMeta{Name: "claim"}
	const reason = `forbidden: SpacePolicy: devices belong to the platform, and a space has no administrative access to them; remove adminAccess`

	namespace := func(ctx context.Context, client kubernetes.Interface, name string, labels map[string]string) {
		GinkgoHelper()
		_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		// Other specs compare what is in etcd before and after them.
		DeferCleanup(func(ctx SpecContext) {
			Eventually(func() bool {
				return apierrors.IsNotFound(client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}))
			}).Should(BeTrue())
		})
	}
	newTenant := func(ctx context.Context) tenant.Name {
		GinkgoHelper()
		n := tenantry.NewTenant(ctx, "devices")
		DeferCleanup(func(ctx SpecContext) { tenantry.DeleteTenant(ctx, n) })
		return n
	}

	It("is refused in a space, whatever its namespaces and the system's are labelled", func(ctx SpecContext) {
		n := newTenant(ctx)
		system := tenantry.Client(tenant.System)
		namespace(ctx, system, "both-labelled", labelled)
		namespace(ctx, system, "theirs-labelled", labelled)
		namespace(ctx, system, "own-labelled", nil)
		own := tenantry.Client(n)
		for _, name := range []string{"both-labelled", "own-labelled", "own-alone"} {
			namespace(ctx, own, name, labelled)
		}
		namespace(ctx, own, "theirs-labelled", nil)
		for _, client := range []kubernetes.Interface{own, suite.Client(tenantry.In(n, tenantry.Config(tenant.System)))} {
			for _, name := range []string{"both-labelled", "own-labelled", "own-alone", "theirs-labelled", "default"} {
				_, err := client.ResourceV1().ResourceClaims(name).Create(ctx, &resourcev1.ResourceClaim{ObjectMeta: meta, Spec: spec}, metav1.CreateOptions{})
				Expect(err).To(MatchError(`resourceclaims.resource.k8s.io "claim" is `+reason), name)
				_, err = client.ResourceV1().ResourceClaimTemplates(name).Create(ctx,
					&resourcev1.ResourceClaimTemplate{ObjectMeta: meta, Spec: resourcev1.ResourceClaimTemplateSpec{Spec: spec}}, metav1.CreateOptions{})
				Expect(err).To(MatchError(`resourceclaimtemplates.resource.k8s.io "claim" is `+reason), name)
			}
		}
	}, NodeTimeout(time.Minute))

	It("is refused in the status of a claim in a space", func(ctx SpecContext) {
		n := newTenant(ctx)
		claims := tenantry.Client(n).ResourceV1().ResourceClaims("default")
		_, err := claims.Create(ctx, &resourcev1.ResourceClaim{ObjectMeta: meta, Spec: plain}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = claims.Patch(ctx, "claim", types.MergePatchType, []byte(
			`{"status":{"allocation":{"devices":{"results":[{"request":"r","driver":"d.example.com","pool":"p","device":"d","adminAccess":true}]}}}}`,
		), metav1.PatchOptions{}, "status")
		Expect(err).To(MatchError(`resourceclaims.resource.k8s.io "claim" is ` + reason))
	}, NodeTimeout(time.Minute))

	It("goes by the labels of namespaces in the system space", func(ctx SpecContext) {
		system := tenantry.Client(tenant.System)
		namespace(ctx, system, "devices", labelled)
		_, err := system.ResourceV1().ResourceClaims("devices").Create(ctx, &resourcev1.ResourceClaim{ObjectMeta: meta, Spec: spec}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = system.ResourceV1().ResourceClaims("default").Create(ctx, &resourcev1.ResourceClaim{ObjectMeta: meta, Spec: spec}, metav1.CreateOptions{})
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
	}, NodeTimeout(time.Minute))
})
