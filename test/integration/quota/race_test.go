package quota

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const creators = 50

// rounds is how often creators race; the variable QUOTA_ROUNDS sets it.
func rounds() int {
	GinkgoHelper()
	value, ok := os.LookupEnv("QUOTA_ROUNDS")
	if !ok {
		return 20
	}
	n, err := strconv.Atoi(value)
	Expect(err).NotTo(HaveOccurred())
	return n
}

// race lets many create at once and returns how many were admitted. All others
// must have been refused by the tenant's quota.
func race(ctx context.Context, create func(ctx context.Context, i int) error) int {
	GinkgoHelper()
	var admitted atomic.Int32
	var group sync.WaitGroup
	refusals := make([]error, creators)
	for i := range creators {
		group.Go(func() {
			if err := create(ctx, i); err != nil {
				refusals[i] = err
			} else {
				admitted.Add(1)
			}
		})
	}
	group.Wait()
	for _, err := range refusals {
		if err != nil {
			Expect(err).To(beForbidden())
			Expect(err.Error()).To(ContainSubstring("exceeded quota: "))
		}
	}
	return int(admitted.Load())
}

// raceForPods lets many race for ten pods, deletes them, and does it again.
func (s *space) raceForPods(ctx context.Context, namespaces []string, used func() int64) {
	GinkgoHelper()
	for round := range rounds() {
		admitted := race(ctx, func(ctx context.Context, i int) error {
			return s.createPod(ctx, namespaces[i%len(namespaces)], fmt.Sprintf("p-%d", i))
		})
		Expect(admitted).To(Equal(10), "round %d", round)
		Expect(used()).To(BeEquivalentTo(10), "round %d", round)
		var group sync.WaitGroup
		for _, namespace := range namespaces {
			pods, err := s.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
			Expect(err).NotTo(HaveOccurred())
			for _, pod := range pods.Items {
				group.Go(func() {
					defer GinkgoRecover()
					Expect(s.CoreV1().Pods(namespace).Delete(ctx, pod.Name, now)).To(Succeed())
				})
			}
		}
		group.Wait()
		Expect(used()).To(BeZero(), "after round %d", round)
	}
}

// limitNamespace gives a namespace a quota of one resource and waits until admission knows of it: as upstream's, it
// knows those that its informer has. dry creates one more object without storing it.
func (s *space) limitNamespace(ctx context.Context, namespace, name, resource, limit string, dry func() error) {
	GinkgoHelper()
	hard := limits{corev1.ResourceName(resource): "0"}
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ResourceQuotaSpec{Hard: hard.list()}}
	_, err := s.CoreV1().ResourceQuotas(namespace).Create(ctx, q, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	Eventually(dry).Should(beForbidden())
	hard[corev1.ResourceName(resource)] = limit
	_, err = s.CoreV1().ResourceQuotas(namespace).Patch(ctx, name, types.MergePatchType, []byte(`{"spec": {"hard": `+jsonOf(hard)+`}}`), metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
	Eventually(dry).Should(Succeed())
}

// limitPods is limitNamespace for pods.
func (s *space) limitPods(ctx context.Context, namespace, name, pods string) {
	GinkgoHelper()
	s.limitNamespace(ctx, namespace, name, "pods", pods, func() error {
		_, err := s.CoreV1().Pods(namespace).Create(ctx, newPod("dry"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
}

var _ = Describe("Races", func() {
	It("admit exactly the limit, round after round", func(ctx SpecContext) {
		s := newSpace(ctx, limits{"pods": "10"})
		s.newNamespace(ctx, "other")
		s.raceForPods(ctx, []string{"default", "other"}, func() int64 { return s.used(ctx, "pods") })
	}, SpecTimeout(30*time.Minute))

	It("admit exactly the limit of a namespace, round after round", func(ctx SpecContext) {
		s := newSpace(ctx, limits{"pods": "100"})
		s.limitPods(ctx, "default", "ten", "10")
		s.raceForPods(ctx, []string{"default"}, func() int64 {
			q, err := s.CoreV1().ResourceQuotas("default").Get(ctx, "ten", metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			return q.Status.Used.Pods().Value()
		})
		Expect(s.used(ctx, "pods")).To(BeZero())
	}, SpecTimeout(30*time.Minute))

	It("admit what both the tenant's and the namespaces' quotas allow", func(ctx SpecContext) {
		s := newSpace(ctx, limits{"pods": "10"})
		namespaces := []string{"a", "b"}
		for _, namespace := range namespaces {
			s.newNamespace(ctx, namespace)
			s.limitPods(ctx, namespace, "eight", "8")
		}
		By("racing in one namespace")
		Expect(race(ctx, func(ctx context.Context, i int) error { return s.createPod(ctx, "a", fmt.Sprintf("p-%d", i)) })).To(Equal(8))
		Expect(s.used(ctx, "pods")).To(BeEquivalentTo(8), "what a namespace refuses is given back")
		By("racing in the other")
		Expect(race(ctx, func(ctx context.Context, i int) error { return s.createPod(ctx, "b", fmt.Sprintf("p-%d", i)) })).To(Equal(2))
		b, err := s.CoreV1().ResourceQuotas("b").Get(ctx, "eight", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(b.Status.Used.Pods().Value()).To(BeEquivalentTo(2), "what the tenant's quota refuses is not charged")
	}, SpecTimeout(3*time.Minute))

	It("charge nothing for what is not written", func(ctx SpecContext) {
		s := newSpace(ctx, limits{"pods": "10"})
		Expect(s.createPod(ctx, "default", "same")).To(Succeed())
		for range 20 {
			Expect(s.createPod(ctx, "default", "same")).To(Satisfy(apierrors.IsAlreadyExists))
		}
		_, err := s.CoreV1().Pods("default").Create(ctx, newPod("dry"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		Expect(err).NotTo(HaveOccurred())
		Expect(s.used(ctx, "pods")).To(BeEquivalentTo(1))
	}, SpecTimeout(time.Minute))
})
