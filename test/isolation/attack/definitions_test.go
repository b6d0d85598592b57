package attack

import (
	"context"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

// targets are custom resources of a published definition: the objects of all spaces
// are in one storage.
var targets = schema.GroupVersionResource{Group: "attack.example.com", Version: "v1", Resource: "targets"}

func publishTargets(ctx context.Context, config *rest.Config) {
	GinkgoHelper()
	definition := suite.NewDefinition(targets, "Target", apiextensionsv1.NamespaceScoped)
	definition.Annotations = map[string]string{tenant.PublishedAnnotation: "true"}
	definition.Spec.Versions[0].Subresources = &apiextensionsv1.CustomResourceSubresources{
		Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
		Scale:  &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.size", StatusReplicasPath: ".status.size"},
	}
	_, err := suite.Definitions(config).Create(ctx, definition, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// seedTarget makes a custom resource in one space.
func seedTarget(ctx context.Context, config *rest.Config, data string) {
	GinkgoHelper()
	client := suite.Dynamic(config).Resource(targets).Namespace("default")
	target := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"data": data, "size": int64(1)}}}
	target.SetAPIVersion(targets.GroupVersion().String())
	target.SetKind("Target")
	target.SetName(name)
	target.SetLabels(map[string]string{"attack": data})
	Eventually(func() error {
		_, err := client.Create(ctx, target, metav1.CreateOptions{})
		return err
	}, "30s").Should(Succeed())
}

var _ = Describe("Definitions that make much of little", func() {
	bombs := schema.GroupVersionResource{Group: "bombs.example.com", Version: "v1", Resource: "bombs"}
	newBombs := func(element apiextensionsv1.JSONSchemaProps) *apiextensionsv1.CustomResourceDefinition {
		definition := suite.NewDefinition(bombs, "Bomb", apiextensionsv1.NamespaceScoped)
		definition.Spec.Versions[0].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{
			Type: "object",
			Properties: map[string]apiextensionsv1.JSONSchemaProps{
				"l": {Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &element}},
			},
		}
		return definition
	}
	withDefault := func(bytes int) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"a": {Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"` + strings.Repeat("x", bytes) + `"`)}},
		}}
	}
	refused := "the defaults of an object in a list or map are"

	It("are refused", func(ctx SpecContext) {
		_, err := suite.Definitions(tenantry.Config("a")).Create(ctx, newBombs(withDefault(100_000)), metav1.CreateOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring(refused)))
	})

	It("are refused as updates, and so are objects that have too much wrong or too many values", func(ctx SpecContext) {
		definitions := suite.Definitions(tenantry.Config("a"))
		definition, err := definitions.Create(ctx, newBombs(apiextensionsv1.JSONSchemaProps{
			Type: "string", Enum: []apiextensionsv1.JSON{{Raw: []byte(`"` + strings.Repeat("x", 10_000) + `"`)}},
		}), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			Expect(definitions.Delete(ctx, definition.Name, metav1.DeleteOptions{})).To(Succeed())
		})
		client := suite.Dynamic(tenantry.Config("a")).Resource(bombs).Namespace("default")
		create := func(elements int) error {
			bomb := &unstructured.Unstructured{Object: map[string]any{"l": slices.Repeat([]any{""}, elements)}}
			bomb.SetAPIVersion(bombs.GroupVersion().String())
			bomb.SetKind("Bomb")
			bomb.SetName("bomb")
			_, err := client.Create(ctx, bomb, metav1.CreateOptions{})
			return err
		}
		Eventually(func() error { return create(0) }, "30s").Should(Succeed())
		Expect(create(1_000)).To(MatchError(ContainSubstring("more is wrong with it than the server lists")))
		Expect(create(9_000)).To(MatchError(ContainSubstring("units of work to validate it")))
		Expect(create(10_001)).To(MatchError(ContainSubstring("more than 10000 elements in one list")))

		Eventually(func() error {
			current, err := definitions.Get(ctx, definition.Name, metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			current.Spec.Versions = newBombs(withDefault(1_000)).Spec.Versions
			_, err = definitions.Update(ctx, current, metav1.UpdateOptions{})
			return err
		}).Should(MatchError(ContainSubstring(refused)))
	})
})
