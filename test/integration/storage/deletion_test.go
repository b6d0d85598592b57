package storage

import (
	"context"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

var _ = Describe("A tenant that is being deleted", func() {
	const n, held = tenant.Name("ending"), "held"

	It("takes no new objects, by whatever verb", func(ctx SpecContext) {
		tenantry.CreateTenants(ctx, n)
		client := suite.Client(tenantry.In(n, tenantry.Config(tenant.System)))
		maps := client.CoreV1().ConfigMaps("default")
		_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: held, Finalizers: []string{"storage.test/held"}}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		tenants := tenantry.Client(tenant.System).CoreV1().RESTClient()
		Expect(tenants.Delete().AbsPath("/api/v1/tenants", n.String()).Do(ctx).Error()).To(Succeed())

		for _, w := range writes[:2] { // those that create what they do not find
			By(w.name)
			body, err := encodings["application/json"](map[string]any{
				"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": "late"},
			})
			Expect(err).NotTo(HaveOccurred())
			contentType := w.contentType
			if contentType == "" {
				contentType = "application/json"
			}
			Expect(put(ctx, client, w.verb, contentType, body)).To(refuseNewObjects())
		}
		_, err = client.RbacV1().ClusterRoles().Create(ctx, clusterRole("late"), metav1.CreateOptions{})
		Expect(err).To(refuseNewObjects())
		Expect(keys(ctx, "/registry/clusterroles/"+n.String()+"/")).NotTo(ContainElement(ContainSubstring("late")))

		By("letting go of what is there")
		_, err = maps.Patch(ctx, held, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() bool {
			return apierrors.IsNotFound(tenants.Get().AbsPath("/api/v1/tenants", n.String()).Do(ctx).Error())
		}).WithContext(ctx).WithTimeout(timeout).Should(BeTrue())
		receipts, err := tenantry.Client(tenant.System).CoreV1().Events("default").List(ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.kind=Tenant,involvedObject.name=" + n.String() + ",reason=SpaceDeleted",
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(receipts.Items).To(HaveLen(1))
		Expect(receipts.Items[0].Message).To(MatchRegexp("verified: of [1-9][0-9]* keys, etcd holds 0"))
		for _, key := range keys(ctx, "/registry/") {
			Expect(key).NotTo(ContainSubstring("/" + n.String() + "/"))
		}
	}, SpecTimeout(timeout))
})

func put(ctx context.Context, client kubernetes.Interface, verb, contentType string, body []byte) error {
	request := client.CoreV1().RESTClient().Verb(verb).AbsPath("/apis/rbac.authorization.k8s.io/v1/clusterroles/late").
		SetHeader("Content-Type", contentType).Body(body)
	if verb == http.MethodPatch {
		request = request.Param("fieldManager", "test")
	}
	return request.Do(ctx).Error()
}
