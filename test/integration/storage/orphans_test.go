package storage

import (
	"encoding/json"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

// What stays in etcd without a definition would be the next tenant's of the name.
var _ = Describe("A definition of a space", func() {
	const n, plural, path = tenant.Name("defining"), "heldthings", "/apis/storage.test/v1/heldthings"

	It("stays until its objects have gone, whatever its administrator writes", func(ctx SpecContext) {
		tenantry.CreateTenants(ctx, n)
		define(ctx, n, plural, apiextensionsv1.ClusterScoped)
		definitions, name := suite.Definitions(tenantry.Config(n)), plural+".storage.test"
		client := tenantry.Client(n).CoreV1().RESTClient()
		held, err := json.Marshal(map[string]any{
			"apiVersion": "storage.test/v1", "kind": kindOf(plural), "metadata": map[string]any{"name": "held", "finalizers": []string{"storage.test/held"}},
		})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() error { return client.Post().AbsPath(path).Body(held).Do(ctx).Error() }).
			WithContext(ctx).WithTimeout(timeout).Should(Succeed())

		By("saying that it was never established, by which upstream would leave them")
		never := `{"status":{"conditions":[{"type":"Established","status":"False","reason":"No","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`
		patched, err := definitions.Patch(ctx, name, types.MergePatchType, []byte(never), metav1.PatchOptions{}, "status")
		Expect(err).NotTo(HaveOccurred())
		conditions, err := json.Marshal(patched)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(conditions)).NotTo(ContainSubstring(`"reason":"No"`))

		By("taking out the finalizer by which they go first")
		Expect(definitions.Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
		Expect(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			_, err := definitions.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			return err
		})).To(SatisfyAll(WithTransform(apierrors.IsForbidden, BeTrue()), MatchError(ContainSubstring("the space has objects of it"))))
		Expect(keys(ctx, "/registry/storage.test/"+plural+"/"+segment(n))).To(HaveLen(1))

		By("letting go of what holds them")
		Expect(client.Patch(types.MergePatchType).AbsPath(path, "held").Body([]byte(`{"metadata":{"finalizers":null}}`)).Do(ctx).Error()).To(Succeed())
		Eventually(func() bool {
			_, err := definitions.Get(ctx, name, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		}).WithContext(ctx).WithTimeout(timeout).WithPolling(100 * time.Millisecond).Should(BeTrue())
		Expect(keys(ctx, "/registry/storage.test/"+plural+"/"+segment(n))).To(BeEmpty())
	}, SpecTimeout(timeout))

	It("is not of a group that every space has", func(ctx SpecContext) {
		for _, group := range []string{"networking.k8s.io", "tenantry.io", "apiextensions.k8s.io"} {
			resource := resourceOf(plural)
			resource.Group = group
			definition := suite.NewDefinition(resource, kindOf(plural), apiextensionsv1.ClusterScoped)
			definition.Annotations = map[string]string{apiextensionsv1.KubeAPIApprovedAnnotation: "unapproved, a test"}
			_, err := suite.Definitions(tenantry.Config("foo")).Create(ctx, definition, metav1.CreateOptions{})
			Expect(err).To(SatisfyAll(WithTransform(apierrors.IsForbidden, BeTrue()), MatchError(ContainSubstring("spec.group"))), group)
		}
	}, SpecTimeout(timeout))
})
