package storage

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/tenantry/tenantry/internal/tenant"
)

// segment returns what the tenant adds to a key.
func segment(n tenant.Name) string {
	if n == tenant.System {
		return ""
	}
	return n.String() + "/"
}

var _ = Describe("Keys in etcd", func() {
	It("are those of the tenant: built-in resources", func(ctx SpecContext) {
		for _, n := range spaces {
			client := clientOf(n)
			ensureNamespace(ctx, client, "keys")
			_, err := client.CoreV1().ConfigMaps("keys").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "object"}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			_, err = client.CoreV1().Services("keys").Create(ctx, &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: "object"}, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone},
			}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			_, err = client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "keys"}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			for _, key := range []string{
				"/registry/namespaces/" + segment(n) + "keys",
				"/registry/configmaps/" + segment(n) + "keys/object",
				"/registry/services/specs/" + segment(n) + "keys/object",
				"/registry/clusterroles/" + segment(n) + "keys",
			} {
				Expect(keys(ctx, key)).To(ContainElement(key))
			}
		}
	}, SpecTimeout(timeout))

	It("are those of the tenant: custom resources", func(ctx SpecContext) {
		for _, scope := range []apiextensionsv1.ResourceScope{apiextensionsv1.NamespaceScoped, apiextensionsv1.ClusterScoped} {
			plural := strings.ToLower(string(scope)) + "things"
			for _, n := range []tenant.Name{tenant.System, "foo", "foobar"} {
				define(ctx, n, plural, scope)
				client, err := dynamic.NewForConfig(configOf(n))
				Expect(err).NotTo(HaveOccurred())
				object := &unstructured.Unstructured{}
				object.SetAPIVersion("storage.test/v1")
				object.SetKind(kindOf(plural))
				object.SetName("object")
				things := client.Resource(schema.GroupVersionResource{Group: "storage.test", Version: "v1", Resource: plural})
				key := "/registry/storage.test/" + plural + "/" + segment(n) + "object"
				create := things.Create
				if scope == apiextensionsv1.NamespaceScoped {
					key = "/registry/storage.test/" + plural + "/" + segment(n) + "default/object"
					create = things.Namespace("default").Create
				}
				Eventually(func() error {
					_, err := create(ctx, object.DeepCopy(), metav1.CreateOptions{})
					return err
				}).WithContext(ctx).WithTimeout(time.Minute).Should(Succeed(), "%s in %s", plural, n)
				Expect(keys(ctx, key)).To(Equal([]string{key}))
			}
			// Each lists its own alone.
			for _, n := range []tenant.Name{tenant.System, "foo", "foobar"} {
				client, err := dynamic.NewForConfig(configOf(n))
				Expect(err).NotTo(HaveOccurred())
				list, err := client.Resource(schema.GroupVersionResource{Group: "storage.test", Version: "v1", Resource: plural}).List(ctx, metav1.ListOptions{})
				Expect(err).NotTo(HaveOccurred())
				Expect(list.Items).To(HaveLen(1))
			}
		}
	}, SpecTimeout(timeout))

	It("have no others than those of spaces and the system", func(ctx SpecContext) {
		// A namespaced resource has keys of two segments (system) or three (tenants).
		known := map[string]bool{}
		for _, n := range spaces[1:] {
			known[n.String()] = true
		}
		for _, key := range keys(ctx, "/registry/secrets/") {
			segments := strings.Split(strings.TrimPrefix(key, "/registry/secrets/"), "/")
			Expect(segments).To(Or(HaveLen(2), HaveLen(3)), key)
			if len(segments) == 3 {
				Expect(known).To(HaveKey(segments[0]), key)
			}
		}
		for _, key := range keys(ctx, "/registry/") {
			Expect(key).NotTo(ContainSubstring("//"))
			Expect(key).NotTo(ContainSubstring("|"))
		}
	}, SpecTimeout(timeout))
})

func kindOf(plural string) string {
	return strings.ToUpper(plural[:1]) + strings.TrimSuffix(plural[1:], "s")
}

// define creates a definition in a space.
func define(ctx SpecContext, n tenant.Name, plural string, scope apiextensionsv1.ResourceScope) {
	GinkgoHelper()
	client, err := apiextensions.NewForConfig(configOf(n))
	Expect(err).NotTo(HaveOccurred())
	preserve := true
	_, err = client.ApiextensionsV1().CustomResourceDefinitions().Create(ctx, &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + ".storage.test"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "storage.test", Scope: scope,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: kindOf(plural)},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: &preserve,
				}},
			}},
		},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}
