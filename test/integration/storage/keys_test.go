package storage

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
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
			client := tenantry.Client(n)
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
			resource := resourceOf(plural)
			for _, n := range []tenant.Name{tenant.System, "foo", "foobar"} {
				define(ctx, n, plural, scope)
				object := &unstructured.Unstructured{}
				object.SetAPIVersion("storage.test/v1")
				object.SetKind(kindOf(plural))
				object.SetName("object")
				things := suite.Dynamic(tenantry.Config(n)).Resource(resource)
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
				list, err := suite.Dynamic(tenantry.Config(n)).Resource(resource).List(ctx, metav1.ListOptions{})
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

func resourceOf(plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "storage.test", Version: "v1", Resource: plural}
}

// define creates a definition in a space.
func define(ctx SpecContext, n tenant.Name, plural string, scope apiextensionsv1.ResourceScope) {
	GinkgoHelper()
	definition := suite.NewDefinition(resourceOf(plural), kindOf(plural), scope)
	_, err := suite.Definitions(tenantry.Config(n)).Create(ctx, definition, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}
