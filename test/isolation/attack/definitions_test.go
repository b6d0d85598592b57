package attack

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/tenant"
)

// targets are custom resources of a published definition: the objects of all spaces
// are in one storage.
var targets = schema.GroupVersionResource{Group: "attack.example.com", Version: "v1", Resource: "targets"}

func publishTargets(ctx context.Context, config *rest.Config) {
	GinkgoHelper()
	client, err := clientset.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	anything := true
	size := ".spec.size"
	_, err = client.ApiextensionsV1().CustomResourceDefinitions().Create(ctx, &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: targets.GroupResource().String(), Annotations: map[string]string{tenant.PublishedAnnotation: "true"}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: targets.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: targets.Resource, Singular: "target", Kind: "Target"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: targets.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &anything}},
				Subresources: &apiextensionsv1.CustomResourceSubresources{
					Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
					Scale:  &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: size, StatusReplicasPath: ".status.size"},
				},
			}},
		},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// seedTarget makes a custom resource in one space.
func seedTarget(ctx context.Context, config *rest.Config, data string) {
	GinkgoHelper()
	client, err := dynamic.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	target := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"data": data, "size": int64(1)}}}
	target.SetAPIVersion(targets.GroupVersion().String())
	target.SetKind("Target")
	target.SetName(name)
	target.SetLabels(map[string]string{"attack": data})
	Eventually(func() error {
		_, err := client.Resource(targets).Namespace("default").Create(ctx, target, metav1.CreateOptions{})
		return err
	}, "30s").Should(Succeed())
}
