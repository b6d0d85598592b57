package storage

import (
	"context"
	"io"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

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

	It("is not changed any more by requests that were admitted before", func(ctx SpecContext) {
		n := tenantry.NewTenant(ctx, "changed")
		tenants := tenantry.Client(tenant.System).CoreV1().RESTClient()
		maps := suite.Client(tenantry.In(n, tenantry.Config(tenant.System))).CoreV1().ConfigMaps("default")
		_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: held, Finalizers: []string{"storage.test/held"}}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		end := func() {
			Expect(tenants.Delete().AbsPath("/api/v1/tenants", n.String()).Do(ctx).Error()).To(Succeed())
			Eventually(func() error { // this server has heard of it
				_, err := tenantry.Client(n).CoreV1().ConfigMaps("default").Patch(ctx, held, types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
				return err
			}).WithContext(ctx).Should(MatchError(ContainSubstring("is being deleted")))
		}
		status, answer := patchSlowly(ctx, tenantry.Config(n), "/api/v1/namespaces/default/configmaps/"+held,
			`{"metadata":{"finalizers":["storage.test/held","storage.test/late"]}}`, end)
		Expect(status).To(Equal(http.StatusForbidden))
		Expect(answer).To(ContainSubstring("is being deleted"))
		_, err = maps.Patch(ctx, held, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() bool {
			return apierrors.IsNotFound(tenants.Get().AbsPath("/api/v1/tenants", n.String()).Do(ctx).Error())
		}).WithContext(ctx).WithTimeout(timeout).Should(BeTrue())
	}, SpecTimeout(timeout))

	It("goes with custom resources that cannot be read any more", func(ctx SpecContext) {
		n := tenantry.NewTenant(ctx, "lost")
		definitions := suite.Definitions(tenantry.Config(n))
		resource := schema.GroupVersionResource{Group: "storage.test", Version: "v1alpha1", Resource: "losts"}
		_, err := definitions.Create(ctx, suite.NewDefinition(resource, "Lost", apiextensionsv1.NamespaceScoped), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		client := suite.Dynamic(tenantry.Config(n)).Resource(resource).Namespace("default")
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "storage.test/v1alpha1", "kind": "Lost", "metadata": map[string]any{"name": "x"}}}
		Eventually(func() error {
			_, err := client.Create(ctx, object, metav1.CreateOptions{})
			return err
		}).WithContext(ctx).WithTimeout(timeout).Should(Succeed())

		By("taking the version out of the definition in which the object is stored")
		change := func(with func(*apiextensionsv1.CustomResourceDefinition), write func(context.Context, *apiextensionsv1.CustomResourceDefinition, metav1.UpdateOptions) (*apiextensionsv1.CustomResourceDefinition, error)) {
			GinkgoHelper()
			Eventually(func() error {
				definition, err := definitions.Get(ctx, "losts.storage.test", metav1.GetOptions{})
				if err != nil {
					return err
				}
				with(definition)
				_, err = write(ctx, definition, metav1.UpdateOptions{})
				return err
			}).WithContext(ctx).WithTimeout(timeout).Should(Succeed())
		}
		change(func(d *apiextensionsv1.CustomResourceDefinition) {
			later := *d.Spec.Versions[0].DeepCopy()
			later.Name, d.Spec.Versions[0].Storage = "v1", false
			d.Spec.Versions = append(d.Spec.Versions, later)
		}, definitions.Update)
		change(func(d *apiextensionsv1.CustomResourceDefinition) { d.Status.StoredVersions = []string{"v1"} }, definitions.UpdateStatus)
		change(func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.Versions = d.Spec.Versions[1:] }, definitions.Update)
		resource.Version = "v1"
		client = suite.Dynamic(tenantry.Config(n)).Resource(resource).Namespace("default")
		Eventually(func() error {
			_, err := client.Get(ctx, "x", metav1.GetOptions{})
			return err
		}).WithContext(ctx).WithTimeout(timeout).Should(MatchError(ContainSubstring("invalid group/version")))

		tenantry.DeleteTenant(ctx, n)
		for _, key := range keys(ctx, "/registry/") {
			Expect(key).NotTo(ContainSubstring("/" + n.String() + "/"))
		}
	}, SpecTimeout(2*timeout))
})

func put(ctx context.Context, client kubernetes.Interface, verb, contentType string, body []byte) error {
	request := client.CoreV1().RESTClient().Verb(verb).AbsPath("/apis/rbac.authorization.k8s.io/v1/clusterroles/late").
		SetHeader("Content-Type", contentType).Body(body)
	if verb == http.MethodPatch {
		request = request.Param("fieldManager", "test")
	}
	return request.Do(ctx).Error()
}

// patchSlowly sends a merge patch whose body begins when the server has admitted the request and reads it, which it
// says by 100 Continue, and what happens meanwhile has happened.
func patchSlowly(ctx context.Context, config *rest.Config, path, body string, meanwhile func()) (status int, answer string) {
	GinkgoHelper()
	config = rest.CopyConfig(config)
	config.NextProtos = []string{"http/1.1"}
	server, _, err := rest.DefaultServerUrlFor(config)
	Expect(err).NotTo(HaveOccurred())
	transport, err := rest.TLSConfigFor(config)
	Expect(err).NotTo(HaveOccurred())
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: transport, ExpectContinueTimeout: timeout}}
	defer client.CloseIdleConnections()
	read, write := io.Pipe()
	go func() {
		defer GinkgoRecover()
		defer func() { _ = write.Close() }()
		// The client reads the body once the server has said so.
		_, _ = io.WriteString(write, body[:1])
		meanwhile()
		_, _ = io.WriteString(write, body[1:])
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodPatch, server.String()+path, read)
	Expect(err).NotTo(HaveOccurred())
	req.ContentLength = int64(len(body))
	req.Header.Set("Content-Type", string(types.MergePatchType))
	req.Header.Set("Expect", "100-continue")
	response, err := client.Do(req)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	said, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	return response.StatusCode, string(said)
}
