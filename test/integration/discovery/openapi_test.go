package discovery

import (
	"context"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

// definition returns a definition whose spec has the given fields.
func definition(plural, kind string, fields ...string) *apiextensionsv1.CustomResourceDefinition {
	properties := map[string]apiextensionsv1.JSONSchemaProps{}
	for _, field := range fields {
		properties[field] = apiextensionsv1.JSONSchemaProps{Type: "string"}
	}
	resource := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: plural}
	definition := suite.NewDefinition(resource, kind, apiextensionsv1.NamespaceScoped)
	definition.Spec.Versions[0].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{
		Type:       "object",
		Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {Type: "object", Properties: properties}},
	}
	return definition
}

func established(definition *apiextensionsv1.CustomResourceDefinition) apiextensionsv1.ConditionStatus {
	for _, condition := range definition.Status.Conditions {
		if condition.Type == apiextensionsv1.Established {
			return condition.Status
		}
	}
	return ""
}

// define creates a definition and removes it when the test ends.
func define(ctx context.Context, t tenant.Name, definition *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	GinkgoHelper()
	client := definitions(t)
	created, err := client.Create(ctx, definition, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.Delete(ctx, definition.Name, metav1.DeleteOptions{})).To(Succeed())
		Eventually(ctx, func() bool {
			_, err := client.Get(ctx, definition.Name, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		}).Should(BeTrue())
	})
	return created
}

// openAPIv2 reads the document of a space, and the status and ETag it came with.
func openAPIv2(ctx context.Context, t tenant.Name, etag string) (spec.Definitions, int, string) {
	GinkgoHelper()
	config := tenantry.Config(t)
	transport, err := rest.TransportFor(config)
	Expect(err).NotTo(HaveOccurred())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/openapi/v2", nil)
	Expect(err).NotTo(HaveOccurred())
	req.Header.Set("Accept", "application/json")
	if etag != "" {
		req.Header.Set("If-None-Match", etag)
	}
	response, err := transport.RoundTrip(req)
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	var document spec.Swagger
	if response.StatusCode == http.StatusOK {
		Expect(document.UnmarshalJSON(body)).To(Succeed())
	}
	return document.Definitions, response.StatusCode, response.Header.Get("Etag")
}

var _ = Describe("OpenAPI", func() {
	const definedBoth, builtin, installed = "com.example.v1.Widget", "io.k8s.api.core.v1.Pod",
		"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"

	It("v2 has the definitions of its own space as they are now", func(ctx SpecContext) {
		before, _, _ := openAPIv2(ctx, "b", "")
		Expect(before).To(And(HaveKey(builtin), HaveKey(installed), Not(HaveKey(definedBoth))))

		created := define(ctx, "a", definition("widgets", "Widget", "colour"))
		define(ctx, "b", definition("widgets", "Widget", "weight"))
		fields := func(t tenant.Name) func(context.Context) []string {
			return func(ctx context.Context) []string {
				document, _, _ := openAPIv2(ctx, t, "")
				Expect(document).To(And(HaveKey(builtin), HaveKey(installed)))
				properties := document[definedBoth].Properties["spec"].Properties
				return slices.Sorted(maps.Keys(properties))
			}
		}
		Eventually(ctx, fields("a")).Should(Equal([]string{"colour"}))
		Eventually(ctx, fields("b")).Should(Equal([]string{"weight"}))
		Expect(fields("system")(ctx)).To(BeEmpty())

		By("answering an unchanged document with its ETag only")
		_, _, etag := openAPIv2(ctx, "a", "")
		_, status, _ := openAPIv2(ctx, "a", etag)
		Expect(status).To(Equal(http.StatusNotModified))
		_, status, _ = openAPIv2(ctx, "b", etag)
		Expect(status).To(Equal(http.StatusOK))

		By("following a change")
		client := definitions("a")
		Eventually(ctx, func() error {
			changed, err := client.Get(ctx, created.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			changed.Spec = definition("widgets", "Widget", "colour", "size").Spec
			_, err = client.Update(ctx, changed, metav1.UpdateOptions{})
			return err
		}).Should(Succeed())
		Eventually(ctx, fields("a")).Should(Equal([]string{"colour", "size"}))
		Expect(fields("b")(ctx)).To(Equal([]string{"weight"}))
	})

	It("v3 names what a space can use, whether it has definitions or not", func(ctx SpecContext) {
		define(ctx, tenant.System, definition("gadgets", "Gadget"))
		groups := func(t tenant.Name) func() []string {
			return func() []string {
				paths, err := tenantry.Client(t).Discovery().OpenAPIV3().Paths()
				Expect(err).NotTo(HaveOccurred())
				return slices.Sorted(maps.Keys(paths))
			}
		}
		Eventually(ctx, groups(tenant.System)).Should(ContainElement("apis/example.com/v1"))
		Expect(groups("b")()).To(And(ContainElements("api/v1", "apis/apps/v1", "apis/apiextensions.k8s.io/v1"),
			Not(ContainElement("apis/example.com/v1"))))
	})
})

var _ = Describe("A custom resource", func() {
	It("can be deleted by every policy", func(ctx SpecContext) {
		define(ctx, "a", definition("bolts", "Bolt"))
		bolts := suite.Dynamic(tenantry.Config("a")).Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "bolts"}).Namespace(metav1.NamespaceDefault)
		bolt := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Bolt", "metadata": map[string]any{"name": "m8"},
		}}
		for _, policy := range []metav1.DeletionPropagation{
			metav1.DeletePropagationOrphan, metav1.DeletePropagationForeground, metav1.DeletePropagationBackground,
		} {
			Eventually(ctx, func() error {
				_, err := bolts.Create(ctx, bolt, metav1.CreateOptions{})
				return err
			}).Should(Succeed())
			Expect(bolts.Delete(ctx, "m8", metav1.DeleteOptions{PropagationPolicy: &policy})).To(Succeed())
			Eventually(ctx, func() bool {
				_, err := bolts.Get(ctx, "m8", metav1.GetOptions{})
				return apierrors.IsNotFound(err)
			}).WithTimeout(2*time.Minute).Should(BeTrue(), string(policy))
		}
	})
})

var _ = Describe("A new definition", func() {
	It("has the condition Established to wait for", func(ctx SpecContext) {
		created := define(ctx, "a", definition("cogs", "Cog"))
		Expect(established(created)).To(Equal(apiextensionsv1.ConditionFalse))
		Eventually(ctx, func(g Gomega) {
			current, err := definitions("a").Get(ctx, created.Name, metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(established(current)).To(Equal(apiextensionsv1.ConditionTrue))
		}).Should(Succeed())
	})
})

var _ = Describe("Health checks", func() {
	It("in a space are those of the whole server", func(ctx SpecContext) {
		body, err := tenantry.Client("a").RESTClient().Get().AbsPath("/readyz").Param("verbose", "1").DoRaw(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(body)).To(ContainSubstring("[+]autoregister-completion ok"))
	})
})
