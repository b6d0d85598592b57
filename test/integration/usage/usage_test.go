package usage

import (
	"context"
	"maps"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

var _ = Describe("What a tenant has stored", func() {
	It("rises and falls with what is written in its space, and in no other", func(ctx SpecContext) {
		one, two := newSpace(ctx), newSpace(ctx)
		before, other := one.settled(ctx), two.settled(ctx)
		Expect(before.Objects).To(BeNumerically(">", 0))

		one.fill(ctx, 3, 1000)
		filled := one.settled(ctx)
		Expect(filled.Objects).To(Equal(before.Objects + 3))
		Expect(filled.Bytes).To(BeNumerically(">", before.Bytes+3*1000))

		_, err := one.CoreV1().ConfigMaps("default").Patch(ctx, "filled-0", types.MergePatchType, []byte(`{"data":{"x":""}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		shrunk := one.settled(ctx)
		Expect(shrunk.Objects).To(Equal(filled.Objects))
		Expect(shrunk.Bytes).To(BeNumerically("<", filled.Bytes-900))

		Expect(one.CoreV1().ConfigMaps("default").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name!=kube-root-ca.crt"})).To(Succeed())
		Expect(one.settled(ctx)).To(Equal(before))
		Expect(two.settled(ctx)).To(Equal(other))
	}, SpecTimeout(specTimeout))

	DescribeTable("includes its custom resources", func(ctx SpecContext, kind string, published bool) {
		s := newSpace(ctx)
		definedIn := s.name
		if published {
			definedIn = tenant.System
		}
		define(ctx, definedIn, kind)
		resource := resourceOf(kind)
		custom := suite.Dynamic(tenantry.Config(s.name)).Resource(resource)
		Eventually(func() error {
			_, err := custom.List(ctx, metav1.ListOptions{})
			return err
		}).Should(Succeed())
		before := s.settled(ctx)
		for _, name := range []string{"a", "b"} {
			object := &unstructured.Unstructured{}
			object.SetGroupVersionKind(resource.GroupVersion().WithKind(kind))
			object.SetName(name)
			_, err := custom.Create(ctx, object, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(s.settled(ctx).Objects).To(Equal(before.Objects + 2))
		Expect(custom.Delete(ctx, "a", metav1.DeleteOptions{})).To(Succeed())
		Expect(s.settled(ctx).Objects).To(Equal(before.Objects + 1))
	},
		Entry("that it defines", "Widget", false, SpecTimeout(specTimeout)),
		Entry("of a published definition", "Gadget", true, SpecTimeout(specTimeout)),
	)

	It("has series for the largest tenants, which end with the tenant, and one for all others", func(ctx SpecContext) {
		large, larger, small := newSpace(ctx), newSpace(ctx), newSpace(ctx)
		large.fill(ctx, 2, 100_000)
		larger.fill(ctx, 3, 100_000)
		objects := map[string]int64{
			labeled(large.name): large.settled(ctx).Objects, labeled(larger.name): larger.settled(ctx).Objects,
			labeled("_other"): small.settled(ctx).Objects,
		}
		Eventually(metrics).WithContext(ctx).WithArguments("tenantry_tenant_objects").Should(Equal(objects))
		bytes := metrics(ctx, "tenantry_tenant_stored_bytes")
		Expect(bytes).To(HaveKeyWithValue(labeled(larger.name), larger.inEtcd(ctx).Bytes))
		Expect(sum(bytes)).To(Equal(large.inEtcd(ctx).Bytes + larger.inEtcd(ctx).Bytes + small.inEtcd(ctx).Bytes))

		tenantry.DeleteTenant(ctx, larger.name)
		Eventually(func(g Gomega) {
			for _, name := range []string{"objects", "stored_bytes", "requests_total", "watches"} {
				g.Expect(metrics(ctx, "tenantry_tenant_"+name)).NotTo(HaveKey(ContainSubstring(labeled(larger.name))))
			}
			g.Expect(slices.Sorted(maps.Keys(metrics(ctx, "tenantry_tenant_objects")))).To(ConsistOf(
				labeled(large.name), labeled(small.name), labeled("_other")))
			g.Expect(metrics(ctx, "tenantry_tenant_quota_hard")).NotTo(HaveKey(ContainSubstring(labeled(larger.name))))
		}).Should(Succeed())
	}, SpecTimeout(specTimeout))
})

var _ = Describe("What a tenant uses of its quota", func() {
	It("has series for the tenants with the least room", func(ctx SpecContext) {
		full, _, _ := newSpace(ctx), newSpace(ctx), newSpace(ctx)
		Expect(tenantry.SetSpec(ctx, full.name, "quota", `{"configmaps":"7"}`)).To(Succeed())
		Eventually(metrics).WithContext(ctx).WithArguments("tenantry_tenant_quota_hard").Should(
			HaveKeyWithValue(`resource="configmaps",`+labeled(full.name), BeEquivalentTo(7)))
		root := metrics(ctx, "tenantry_tenant_quota_used")[`resource="configmaps",`+labeled(full.name)]
		full.fill(ctx, 3, 10)
		Eventually(metrics).WithContext(ctx).WithArguments("tenantry_tenant_quota_used").Should(
			HaveKeyWithValue(`resource="configmaps",`+labeled(full.name), root+3))
		Expect(metrics(ctx, "tenantry_tenant_quota_hard")).To(HaveKey(ContainSubstring(labeled("_other"))))
	}, SpecTimeout(specTimeout))
})

var _ = Describe("The status of a Tenant", func() {
	It("says how many requests its users have made", func(ctx SpecContext) {
		s := newSpace(ctx)
		s.settled(ctx)
		before := s.read(ctx).Status.Usage.Requests
		for range 7 {
			_, err := s.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		requests := func() int64 { return s.read(ctx).Status.Usage.Requests }
		Eventually(requests).Should(Equal(before + 7))
	}, SpecTimeout(specTimeout))

	It("is not written while the tenant is idle", func(ctx SpecContext) {
		idle, active := newSpace(ctx), newSpace(ctx)
		idle.settled(ctx)
		active.settled(ctx)
		Eventually(func() any { return idle.read(ctx).Status.Quota }).ShouldNot(BeNil())
		version := idle.read(ctx).ResourceVersion
		for range 3 {
			requests := active.read(ctx).Status.Usage.Requests
			_, err := active.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
			Expect(err).NotTo(HaveOccurred())
			Eventually(func() int64 { return active.read(ctx).Status.Usage.Requests }).Should(BeNumerically(">", requests))
		}
		Expect(idle.read(ctx).ResourceVersion).To(Equal(version))
	}, SpecTimeout(specTimeout))
})

func resourceOf(kind string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: strings.ToLower(kind) + "s"}
}

// define defines a kind without namespaces and, in the system space, publishes it.
func define(ctx context.Context, n tenant.Name, kind string) {
	GinkgoHelper()
	definition := suite.NewDefinition(resourceOf(kind), kind, apiextensionsv1.ClusterScoped)
	definition.Annotations = map[string]string{tenant.PublishedAnnotation: "true"}
	_, err := suite.Definitions(tenantry.Config(n)).Create(ctx, definition, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}
