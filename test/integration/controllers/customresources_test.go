package controllers

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

var widgets = schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "widgets"}

func widgetDefinition() *apiextensionsv1.CustomResourceDefinition {
	preserve := true
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.org"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: widgets.Group,
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: widgets.Resource, Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: widgets.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &preserve},
				},
			}},
		},
	}
}

// A resource that only one tenant defines is in no discovery but that tenant's.
var _ = Describe("a tenant's custom resources", func() {
	It("hold their namespace until they are gone", func(ctx context.Context) {
		definitions, err := apiextensions.NewForConfig(inSpace("a"))
		Expect(err).NotTo(HaveOccurred())
		_, err = definitions.ApiextensionsV1().CustomResourceDefinitions().Create(ctx, widgetDefinition(), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		dynamicClient, err := dynamic.NewForConfig(inSpace("a"))
		Expect(err).NotTo(HaveOccurred())
		objects := dynamicClient.Resource(widgets).Namespace(namespace)
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
