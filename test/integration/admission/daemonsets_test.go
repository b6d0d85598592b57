package admission

import (
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// warnings are those that a client was sent.
type warnings struct {
	mu   sync.Mutex
	sent []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = append(w.sent, text)
}

// take returns what was sent since the last time.
func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	sent := w.sent
	w.sent = nil
	return sent
}

var _ = Describe("DaemonSets", func() {
	It("are refused or inert as their tenant says", func(ctx SpecContext) {
		n := tenantry.NewTenant(ctx, "sets")
		warned := &warnings{}
		config := tenantry.Config(n)
		config.WarningHandler = warned
		client, err := kubernetes.NewForConfig(config)
		Expect(err).NotTo(HaveOccurred())
		sets := client.AppsV1().DaemonSets("default")

		_, err = sets.Create(ctx, daemonSet(), metav1.CreateOptions{})
		Expect(err).To(beForbidden())
		Expect(err).To(MatchError(ContainSubstring("ask the platform's administrators for daemonSets: {mode: Inert}")))
		Expect(tenantry.SetSpec(ctx, n, "daemonSets", `{"mode":"Sometimes"}`)).To(MatchError(And(
			ContainSubstring("spec.daemonSets.mode"), ContainSubstring(`"Refused", "Inert"`))))

		Expect(tenantry.SetSpec(ctx, n, "daemonSets", `{"mode":"Inert"}`)).To(Succeed())
		var created *appsv1.DaemonSet
		Eventually(func() (err error) {
			set := daemonSet()
			// What a chart's DaemonSet has as a matter of course.
			set.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
			set.Spec.Template.Spec.HostNetwork = true
			created, err = sets.Create(ctx, set, metav1.CreateOptions{})
			return err
		}).Should(Succeed())
		Expect(warned.take()).To(ConsistOf(ContainSubstring("this DaemonSet is stored and has no pods")))
		expectInert(created, 1)

		changed, err := sets.Patch(ctx, "d", types.MergePatchType, []byte(`{"spec":{"minReadySeconds":5}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		expectInert(changed, 2)
		Expect(warned.take()).To(HaveLen(1))

		changed, err = sets.Patch(ctx, "d", types.MergePatchType, []byte(`{"status":{"desiredNumberScheduled":3}}`), metav1.PatchOptions{}, "status")
		Expect(err).NotTo(HaveOccurred())
		expectInert(changed, 2)
		Expect(warned.take()).To(BeEmpty())

		// Whoever may have no more keeps those it has, and can change and delete them.
		Expect(tenantry.SetSpec(ctx, n, "daemonSets", `{"mode":"Refused"}`)).To(Succeed())
		another := daemonSet()
		another.Name = "another"
		Eventually(func() error {
			_, err := sets.Create(ctx, another, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}).Should(beForbidden())
		changed, err = sets.Patch(ctx, "d", types.MergePatchType, []byte(`{"spec":{"minReadySeconds":6}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		expectInert(changed, 3)
		Expect(sets.Delete(ctx, "d", metav1.DeleteOptions{})).To(Succeed())
	})
})

// expectInert checks that a DaemonSet of a generation is what those who wait for its
// rollout wait for.
func expectInert(set *appsv1.DaemonSet, generation int64) {
	GinkgoHelper()
	Expect(set.Generation).To(Equal(generation))
	Expect(set.Status.ObservedGeneration).To(Equal(generation))
	Expect(set.Status.DesiredNumberScheduled).To(BeZero())
	Expect(set.Status.Conditions).To(HaveLen(1))
	condition := set.Status.Conditions[0]
	Expect(condition.Type).To(BeEquivalentTo("Inert"))
	Expect(condition.Status).To(Equal(corev1.ConditionTrue))
	Expect(condition.Reason).To(Equal("NoNodes"))
	Expect(condition.LastTransitionTime).To(Equal(set.CreationTimestamp))
}
