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
)

var _ = Describe("Spaces", Ordered, func() {
	const namespace, name = "shop", "settings"
	spaces := []tenant.Name{"a", "b"}

	BeforeAll(func(ctx SpecContext) {
		for _, t := range spaces {
			client := clientFor(admin(t))
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
			for _, config := range []*rest.Config{admin(t), tenantry.ShortPath(admin(t))} {
				Expect(owners(ctx, clientFor(config))).To(Equal([]string{t.String()}), config.Host)
			}
		}
		Expect(owners(ctx, clientFor(system()))).To(BeEmpty())
	})

	It("are open to system users that name them", func(ctx SpecContext) {
		config := system()
		config.Host += "/tenants/a"
		Expect(owners(ctx, clientFor(config))).To(Equal([]string{"a"}))
		config = system()
		config.Host += "/tenants/all"
		Expect(owners(ctx, clientFor(config))).To(ConsistOf("a", "b"))
	})

	It("are closed to others, whether or not they exist", func(ctx SpecContext) {
		base := tenantry.ShortPath(admin("a"))
		refusal := func(space string) string {
			config := rest.CopyConfig(base)
			config.Host += "/tenants/" + space
			_, err := clientFor(config).CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", space, err)
			return err.Error()
		}
		existing := refusal("b")
		for _, space := range []string{"c", "all", "system"} {
			Expect(mask(refusal(space), space)).To(Equal(mask(existing, "b")))
		}
	})

	It("are open to their administrators as soon as they are ready", func(ctx SpecContext) {
		for i := range 20 {
			t := tenant.Name(fmt.Sprintf("ready-%d", i))
			Expect(tenantry.CreateTenant(ctx, t)).To(Succeed())
			_, err := clientFor(admin(t)).CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
	}, NodeTimeout(startTimeout))

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
		_, err := clientFor(system()).CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "yard"}}, metav1.CreateOptions{})
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
func mask(message, space string) string {
	return strings.ReplaceAll(message, `"`+space+`"`, `"SPACE"`)
}
