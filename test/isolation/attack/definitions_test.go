package attack

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
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
