package attack

import (
	"context"
	"encoding/json"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

// paths are names of owners of the kind ConfigMap that lead elsewhere: to watches, which
// do not end, to what exists in the system space or another, and to what does not.
var paths = []string{
	"x/../../../../watch/configmaps",
	"x/../../../../watch/namespaces",
	"x/../../../../namespaces/default",
	"x/../../../../namespaces/nowhere",
	"x/../../../../../tenants/b/api/v1/watch/secrets",
	"x/../../../../../metrics",
	"x/../../../../nodes",
	"../../../watch/secrets",
}

var _ = Describe("Names of owners", func() {
	configMaps := func(n tenant.Name) func(ctx context.Context, name string) error {
		client := suite.Client(tenantry.Config(n)).CoreV1().ConfigMaps("default")
		return func(ctx context.Context, name string) error {
			_, err := client.Get(ctx, name, metav1.GetOptions{})
			return err
		}
	}
	dependent := func(name, owner string, uid types.UID) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Namespace: "default",
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner, UID: uid}},
			},
		}
	}

	It("that are paths are refused", func(ctx SpecContext) {
		client := suite.Client(tenantry.Config("a")).CoreV1().ConfigMaps("default")
		for _, path := range paths {
			_, err := client.Create(ctx, dependent("refused", path, "u"), metav1.CreateOptions{})
			Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%s: %v", path, err)
			Expect(err).To(MatchError(ContainSubstring("metadata.ownerReferences[0].name")))
		}
	})

	It("that were stored before stop no collection and tell nothing", func(ctx SpecContext) {
		var planted []string
		for i := range 10 {
			for j, path := range paths {
				object := dependent(fmt.Sprintf("planted-%d-%d", i, j), path, types.UID(fmt.Sprintf("u-%d-%d", i, j)))
				object.UID = types.UID(fmt.Sprintf("planted-%d-%d", i, j))
				object.CreationTimestamp = metav1.Now()
				object.Annotations = map[string]string{tenant.Former(tenant.Annotation): "a"}
				value, err := json.Marshal(object)
				Expect(err).NotTo(HaveOccurred())
				_, err = tenantry.Etcd().Put(ctx, "/registry/configmaps/a/default/"+object.Name, string(value))
				Expect(err).NotTo(HaveOccurred())
				planted = append(planted, object.Name)
			}
		}
		for _, n := range []tenant.Name{"a", "b", tenant.System} {
			client := suite.Client(tenantry.Config(n)).CoreV1().ConfigMaps("default")
			owner, err := client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "owner-"}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			_, err = client.Create(ctx, dependent("of-owner", owner.Name, owner.UID), metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(client.Delete(ctx, owner.Name, metav1.DeleteOptions{})).To(Succeed())
			Eventually(func() error { return configMaps(n)(ctx, "of-owner") }).WithContext(ctx).Should(Satisfy(apierrors.IsNotFound), n.String())
		}
		for _, name := range planted {
			Expect(configMaps("a")(ctx, name)).To(Succeed(), "it neither lives nor dies by what is elsewhere")
		}
		By("deleting what has such an owner")
		client := suite.Client(tenantry.Config("a")).CoreV1().ConfigMaps("default")
		for _, name := range planted {
			Expect(client.Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
		}
	})
})
