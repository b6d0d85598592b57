package replicas

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

// shareQuota lets users of several servers race for the pods of a tenant.
func shareQuota(ctx context.Context, n tenant.Name, servers ...*server) {
	const (
		limit    = 10
		creators = 50
		rounds   = 20
	)
	GinkgoHelper()
	clients := make([]*kubernetes.Clientset, len(servers))
	for i, s := range servers {
		clients[i] = s.client(n)
	}
	used := func(g Gomega) {
		q, err := clients[0].CoreV1().ResourceQuotas(metav1.NamespaceDefault).Get(ctx, v1alpha1.TenantQuota, metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(q.Status.Hard.Pods().Value()).To(BeEquivalentTo(limit))
		g.Expect(q.Status.Used.Pods().Value()).To(BeZero())
	}
	_, err := servers[0].dynamic(tenant.System).Resource(v1alpha1.GroupVersion.WithResource("tenants")).Patch(ctx, n.String(),
		types.MergePatchType, fmt.Appendf(nil, `{"spec":{"quota":{"pods":"%d"}}}`, limit), metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
	Eventually(used).WithContext(ctx).WithTimeout(startTimeout).Should(Succeed())
	for round := range rounds {
		var admitted atomic.Int32
		var group sync.WaitGroup
		for i := range creators {
			group.Go(func() {
				defer GinkgoRecover()
				pod := &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p-%d", i)},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
				}
				_, err := clients[i%len(clients)].CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, pod, metav1.CreateOptions{})
				if err == nil {
					admitted.Add(1)
				} else {
					Expect(err).To(And(Satisfy(apierrors.IsForbidden), MatchError(ContainSubstring("exceeded quota"))))
				}
			})
		}
		group.Wait()
		Expect(admitted.Load()).To(BeEquivalentTo(limit), "round %d", round)
		pods, err := clients[0].CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(pods.Items).To(HaveLen(limit))
		for i, pod := range pods.Items {
			group.Go(func() {
				defer GinkgoRecover()
				Expect(clients[i%len(clients)].CoreV1().Pods(metav1.NamespaceDefault).Delete(ctx, pod.Name,
					metav1.DeleteOptions{GracePeriodSeconds: new(int64)})).To(Succeed())
			})
		}
		group.Wait()
		used(NewWithT(GinkgoTB()))
	}
}
