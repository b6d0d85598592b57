package discovery

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tenantry/tenantry/internal/tenant"
)

const kubernetesService = "kubernetes"

var _ = Describe("The Service kubernetes", func() {
	It("is that of the system space, and found by every read that should find it", func(ctx SpecContext) {
		own, err := tenantry.Client(tenant.System).CoreV1().Services(metav1.NamespaceDefault).Get(ctx, kubernetesService, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		uids := map[types.UID]bool{own.UID: true}
		for _, t := range []tenant.Name{"a", "b"} {
			services := tenantry.Client(t).CoreV1().Services(metav1.NamespaceDefault)
			service, err := services.Get(ctx, kubernetesService, metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(service.Spec).To(Equal(own.Spec))
			Expect(service.CreationTimestamp).To(Equal(own.CreationTimestamp))
			Expect(uids).NotTo(HaveKey(service.UID))
			uids[service.UID] = true

			for selector, want := range map[metav1.ListOptions]bool{
				{}:                                     true,
				{LabelSelector: "component=apiserver"}: true,
				{LabelSelector: "component=other"}:     false,
				{FieldSelector: "metadata.name=kubernetes"}: true,
				{FieldSelector: "metadata.name=other"}:      false,
				{FieldSelector: "spec.type=ClusterIP"}:      true,
			} {
				list, err := services.List(ctx, selector)
				Expect(err).NotTo(HaveOccurred())
				Expect(len(list.Items) == 1).To(Equal(want), "list by %v", selector)
				all, err := tenantry.Client(t).CoreV1().Services(metav1.NamespaceAll).List(ctx, selector)
				Expect(err).NotTo(HaveOccurred())
				Expect(all.Items).To(Equal(list.Items), "list of all namespaces by %v", selector)
				if want {
					Expect(firstEvent(ctx, func(o metav1.ListOptions) (watch.Interface, error) {
						return services.Watch(ctx, o)
					}, selector)).To(Equal(service), "watch by %v", selector)
				}
			}
			elsewhere, err := tenantry.Client(t).CoreV1().Services(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(elsewhere.Items).To(BeEmpty())
		}
	})

	It("has the addresses of the server", func(ctx SpecContext) {
		Eventually(ctx, func(g Gomega) { // the server notes them after it is ready
			own, err := tenantry.Client(tenant.System).DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Get(ctx, kubernetesService, metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			slices, err := tenantry.Client("a").DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).List(ctx,
				metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=" + kubernetesService})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(slices.Items).To(HaveLen(1))
			g.Expect(slices.Items[0].Endpoints).To(Equal(own.Endpoints))
			_, err = tenantry.Client("a").CoreV1().Endpoints(metav1.NamespaceDefault).Get(ctx, kubernetesService, metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
		}).Should(Succeed())
	})

	It("cannot be changed, and is not stored", func(ctx SpecContext) {
		services := tenantry.Client("a").CoreV1().Services(metav1.NamespaceDefault)
		service, err := services.Get(ctx, kubernetesService, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		service.Labels["mine"] = "yes"
		_, err = services.Update(ctx, service, metav1.UpdateOptions{})
		Expect(err).To(MatchError(ContainSubstring(`services "kubernetes" is forbidden: it is part of every space`)))
		_, err = services.Patch(ctx, kubernetesService, types.MergePatchType, []byte(`{"metadata":{"labels":{"mine":"yes"}}}`), metav1.PatchOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		_, err = services.Patch(ctx, kubernetesService, types.ApplyPatchType,
			[]byte(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"kubernetes","labels":{"mine":"yes"}}}`), metav1.PatchOptions{FieldManager: "test"})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		Expect(apierrors.IsForbidden(services.Delete(ctx, kubernetesService, metav1.DeleteOptions{}))).To(BeTrue())
		_, err = services.Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: kubernetesService}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}}},
		}, metav1.CreateOptions{})
		Expect(apierrors.IsAlreadyExists(err)).To(BeTrue(), "%v", err)

		By("deleting all there is")
		Expect(tenantry.Client("a").CoreV1().RESTClient().Delete().Namespace(metav1.NamespaceDefault).Resource("endpoints").Do(ctx).Error()).To(Succeed())
		_, err = services.Get(ctx, kubernetesService, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		stored, err := tenantry.Etcd().Get(ctx, "/registry/services/specs/a/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		Expect(err).NotTo(HaveOccurred())
		Expect(stored.Count).To(BeZero())
	})
})

// firstEvent returns the object of the first event of a watch.
func firstEvent(ctx context.Context, start func(metav1.ListOptions) (watch.Interface, error), options metav1.ListOptions) any {
	GinkgoHelper()
	w, err := start(options)
	Expect(err).NotTo(HaveOccurred())
	defer w.Stop()
	var event watch.Event
	Eventually(ctx, w.ResultChan()).Should(Receive(&event))
	Expect(event.Type).To(Equal(watch.Added))
	return event.Object
}

var _ = Describe("Default ClusterRoles", func() {
	It("have an age and a UID of their own in every space", func(ctx SpecContext) {
		own, err := tenantry.Client(tenant.System).RbacV1().ClusterRoles().Get(ctx, "view", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		a, err := tenantry.Client("a").RbacV1().ClusterRoles().Get(ctx, "view", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		b, err := tenantry.Client("b").RbacV1().ClusterRoles().Get(ctx, "view", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(a.CreationTimestamp).To(Equal(own.CreationTimestamp))
		Expect(a.CreationTimestamp.IsZero()).To(BeFalse())
		Expect([]types.UID{"", own.UID, b.UID}).NotTo(ContainElement(a.UID))
		again, err := tenantry.Client("a").RbacV1().ClusterRoles().Get(ctx, "view", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(again).To(Equal(a))
	})

	It("can be edited, which stores a copy, and are back when it is deleted", func(ctx SpecContext) {
		roles := tenantry.Client("a").RbacV1().ClusterRoles()
		selector := metav1.ListOptions{FieldSelector: "metadata.name=edit"}
		w, err := roles.Watch(ctx, selector)
		Expect(err).NotTo(HaveOccurred())
		defer w.Stop()
		next := func() (watch.EventType, *rbacv1.ClusterRole) {
			GinkgoHelper()
			var event watch.Event
			Eventually(ctx, w.ResultChan()).Should(Receive(&event))
			return event.Type, event.Object.(*rbacv1.ClusterRole)
		}
		_, unstored := next()

		edited := unstored.DeepCopy()
		edited.Labels["mine"] = "yes"
		edited, err = roles.Update(ctx, edited, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(edited.UID).To(Equal(unstored.UID))
		_, seen := next()
		Expect(seen).To(Equal(edited))
		_, err = roles.Update(ctx, unstored, metav1.UpdateOptions{})
		Expect(apierrors.IsConflict(err)).To(BeTrue(), "%v", err)
		other, err := tenantry.Client("b").RbacV1().ClusterRoles().Get(ctx, "edit", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(other.Labels).NotTo(HaveKey("mine"))

		Expect(roles.Delete(ctx, "edit", metav1.DeleteOptions{})).To(Succeed())
		kind, _ := next()
		Expect(kind).To(Equal(watch.Deleted))
		kind, back := next()
		Expect(kind).To(Equal(watch.Added))
		Expect(back).To(Equal(unstored))
		Expect(apierrors.IsForbidden(roles.Delete(ctx, "edit", metav1.DeleteOptions{}))).To(BeTrue())
	})
})

var _ = Describe("TokenReviews", func() {
	It("know the tokens of their own space only", func(ctx SpecContext) {
		tokens := map[tenant.Name]string{}
		spaces := []tenant.Name{"a", "b", tenant.System}
		for _, t := range spaces {
			Eventually(ctx, func() error {
				request, err := tenantry.Client(t).CoreV1().ServiceAccounts(metav1.NamespaceDefault).CreateToken(ctx, "default",
					&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
				tokens[t] = request.Status.Token
				return err
			}).Should(Succeed())
		}
		for _, asked := range spaces {
			for _, owner := range spaces {
				review, err := tenantry.Client(asked).AuthenticationV1().TokenReviews().Create(ctx,
					&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: tokens[owner]}}, metav1.CreateOptions{})
				Expect(err).NotTo(HaveOccurred())
				Expect(review.Status.Authenticated).To(Equal(asked == owner), "token of %s in %s: %s", owner, asked, review.Status.Error)
				if asked != owner {
					Expect(review.Status.User).To(BeZero())
				}
			}
		}
	})
})
