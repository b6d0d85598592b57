package published

import (
	"context"
	"fmt"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

var three = resource.MustParse("3")

func clusterAdmin(name, user string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
}

// publish creates a published ConfigMap in the system space.
func publish(ctx context.Context, namespace, name, value string) {
	GinkgoHelper()
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{tenant.PublishedAnnotation: value}},
		Data:       map[string]string{"from": "platform"},
	}
	_, err := tenantry.Client(tenant.System).CoreV1().ConfigMaps(namespace).Create(ctx, object, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// from returns whose object is in a space.
func from(ctx context.Context, n tenant.Name, namespace, name string) func() (string, error) {
	client := tenantry.Client(n).CoreV1().ConfigMaps(namespace)
	return func() (string, error) {
		object, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		return object.Data["from"], nil
	}
}

var _ = Describe("Publishing", func() {
	It("reports in a status that is written for itself", func(ctx SpecContext) {
		reports := objects(tenant.System, v1alpha1.GroupVersion.WithResource("publishedobjects"), "")
		report := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": v1alpha1.GroupVersion.String(), "kind": "PublishedObject", "metadata": map[string]any{"name": "nothing"},
			"object": map[string]any{"resource": "nothings", "name": "n"}, "status": map[string]any{"spaces": 7, "copies": 7, "kept": 0, "failed": 0},
		}}
		created, err := reports.Create(ctx, report, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			Expect(reports.Delete(ctx, "nothing", metav1.DeleteOptions{})).To(Or(Succeed(), MatchError(apierrors.IsNotFound, "not found")))
		})
		both := []byte(`{"object": {"name": "m"}, "status": {"copies": 5}}`)
		content := func(o *unstructured.Unstructured) []any {
			name, _, _ := unstructured.NestedString(o.Object, "object", "name")
			copies, _, _ := unstructured.NestedInt64(o.Object, "status", "copies")
			return []any{name, copies, o.GetGeneration()}
		}
		Expect(content(created)).To(Equal([]any{"n", int64(0), int64(1)}))
		patched, err := reports.Patch(ctx, "nothing", mergePatch, both, metav1.PatchOptions{}, "status")
		Expect(err).NotTo(HaveOccurred())
		Expect(content(patched)).To(Equal([]any{"n", int64(5), int64(1)}))
		patched, err = reports.Patch(ctx, "nothing", mergePatch, []byte(`{"object": {"name": "m"}, "status": {"copies": 6}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(content(patched)).To(Equal([]any{"m", int64(5), int64(2)}))
	}, SpecTimeout(specTimeout))

	It("keeps what a tenant has, reports it, and takes its place as soon as it is gone", func(ctx SpecContext) {
		const namespace = "conflicts"
		keeper := tenants[2]
		own := tenantry.Client(keeper).CoreV1()
		_, err := own.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		for _, name := range []string{"kept", "forced"} {
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"from": "tenant"}}
			_, err := own.ConfigMaps(namespace).Create(ctx, object, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		createNamespace(ctx, namespace)
		publish(ctx, namespace, "kept", "true")
		publish(ctx, namespace, "forced", "force")
		all := countTenants(ctx)
		Eventually(reportOf(ctx, configMaps, namespace, "kept")).Should(Equal(fmt.Sprintf(
			"%d/%d TenantsObjectsKept: copied to %d of %d spaces; 1 have an object of their own there, which is kept (%s)", all-1, all, all-1, all, keeper)))
		Eventually(reportOf(ctx, configMaps, namespace, "forced")).Should(Equal(inAll(all)))
		Expect(from(ctx, keeper, namespace, "kept")()).To(Equal("tenant"))
		Expect(from(ctx, keeper, namespace, "forced")()).To(Equal("platform"))
		Eventually(func(g Gomega) {
			events, err := tenantry.Client(tenant.System).CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=kept,type=Warning"})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(events.Items).To(ContainElement(HaveField("Message", ContainSubstring(keeper.String()))))
		}).Should(Succeed())

		By("keeping the namespace that the tenant has made")
		Expect(own.Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{})).To(beRefused)
		By("letting the tenant edit and then delete its own")
		_, err = own.ConfigMaps(namespace).Patch(ctx, "kept", mergePatch, []byte(`{"data": {"more": "x"}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(own.ConfigMaps(namespace).Delete(ctx, "kept", metav1.DeleteOptions{})).To(Succeed())
		Eventually(from(ctx, keeper, namespace, "kept")).Should(Equal("platform"))
		Eventually(reportOf(ctx, configMaps, namespace, "kept")).Should(Equal(inAll(all)))

		By("giving the namespace back when nothing in it is published")
		for _, name := range []string{"kept", "forced"} {
			Expect(tenantry.Client(tenant.System).CoreV1().ConfigMaps(namespace).Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
		}
		Eventually(func() error { return own.Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}) }).Should(Succeed())
	}, SpecTimeout(specTimeout))

	It("takes the namespaces that it has made away again, unless tenants have something in them", func(ctx SpecContext) {
		const namespace = "made"
		createNamespace(ctx, namespace)
		publish(ctx, namespace, "made", "true")
		all := countTenants(ctx)
		Eventually(copiesOf(ctx, namespaces, namespace)).Should(Equal(all))
		Eventually(copiesOf(ctx, configMaps, "made")).Should(Equal(all))
		own := tenantry.Client(tenants[4]).CoreV1()
		_, err := own.Secrets(namespace).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "own"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(tenantry.Client(tenant.System).CoreV1().ConfigMaps(namespace).Delete(ctx, "made", metav1.DeleteOptions{})).To(Succeed())
		Eventually(func() (int, error) {
			list, err := objects(suite.All, namespaces, "").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + namespace})
			if err != nil {
				return 0, err
			}
			return len(list.Items), nil
		}).Should(Equal(1))
		Expect(copiesOf(ctx, namespaces, namespace)()).To(BeZero())
		_, err = own.Secrets(namespace).Get(ctx, "own", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(own.Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{})).To(Succeed())
	}, SpecTimeout(specTimeout))

	It("takes no namespace away that every space has", func(ctx SpecContext) {
		client := objects(tenant.System, namespaces, "")
		annotate := func(value string) {
			GinkgoHelper()
			patch := `{"metadata": {"annotations": {"` + tenant.PublishedAnnotation + `": ` + value + `}, "labels": {"owner": "platform"}}}`
			_, err := client.Patch(ctx, "kube-public", mergePatch, []byte(patch), metav1.PatchOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		annotate(`"force"`)
		Eventually(copiesOf(ctx, namespaces, "kube-public")).Should(Equal(countTenants(ctx)))
		own := tenantry.Client(tenants[5]).CoreV1().Namespaces()
		before, err := own.Get(ctx, "kube-public", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(before.Labels).To(HaveKeyWithValue("owner", "platform"))
		annotate("null")
		Eventually(reportOf(ctx, namespaces, "", "kube-public")).Should(BeEmpty())
		Expect(copiesOf(ctx, namespaces, "kube-public")()).To(BeZero())
		after, err := own.Get(ctx, "kube-public", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(after.UID).To(Equal(before.UID))
	}, SpecTimeout(specTimeout))

	It("is done in a new space before its Tenant is Ready", func(ctx SpecContext) {
		const namespace, count = "early", 30
		createNamespace(ctx, namespace)
		for i := range count {
			publish(ctx, namespace, fmt.Sprintf("c%d", i), "true")
		}
		for i := range count { // the manager knows of them, and is still copying
			Eventually(reportOf(ctx, configMaps, namespace, fmt.Sprintf("c%d", i))).ShouldNot(BeEmpty())
		}
		var group sync.WaitGroup
		for i := range 5 {
			group.Go(func() {
				defer GinkgoRecover()
				n := tenant.Name(fmt.Sprintf("early-%d", i))
				tenantry.CreateTenants(ctx, n)
				list, err := tenantry.Client(n).CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{LabelSelector: tenant.PublishedCopyLabel})
				Expect(err).NotTo(HaveOccurred())
				Expect(list.Items).To(HaveLen(count))
			})
		}
		group.Wait()
		By("deleting a tenant, which copies do not prevent, and creating it anew")
		for i := range 5 {
			tenantry.DeleteTenant(ctx, tenant.Name(fmt.Sprintf("early-%d", i)))
		}
		tenantry.CreateTenants(ctx, "early-0")
		Expect(from(ctx, "early-0", namespace, "c0")()).To(Equal("platform"))
		tenantry.DeleteTenant(ctx, "early-0")
		Eventually(reportOf(ctx, configMaps, namespace, "c0")).Should(Equal(inAll(countTenants(ctx))))
	}, SpecTimeout(specTimeout))

	It("is not prevented by a tenant's quotas, webhooks and policies", func(ctx SpecContext) {
		const namespace = "obstacles"
		stubborn := tenantry.Client(tenants[3])
		_, err := stubborn.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = stubborn.CoreV1().ResourceQuotas(namespace).Create(ctx, &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: "none"},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/configmaps": resource.MustParse("0")}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = stubborn.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "none"},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{
				Name: "none.example.com", SideEffects: new(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
				ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/")},
				Rules: []admissionregistrationv1.RuleWithOperations{{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
				}},
			}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) { // it would keep namespaces from being deleted
			Expect(stubborn.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(ctx, "none", metav1.DeleteOptions{})).To(Succeed())
		}, NodeTimeout(specTimeout))
		Eventually(func() error {
			_, err := stubborn.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "own-"}}, metav1.CreateOptions{})
			return err
		}).Should(MatchError(ContainSubstring("none.example.com")))
		createNamespace(ctx, namespace)
		publish(ctx, namespace, "policy", "true")
		Eventually(from(ctx, tenants[3], namespace, "policy")).Should(Equal("platform"))
		Expect(tenantry.Client(tenant.System).CoreV1().ConfigMaps(namespace).Delete(ctx, "policy", metav1.DeleteOptions{})).To(Succeed())
		Eventually(func() error {
			_, err := stubborn.CoreV1().ConfigMaps(namespace).Get(ctx, "policy", metav1.GetOptions{})
			return err
		}).Should(MatchError(apierrors.IsNotFound, "not found"))
	}, SpecTimeout(specTimeout))

	It("writes nothing that has not changed", func(ctx SpecContext) {
		const namespace = "still"
		createNamespace(ctx, namespace)
		publish(ctx, namespace, "still", "true")
		Eventually(copiesOf(ctx, configMaps, "still")).Should(BeNumerically(">=", spaceCount))
		versions := func() (versions []string) {
			for _, n := range tenants {
				object, err := tenantry.Client(n).CoreV1().ConfigMaps(namespace).Get(ctx, "still", metav1.GetOptions{})
				Expect(err).NotTo(HaveOccurred())
				versions = append(versions, object.ResourceVersion)
			}
			return versions
		}
		before := versions()
		patch := `{"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}}}`
		_, err := tenantry.Client(tenant.System).CoreV1().ConfigMaps(namespace).Patch(ctx, "still", mergePatch, []byte(patch), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		publish(ctx, namespace, "still-after", "true") // comes after the change has been looked at
		Eventually(copiesOf(ctx, configMaps, "still-after")).Should(BeNumerically(">=", spaceCount))
		Expect(versions()).To(Equal(before))
	}, SpecTimeout(specTimeout))

	It("does not give away credentials of the system space", func(ctx SpecContext) {
		const namespace = "credentials"
		createNamespace(ctx, namespace)
		_, err := tenantry.Client(tenant.System).CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = tenantry.Client(tenant.System).CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "token", Annotations: map[string]string{
				tenant.PublishedAnnotation: "true", corev1.ServiceAccountNameKey: "a",
			}},
			Type: corev1.SecretTypeServiceAccountToken,
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		secrets := corev1.SchemeGroupVersion.WithResource("secrets")
		Eventually(reportOf(ctx, secrets, namespace, "token")).Should(ContainSubstring("never published"))
		Expect(copiesOf(ctx, secrets, "token")()).To(BeZero())
		By("saying so once")
		reports := objects(tenant.System, v1alpha1.GroupVersion.WithResource("publishedobjects"), "")
		before, err := reports.Get(ctx, "secrets.credentials.token", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = tenantry.Client(tenant.System).CoreV1().Secrets(namespace).Patch(ctx, "token", mergePatch, []byte(`{"metadata": {"labels": {"x": "y"}}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		publish(ctx, namespace, "after", "true") // comes after the change has been looked at
		Eventually(copiesOf(ctx, configMaps, "after")).Should(BeNumerically(">=", spaceCount))
		after, err := reports.Get(ctx, "secrets.credentials.token", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(after).To(Equal(before))
	}, SpecTimeout(specTimeout))
})
