package discovery

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"
	aggregatorinformers "k8s.io/kube-aggregator/pkg/client/informers/externalversions/apiregistration/v1"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

func apiServices(n tenant.Name) aggregator.APIServiceInterface {
	GinkgoHelper()
	client, err := aggregator.NewForConfig(tenantry.Config(n))
	Expect(err).NotTo(HaveOccurred())
	return client.APIServices()
}

// inGroup returns a definition in an API group.
func inGroup(group string) *apiextensionsv1.CustomResourceDefinition {
	return suite.NewDefinition(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "levers"}, "Lever", apiextensionsv1.NamespaceScoped)
}

func namesOf(ctx context.Context, g Gomega, services aggregator.APIServiceInterface, options metav1.ListOptions) (names []string) {
	list, err := services.List(ctx, options)
	g.Expect(err).NotTo(HaveOccurred())
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

var _ = Describe("APIServices", func() {
	It("are those of what the space serves", func(ctx SpecContext) {
		define(ctx, "a", inGroup("of-a.example.com"))
		define(ctx, "b", inGroup("of-b.example.com"))
		define(ctx, tenant.System, inGroup("of-system.example.com"))
		a := apiServices("a")
		Eventually(ctx, func(g Gomega) {
			names := namesOf(ctx, g, a, metav1.ListOptions{})
			g.Expect(names).To(ContainElements("v1.", "v1.apps", "v1.apiextensions.k8s.io", "v1.of-a.example.com"))
			g.Expect(names).NotTo(ContainElement(HaveSuffix("of-b.example.com")))
			g.Expect(names).NotTo(ContainElement(HaveSuffix("of-system.example.com")))
			g.Expect(namesOf(ctx, g, apiServices("b"), metav1.ListOptions{})).To(ContainElement("v1.of-b.example.com"))
		}).Should(Succeed())

		for _, name := range []string{"v1.apps", "v1.of-a.example.com"} {
			service, err := a.Get(ctx, name, metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(service.Spec.Service).To(BeNil())
			Expect(service.Spec.Version).To(Equal("v1"))
			Expect(service.Status.Conditions).To(HaveLen(1))
			Expect(service.Status.Conditions[0].Type).To(Equal(apiregistrationv1.Available))
			Expect(service.Status.Conditions[0].Status).To(Equal(apiregistrationv1.ConditionTrue))
		}
		for _, name := range []string{"v1beta1.metrics.k8s.io", "v1.of-b.example.com", "v1.of-system.example.com"} {
			_, err := a.Get(ctx, name, metav1.GetOptions{})
			Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%s: %v", name, err)
		}
		names := func(options metav1.ListOptions) []string { return namesOf(ctx, Default, a, options) }
		Expect(names(metav1.ListOptions{FieldSelector: "metadata.name=v1.apps"})).To(ConsistOf("v1.apps"))
		Expect(names(metav1.ListOptions{LabelSelector: "kube-aggregator.kubernetes.io/automanaged=true"})).To(ConsistOf("v1.of-a.example.com"))
	})

	It("cannot be changed, with a reason", func(ctx SpecContext) {
		client := tenantry.Client("a").RESTClient()
		path := []string{"apis", "apiregistration.k8s.io", "v1", "apiservices"}
		one := append(path[:len(path):len(path)], "v1.apps")
		for verb, request := range map[string]*rest.Request{
			"create": client.Post().AbsPath(path...), "update": client.Put().AbsPath(one...),
			"delete": client.Delete().AbsPath(one...), "deletecollection": client.Delete().AbsPath(path...),
			"status": client.Get().AbsPath(append(one[:len(one):len(one)], "status")...),
		} {
			err := request.Do(ctx).Error()
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", verb, err)
			Expect(err).To(MatchError(ContainSubstring("CustomResourceDefinitions")), verb)
		}
	})

	It("are not found, to delete them, if the space does not show them", func(ctx SpecContext) {
		define(ctx, "b", inGroup("elsewhere-of-b.example.com"))
		define(ctx, tenant.System, inGroup("elsewhere-of-system.example.com"))
		define(ctx, "a", inGroup("deleted-of-a.example.com"))
		a := apiServices("a")
		for _, of := range []aggregator.APIServiceInterface{apiServices("b"), apiServices(tenant.System)} {
			Eventually(ctx, func() []string { return namesOf(ctx, Default, of, metav1.ListOptions{}) }).Should(ContainElement(HavePrefix("v1.elsewhere-of-")))
		}
		const own = "v1.deleted-of-a.example.com"
		Eventually(ctx, func() []string { return namesOf(ctx, Default, a, metav1.ListOptions{}) }).Should(ContainElement(own))
		for _, name := range []string{"v1beta1.none.example.com", "v1.elsewhere-of-b.example.com", "v1.elsewhere-of-system.example.com"} {
			for _, options := range []metav1.DeleteOptions{{}, {DryRun: []string{metav1.DryRunAll}}} {
				err := a.Delete(ctx, name, options)
				Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%s: %v", name, err)
				Expect(err).To(MatchError(ContainSubstring(`apiservices.apiregistration.k8s.io %q not found`, name)))
			}
		}
		for _, options := range []metav1.DeleteOptions{{}, {DryRun: []string{metav1.DryRunAll}}} {
			err := a.Delete(ctx, own, options)
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		}
		err := tenantry.Client("a").CoreV1().Nodes().Delete(ctx, "none", metav1.DeleteOptions{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring(`nodes "none" not found`)))
	})

	It("are followed by watches", func(ctx SpecContext) {
		services := apiServices("b")
		before, err := services.List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		follower, err := services.Watch(ctx, metav1.ListOptions{ResourceVersion: before.ResourceVersion})
		Expect(err).NotTo(HaveOccurred())
		defer follower.Stop()
		// By a list and a watch or by a streaming list, as this client does.
		client, err := aggregatorclient.NewForConfig(tenantry.Config("b"))
		Expect(err).NotTo(HaveOccurred())
		informer := aggregatorinformers.NewAPIServiceInformer(client, 0, cache.Indexers{})
		go informer.RunWithContext(ctx)
		Eventually(ctx, informer.HasSynced).Should(BeTrue())
		Expect(informer.GetStore().ListKeys()).To(ContainElement("v1.apps"))

		_, err = definitions("b").Create(ctx, inGroup("followed.example.com"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		var event watch.Event
		Eventually(ctx, follower.ResultChan()).Should(Receive(&event))
		Expect(event.Type).To(Equal(watch.Added))
		Expect(event.Object.(*apiregistrationv1.APIService).Name).To(Equal("v1.followed.example.com"))
		Eventually(ctx, informer.GetStore().ListKeys).Should(ContainElement("v1.followed.example.com"))

		late, err := services.Watch(ctx, metav1.ListOptions{ResourceVersion: before.ResourceVersion})
		if err == nil {
			Eventually(ctx, late.ResultChan()).Should(Receive(&event))
			err = apierrors.FromObject(event.Object)
		}
		Expect(apierrors.IsResourceExpired(err)).To(BeTrue(), "%v", err)

		Expect(definitions("b").Delete(ctx, "levers.followed.example.com", metav1.DeleteOptions{})).To(Succeed())
		Eventually(ctx, follower.ResultChan()).Should(Receive(&event))
		Expect(event.Type).To(Equal(watch.Deleted))
		Expect(event.Object.(*apiregistrationv1.APIService).Name).To(Equal("v1.followed.example.com"))
		Eventually(ctx, informer.GetStore().ListKeys).ShouldNot(ContainElement("v1.followed.example.com"))
	})
})
