package controllers

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

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
