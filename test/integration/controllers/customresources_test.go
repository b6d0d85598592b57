package controllers

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

var widgets = schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "widgets"}

// A resource that only one tenant defines is in no discovery but that tenant's.
var _ = Describe("a tenant's custom resources", func() {
	It("hold their namespace until they are gone", func(ctx context.Context) {
		definition := suite.NewDefinition(widgets, "Widget", apiextensionsv1.NamespaceScoped)
		_, err := suite.Definitions(configIn("a")).Create(ctx, definition, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		objects := suite.Dynamic(configIn("a")).Resource(widgets).Namespace(namespace)
		widget := &unstructured.Unstructured{}
		widget.SetAPIVersion("example.org/v1")
		widget.SetKind("Widget")
		widget.SetName("w")
		widget.SetFinalizers([]string{"example.org/hold"})
		Eventually(func() error {
			_, err := objects.Create(ctx, widget, metav1.CreateOptions{})
			return err
		}).Should(Succeed())

		// b, which has no such resource, first: what it lacks must not be
		// remembered of a.
		for _, n := range []int{1, 0} {
			c := client(everySpace[n])
			Expect(c.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{})).To(Succeed())
			if n == 1 {
				Eventually(func() bool {
					_, err := c.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
					return apierrors.IsNotFound(err)
				}).Should(BeTrue())
			}
		}
		Eventually(func(g Gomega) {
			held, err := objects.Get(ctx, "w", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(held.GetDeletionTimestamp()).NotTo(BeNil())
		}).Should(Succeed())
		_, err = client("a").CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		held, err := objects.Get(ctx, "w", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		held.SetFinalizers(nil)
		_, err = objects.Update(ctx, held, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() bool {
			_, err := client("a").CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		}).WithTimeout(time.Minute).Should(BeTrue())
	})
})

// Nobody but the system space has objects of an API that it aggregates.
var _ = Describe("an aggregated API whose discovery fails", func() {
	It("holds namespaces of the system space alone", func(ctx SpecContext) {
		services := suite.Dynamic(configIn(tenant.System)).Resource(schema.GroupVersionResource{
			Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"})
		away := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1.away.example.com"},
			"spec": map[string]any{
				"group": "away.example.com", "version": "v1", "groupPriorityMinimum": int64(100), "versionPriority": int64(100),
				"service": map[string]any{"namespace": "kube-system", "name": "away"}, "insecureSkipTLSVerify": true,
			},
		}}
		_, err := services.Create(ctx, away, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		remove := func(ctx SpecContext) { _ = services.Delete(ctx, away.GetName(), metav1.DeleteOptions{}) }
		DeferCleanup(remove)
		Eventually(ctx, func() error {
			_, err := client(tenant.System).Discovery().ServerPreferredResources()
			return err
		}).Should(MatchError(ContainSubstring("away.example.com")))

		for _, n := range []tenant.Name{tenant.System, "a"} {
			_, err := client(n).CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "beside-away"}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(client(n).CoreV1().Namespaces().Delete(ctx, "beside-away", metav1.DeleteOptions{})).To(Succeed())
		}
		gone := func(n tenant.Name) func() bool {
			return func() bool {
				_, err := client(n).CoreV1().Namespaces().Get(ctx, "beside-away", metav1.GetOptions{})
				return apierrors.IsNotFound(err)
			}
		}
		Eventually(ctx, gone("a")).WithTimeout(time.Minute).Should(BeTrue())
		Eventually(ctx, func(g Gomega) {
			held, err := client(tenant.System).CoreV1().Namespaces().Get(ctx, "beside-away", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(held.Status.Conditions).To(ContainElement(HaveField("Message", ContainSubstring(`the API group "away.example.com" cannot be discovered`))))
		}).WithTimeout(time.Minute).Should(Succeed())
		remove(ctx)
		Eventually(ctx, gone(tenant.System)).WithTimeout(time.Minute).Should(BeTrue())
	}, SpecTimeout(3*time.Minute))
})
