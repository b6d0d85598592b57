package authorization

import (
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Acceptance line 28.
var _ = Describe("ABAC", func() {
	DescribeTable("knows tenants", func(ctx SpecContext, user who, space tenant.Name, reads, writes bool) {
		configMaps := user.in(space).CoreV1().ConfigMaps("default")
		_, err := configMaps.List(ctx, metav1.ListOptions{})
		if reads {
			Expect(err).NotTo(HaveOccurred())
		} else {
			Expect(err).To(beForbidden)
		}
		_, err = configMaps.Create(ctx, configMap("abac-"+user.name), metav1.CreateOptions{})
		if writes {
			Expect(err).NotTo(HaveOccurred())
			Expect(configMaps.Delete(ctx, "abac-"+user.name, metav1.DeleteOptions{})).To(Succeed())
		} else {
			Expect(err).To(beForbidden)
		}
		_, err = user.in(space).CoreV1().Pods("kube-system").List(ctx, metav1.ListOptions{})
		Expect(err).To(beForbidden)
	},
		Entry("an old line, in the system space", who{tenant: "system", name: "lineman"}, tenant.System, true, true),
		Entry("an old line, in a", who{tenant: "system", name: "lineman"}, tenant.Name("a"), false, false),
		Entry("an old line and a tenant's user", who{tenant: "a", name: "lineman"}, tenant.Name("a"), false, false),
		Entry("a tenant's line", who{tenant: "a", name: "alice"}, tenant.Name("a"), true, true),
		Entry("a tenant's line and another's user", who{tenant: "b", name: "alice"}, tenant.Name("b"), false, false),
		Entry("a tenant's line and a system user", who{tenant: "system", name: "alice"}, tenant.System, false, false),
		Entry("a tenant's line elsewhere", who{tenant: "a", name: "alice"}, tenant.Name("b"), false, false),
		Entry("every tenant, in a", who{tenant: "system", name: "everywhere"}, tenant.Name("a"), true, false),
		Entry("every tenant, in b", who{tenant: "system", name: "everywhere"}, tenant.Name("b"), true, false),
		Entry("every tenant, in the system space", who{tenant: "system", name: "everywhere"}, tenant.System, false, false),
		Entry("every tenant and a tenant's user", who{tenant: "a", name: "everywhere"}, tenant.Name("a"), false, false),
		Entry("every tenant and a tenant's user elsewhere", who{tenant: "a", name: "everywhere"}, tenant.Name("b"), false, false),
		Entry("a neighbour", who{tenant: "b", name: "neighbour"}, tenant.Name("a"), true, false),
		Entry("a neighbour at home", who{tenant: "b", name: "neighbour"}, tenant.Name("b"), false, false),
		Entry("another's neighbour", who{tenant: "a", name: "neighbour"}, tenant.Name("a"), false, false),
	)

	It("lets kubectl find its way and ask, where a line lets in", func(ctx SpecContext) {
		neighbour := who{tenant: "b", name: "neighbour"}
		_, err := neighbour.in("a").Discovery().ServerVersion()
		Expect(err).NotTo(HaveOccurred())
		Expect(can(ctx, neighbour.in("a"), authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods", Namespace: "default"})).To(BeTrue())
		Expect(can(ctx, neighbour.in("a"), authorizationv1.ResourceAttributes{Verb: "delete", Resource: "pods", Namespace: "default"})).To(BeFalse())
	}, SpecTimeout(specTimeout))
})

// Acceptance line 27.
var _ = Describe("A node", Ordered, func() {
	node := who{tenant: tenant.System, name: "system:node:n1", groups: []string{"system:nodes"}}

	BeforeAll(func(ctx SpecContext) {
		_, err := tenantry.Client(tenant.System).CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		for _, space := range []tenant.Name{"a", "b"} {
			client := tenantry.Client(space).CoreV1()
			for _, name := range []string{"mounted", "other"} {
				_, err := client.Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
				Expect(err).NotTo(HaveOccurred())
				_, err = client.ConfigMaps("default").Create(ctx, configMap(name), metav1.CreateOptions{})
				Expect(err).NotTo(HaveOccurred())
			}
			_, err := client.Pods("default").Create(ctx, pod("p",
				corev1.Volume{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "mounted"}}},
				corev1.Volume{Name: "c", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: "mounted"}}}},
			), metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		// The scheduler binds the pod of a to the node.
		status, body := send(ctx, tenantry.Config(tenant.System), http.MethodPost, "/tenants/a/api/v1/namespaces/default/pods/p/binding",
			`{"apiVersion":"v1","kind":"Binding","metadata":{"name":"p"},"target":{"kind":"Node","name":"n1"}}`)
		Expect(status).To(Equal(http.StatusCreated), body)
	}, NodeTimeout(specTimeout))

	It("reaches what belongs to its pods", func(ctx SpecContext) {
		client := node.in("a").CoreV1()
		Eventually(func() error {
			_, err := client.Secrets("default").Get(ctx, "mounted", metav1.GetOptions{})
			return err
		}).Should(Succeed())
		_, err := client.ConfigMaps("default").Get(ctx, "mounted", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		pods, err := client.Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=n1"})
		Expect(err).NotTo(HaveOccurred())
		Expect(pods.Items).To(HaveLen(1))
	}, SpecTimeout(specTimeout))

	DescribeTable("reaches nothing else", func(ctx SpecContext, path string) {
		status, body := send(ctx, node.config(), http.MethodGet, path, "")
		Expect(status).To(Equal(http.StatusForbidden), body)
	},
		Entry("another secret", "/tenants/a/api/v1/namespaces/default/secrets/other"),
		Entry("all secrets", "/tenants/a/api/v1/namespaces/default/secrets"),
		Entry("another config map", "/api/v1/tenants/a/namespaces/default/configmaps/other"),
		Entry("a secret of the same name in b", "/tenants/b/api/v1/namespaces/default/secrets/mounted"),
		Entry("a config map of the same name in b", "/api/v1/tenants/b/namespaces/default/configmaps/mounted"),
		Entry("the pod of the same name in b", "/tenants/b/api/v1/namespaces/default/pods/p"),
		Entry("a secret of the same name in the system space", "/api/v1/namespaces/default/secrets/mounted"),
		Entry("the same by its flattened name", "/api/v1/namespaces/a%7Cdefault/secrets/mounted"),
		Entry("the secrets of all tenants", "/tenants/all/api/v1/secrets"),
		Entry("all pods", "/tenants/a/api/v1/pods"),
	)

	It("loses it with the pod", func(ctx SpecContext) {
		zero := int64(0)
		Expect(tenantry.Client("a").CoreV1().Pods("default").Delete(ctx, "p", metav1.DeleteOptions{GracePeriodSeconds: &zero})).To(Succeed())
		Eventually(func() error {
			_, err := node.in("a").CoreV1().Secrets("default").Get(ctx, "mounted", metav1.GetOptions{})
			return err
		}).Should(beForbidden)
	}, SpecTimeout(specTimeout))
})
