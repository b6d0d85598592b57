package smoke

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

var _ = Describe("Spaces", Ordered, func() {
	const namespace, name = "shop", "settings"
	spaces := []tenant.Name{"a", "b"}

	BeforeAll(func(ctx SpecContext) {
		for _, t := range spaces {
			client := tenantry.Client(t)
			_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"owner": t.String()}}
			_, err = client.CoreV1().ConfigMaps(namespace).Create(ctx, settings, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}}
			_, err = client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
	})

	It("hold objects of the same name apart, at the space root and on the short path", func(ctx SpecContext) {
		for _, t := range spaces {
			for _, config := range []*rest.Config{tenantry.Config(t), tenantry.ShortPath(tenantry.Config(t))} {
				Expect(owners(ctx, suite.Client(config))).To(Equal([]string{t.String()}), config.Host)
			}
		}
		Expect(owners(ctx, tenantry.Client(tenant.System))).To(BeEmpty())
	})

	It("are open to system users that name them", func(ctx SpecContext) {
		inSpace := tenantry.In("a", tenantry.Config(tenant.System))
		Expect(owners(ctx, suite.Client(inSpace))).To(Equal([]string{"a"}))
		Expect(owners(ctx, tenantry.Client(suite.All))).To(ConsistOf("a", "b"))
	})

	It("are closed to others, whether or not they exist", func(ctx SpecContext) {
		refusal := func(space tenant.Name) string {
			config := tenantry.In(space, tenantry.Config("a"))
			_, err := suite.Client(config).CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", space, err)
			return err.Error()
		}
		existing := refusal("b")
		for _, space := range []tenant.Name{"c", suite.All, tenant.System} {
			Expect(mask(refusal(space), space)).To(Equal(mask(existing, "b")))
		}
	})

	It("are open to their administrators as soon as they are ready", func(ctx SpecContext) {
		for i := range 20 {
			t := tenant.Name(fmt.Sprintf("ready-%d", i))
			tenantry.CreateTenants(ctx, t)
			_, err := tenantry.Client(t).CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
	}, NodeTimeout(suite.StartTimeout))

	It("are stored at the keys of their tenants", func(ctx SpecContext) {
		for _, t := range spaces {
			for _, key := range []string{
				"/registry/namespaces/" + t.String() + "/" + namespace,
				"/registry/configmaps/" + t.String() + "/" + namespace + "/" + name,
				"/registry/clusterroles/" + t.String() + "/" + name,
			} {
				Expect(count(ctx, key)).To(BeEquivalentTo(1), key)
			}
		}
		Expect(count(ctx, "/registry/tenants/a")).To(BeEquivalentTo(1))
		_, err := tenantry.Client(tenant.System).CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "yard"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(count(ctx, "/registry/namespaces/yard")).To(BeEquivalentTo(1))
		Expect(count(ctx, "/registry/namespaces/"+namespace)).To(BeZero())
		Expect(count(ctx, "/registry/configmaps/"+namespace+"/", clientv3.WithPrefix())).To(BeZero())
	})
})

// owners returns the field "owner" of every ConfigMap named settings that the
// client sees in all its namespaces.
func owners(ctx context.Context, client kubernetes.Interface) []string {
	GinkgoHelper()
	list, err := client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=settings"})
	Expect(err).NotTo(HaveOccurred())
	var owners []string
	for _, item := range list.Items {
		owners = append(owners, item.Data["owner"])
	}
	return owners
}

func count(ctx context.Context, key string, options ...clientv3.OpOption) int64 {
	GinkgoHelper()
	response, err := tenantry.Etcd().Get(ctx, key, append(options, clientv3.WithCountOnly())...)
	Expect(err).NotTo(HaveOccurred())
	return response.Count
}

// mask hides the name of a space in a message.
func mask(message string, space tenant.Name) string {
	return strings.ReplaceAll(message, `"`+space.String()+`"`, `"SPACE"`)
}
