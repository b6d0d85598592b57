package clients

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/tenantry/tenantry/test/env/suite"
)

// gadgets is a definition of the size of the largest that operators bring.
func gadgets() *apiextensionsv1.CustomResourceDefinition {
	resource := schema.GroupVersionResource{Group: "charts.example.com", Version: "v1", Resource: "gadgets"}
	definition := suite.NewDefinition(resource, "Gadget", apiextensionsv1.NamespaceScoped)
	properties := map[string]apiextensionsv1.JSONSchemaProps{"size": {Type: "string"}}
	for i := range 800 {
		properties[fmt.Sprintf("field%d", i)] = apiextensionsv1.JSONSchemaProps{Type: "string", Description: strings.Repeat("what it is for ", 60)}
	}
	definition.Spec.Versions[0].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{
		Type:       "object",
		Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {Type: "object", Properties: properties}},
	}
	return definition
}

// installer installs manifests as Helm does: it looks for each object and creates it.
type installer struct {
	mapper  *restmapper.DeferredDiscoveryRESTMapper
	objects dynamic.Interface
}

func newInstaller(config *rest.Config) *installer {
	GinkgoHelper()
	objects, err := dynamic.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	return &installer{
		mapper:  restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(suite.Client(config).Discovery())),
		objects: objects,
	}
}

// clientOf returns a client of the resource of a manifest, in its namespace.
func (i *installer) clientOf(ctx SpecContext, manifest unstructured.Unstructured) dynamic.ResourceInterface {
	GinkgoHelper()
	gvk := manifest.GroupVersionKind()
	var mapping *meta.RESTMapping
	Eventually(ctx, func() (err error) { // what has just been defined is served, and a moment later in discovery
		if mapping, err = i.mapper.RESTMapping(gvk.GroupKind(), gvk.Version); meta.IsNoMatchError(err) {
			i.mapper.Reset()
		}
		return err
	}).Should(Succeed(), "%s", gvk)
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return i.objects.Resource(mapping.Resource)
	}
	namespace := manifest.GetNamespace()
	if namespace == "" {
		namespace = "charts"
	}
	return i.objects.Resource(mapping.Resource).Namespace(namespace)
}

// uninstall deletes manifests as Helm does, which takes what is not found for done.
func (i *installer) uninstall(ctx SpecContext, manifests []unstructured.Unstructured) {
	GinkgoHelper()
	for _, manifest := range manifests {
		err := i.clientOf(ctx, manifest).Delete(ctx, manifest.GetName(), metav1.DeleteOptions{})
		if !apierrors.IsNotFound(err) {
			Expect(err).NotTo(HaveOccurred(), "deleting %s %s", manifest.GetKind(), manifest.GetName())
		}
	}
}

// install returns what went wrong, by kind and name.
func (i *installer) install(ctx SpecContext, manifests []unstructured.Unstructured) map[string]error {
	GinkgoHelper()
	refused := map[string]error{}
	for _, manifest := range manifests {
		client := i.clientOf(ctx, manifest)
		_, err := client.Get(ctx, manifest.GetName(), metav1.GetOptions{})
		if err == nil {
			continue
		}
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "looking for %s: %v", manifest.GetKind(), err)
		if _, err := client.Create(ctx, &manifest, metav1.CreateOptions{}); err != nil {
			refused[manifest.GetKind()+" "+manifest.GetName()] = err
		}
	}
	return refused
}

func readManifests(path string) (manifests []unstructured.Unstructured) {
	GinkgoHelper()
	content, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		var manifest unstructured.Unstructured
		err := decoder.Decode(&manifest)
		if errors.Is(err, io.EOF) {
			return manifests
		}
		Expect(err).NotTo(HaveOccurred())
		manifests = append(manifests, manifest)
	}
}

var _ = Describe("A chart of an operator", func() {
	It("can be installed in a space, or says what to ask the platform for", func(ctx SpecContext) {
		n := tenantry.NewTenant(ctx, "charts")
		config := tenantry.Config(n)
		createNamespace(ctx, config, "charts")
		_, err := suite.Definitions(config).Create(ctx, gadgets(), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, func() bool {
			definition, err := suite.Definitions(config).Get(ctx, "gadgets.charts.example.com", metav1.GetOptions{})
			return err == nil && isEstablished(definition)
		}).Should(BeTrue())

		manifests := readManifests("testdata/chart.yaml")
		refused := newInstaller(config).install(ctx, manifests)
		Expect(refused).To(HaveLen(3))
		Expect(refused).To(HaveKeyWithValue("DaemonSet agent", MatchError(ContainSubstring(
			"ask the platform's administrators for daemonSets: {mode: Inert} in the Tenant"))))
		Expect(refused).To(HaveKeyWithValue("Deployment operator", MatchError(And(
			ContainSubstring(`does not allow spec.template.spec.tolerations "example.com/not-ready"`),
			ContainSubstring("ask the platform's administrators to allow it by nodePlacement of the Tenant")))))
		Expect(refused).To(HaveKeyWithValue("APIService v1beta1.external.metrics.k8s.io", MatchError(ContainSubstring(
			"other API servers are aggregated by the platform only"))))

		Expect(tenantry.SetSpec(ctx, n, "daemonSets", `{"mode":"Inert"}`)).To(Succeed())
		Expect(tenantry.SetSpec(ctx, n, "nodePlacement", `{"mode":"Limited","allowedTaints":["example.com/not-ready"]}`)).To(Succeed())
		Eventually(ctx, func() map[string]error { return newInstaller(config).install(ctx, manifests) }).Should(
			And(HaveLen(1), HaveKey("APIService v1beta1.external.metrics.k8s.io")))

		newInstaller(config).uninstall(ctx, manifests)
	}, SpecTimeout(timeout))
})

func isEstablished(definition *apiextensionsv1.CustomResourceDefinition) bool {
	for _, condition := range definition.Status.Conditions {
		if condition.Type == apiextensionsv1.Established {
			return condition.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}
