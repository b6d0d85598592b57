package published

import (
	"context"
	"strings"

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

const mergePatch = types.MergePatchType

// beRefused matches the refusal of what a tenant must not do to a copy.
var beRefused = MatchError(func(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "that the platform publishes to every space")
}, "refused because of a published object")

var _ = Describe("A copy", Ordered, func() {
	const namespace = "guarded"
	var admin *kubernetes.Clientset

	BeforeAll(func(ctx SpecContext) {
		admin = tenantry.Client(tenants[1])
		createNamespace(ctx, namespace)
		system := tenantry.Client(tenant.System).CoreV1()
		_, err := system.ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "policy", Annotations: isPublished, Labels: map[string]string{"l": "v"}}, Data: map[string]string{"k": "v"},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = system.ConfigMaps("default").Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "policy", Annotations: isPublished},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = system.ResourceQuotas(namespace).Create(ctx, &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: "quota", Annotations: isPublished},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/secrets": three}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			Expect(system.ConfigMaps("default").Delete(ctx, "policy", metav1.DeleteOptions{})).To(Succeed())
		}, NodeTimeout(specTimeout))
		Eventually(func(g Gomega) {
			for _, ns := range []string{namespace, "default"} {
				_, err := admin.CoreV1().ConfigMaps(ns).Get(ctx, "policy", metav1.GetOptions{})
				g.Expect(err).NotTo(HaveOccurred())
			}
			_, err := admin.CoreV1().ResourceQuotas(namespace).Get(ctx, "quota", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
		}).Should(Succeed())
	}, NodeTimeout(specTimeout))

	patch := func(kind types.PatchType, body string, subresources ...string) func(context.Context) error {
		return func(ctx context.Context) error {
			options := metav1.PatchOptions{}
			if kind == types.ApplyPatchType {
				options = metav1.PatchOptions{FieldManager: "tenant", Force: new(true)}
			}
			_, err := admin.CoreV1().ConfigMaps(namespace).Patch(ctx, "policy", kind, []byte(body), options, subresources...)
			return err
		}
	}
	DescribeTable("is changed by no tenant", func(ctx SpecContext, change func(context.Context) error) {
		before, err := admin.CoreV1().ConfigMaps(namespace).Get(ctx, "policy", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(change(ctx)).To(beRefused)
		after, err := admin.CoreV1().ConfigMaps(namespace).Get(ctx, "policy", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(after).To(Equal(before))
	},
		Entry("by an update", func(ctx context.Context) error {
			object, err := admin.CoreV1().ConfigMaps(namespace).Get(ctx, "policy", metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			object.Data["k"] = "w"
			_, err = admin.CoreV1().ConfigMaps(namespace).Update(ctx, object, metav1.UpdateOptions{})
			return err
		}),
		Entry("by an update without marks", func(ctx context.Context) error {
			_, err := admin.CoreV1().ConfigMaps(namespace).Update(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "policy"}}, metav1.UpdateOptions{})
			return err
		}),
		Entry("by an update that is a dry run", func(ctx context.Context) error {
			_, err := admin.CoreV1().ConfigMaps(namespace).Update(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "policy"}},
				metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}),
		Entry("by a merge patch", patch(types.MergePatchType, `{"data": {"k": "w"}}`)),
		Entry("by a strategic patch", patch(types.StrategicMergePatchType, `{"data": {"k": "w"}}`)),
		Entry("by a JSON patch", patch(types.JSONPatchType, `[{"op": "replace", "path": "/data/k", "value": "w"}]`)),
		Entry("by server-side apply", patch(types.ApplyPatchType, `{"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "w"}}`)),
		Entry("by a finalizer", patch(types.MergePatchType, `{"metadata": {"finalizers": ["example.com/stay"]}}`)),
		Entry("by an owner", patch(types.MergePatchType,
			`{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "0a1b"}]}}`)),
		Entry("by a label", patch(types.MergePatchType, `{"metadata": {"labels": {"l": "w"}}}`)),
		Entry("by removing the mark", patch(types.MergePatchType, `{"metadata": {"labels": {"`+tenant.PublishedCopyLabel+`": null}}}`)),
		Entry("by changing the mark", patch(types.MergePatchType, `{"metadata": {"labels": {"`+tenant.PublishedCopyLabel+`": "namespace"}}}`)),
		Entry("by removing where it is from", patch(types.MergePatchType, `{"metadata": {"annotations": {"`+tenant.PublishedFromAnnotation+`": null}}}`)),
		Entry("by its deletion", func(ctx context.Context) error {
			return admin.CoreV1().ConfigMaps(namespace).Delete(ctx, "policy", metav1.DeleteOptions{})
		}),
		Entry("by its deletion at once", func(ctx context.Context) error {
			return admin.CoreV1().ConfigMaps(namespace).Delete(ctx, "policy", *metav1.NewDeleteOptions(0))
		}),
		Entry("by the deletion of a collection", func(ctx context.Context) error {
			return admin.CoreV1().ConfigMaps(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "l=v"})
		}),
		Entry("by the deletion of its namespace", func(ctx context.Context) error {
			return admin.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{})
		}),
		Entry("by finalizing its namespace", func(ctx context.Context) error {
			object, err := admin.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			object.Spec.Finalizers = append(object.Spec.Finalizers, "example.com/hold")
			_, err = admin.CoreV1().Namespaces().Finalize(ctx, object, metav1.UpdateOptions{})
			return err
		}),
		Entry("by relabelling its namespace", func(ctx context.Context) error {
			_, err := admin.CoreV1().Namespaces().Patch(ctx, namespace, mergePatch, []byte(`{"metadata": {"labels": {"x": "y"}}}`), metav1.PatchOptions{})
			return err
		}),
		Entry("nor by a system administrator in the space", func(ctx context.Context) error {
			client := suite.Client(tenantry.In(tenants[1], tenantry.Config(tenant.System)))
			return client.CoreV1().ConfigMaps(namespace).Delete(ctx, "policy", metav1.DeleteOptions{})
		}),
	)

	It("is there for no user of a tenant with the publisher's name, for there can be none", func(ctx SpecContext) {
		_, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, clusterAdmin("publisher", tenant.Publisher), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		impersonating := tenantry.Config(tenants[1])
		impersonating.Impersonate.UserName = tenant.Publisher
		impersonating.Impersonate.Groups = []string{"system:authenticated"}
		client := suite.Client(impersonating)
		_, err = client.CoreV1().ConfigMaps(namespace).Get(ctx, "policy", metav1.GetOptions{})
		Expect(err).To(MatchError(ContainSubstring("is reserved")))
		Expect(client.CoreV1().ConfigMaps(namespace).Delete(ctx, "policy", metav1.DeleteOptions{})).To(MatchError(ContainSubstring("is reserved")))
	})

	It("keeps the status that the tenant would write and has the one of the platform", func(ctx SpecContext) {
		quotas := admin.CoreV1().ResourceQuotas(namespace)
		quota, err := quotas.Get(ctx, "quota", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		quota.Status.Hard = corev1.ResourceList{}
		_, err = quotas.UpdateStatus(ctx, quota, metav1.UpdateOptions{})
		Expect(err).To(beRefused)
		_, err = admin.CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "used"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() (string, error) {
			quota, err := quotas.Get(ctx, "quota", metav1.GetOptions{})
			used := quota.Status.Used["count/secrets"]
			return used.String(), err
		}).Should(Equal("1"))
	}, SpecTimeout(specTimeout))

	It("leaves a tenant's own namespace to the tenant, but for its deletion", func(ctx SpecContext) {
		client := admin.CoreV1().Namespaces()
		_, err := client.Patch(ctx, "default", mergePatch, []byte(`{"metadata": {"labels": {"x": "y"}}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = client.Patch(ctx, "default", mergePatch, []byte(`{"metadata": {"labels": {"`+tenant.PublishedCopyLabel+`": null}}}`), metav1.PatchOptions{})
		Expect(err).To(MatchError(ContainSubstring("are the platform's")))
	}, SpecTimeout(specTimeout))

	DescribeTable("cannot be forged", func(ctx SpecContext, labels, annotations map[string]string) {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "forged", Labels: labels, Annotations: annotations}}
		_, err := admin.CoreV1().ConfigMaps("default").Create(ctx, object, metav1.CreateOptions{})
		Expect(err).To(MatchError(apierrors.IsForbidden, "forbidden"))
		Expect(err).To(MatchError(ContainSubstring("are the platform's")))
	},
		Entry("by the label", map[string]string{tenant.PublishedCopyLabel: "true"}, nil),
		Entry("by the label of a namespace", map[string]string{tenant.PublishedCopyLabel: "namespace"}, nil),
		Entry("by an empty label", map[string]string{tenant.PublishedCopyLabel: ""}, nil),
		Entry("by the annotation", nil, map[string]string{tenant.PublishedFromAnnotation: "0a1b/00"}),
	)

	It("is written by the publisher, whom the manager impersonates with the credentials of a system administrator", func(ctx SpecContext) {
		operator := tenantry.In(tenants[1], tenantry.Config(tenant.System))
		operator.Impersonate.UserName, operator.Impersonate.Groups = tenant.Publisher, []string{"system:masters"}
		_, err := suite.Client(operator).CoreV1().ConfigMaps(namespace).Patch(ctx, "policy", mergePatch, []byte(`{"data": {"k": "v"}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
	}, SpecTimeout(specTimeout))

	It("is written by nobody whose credentials have the publisher's name", func(ctx SpecContext) {
		named := tenantry.User(tenant.System, tenant.Publisher, "system:masters")
		_, err := suite.Client(named).CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		Expect(err).To(MatchError(apierrors.IsUnauthorized, "unauthorized"))
	}, SpecTimeout(specTimeout))
})
