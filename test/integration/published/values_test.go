package published

import (
	"bytes"
	"fmt"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

// heard collects the warnings of answers.
type heard struct {
	mu    sync.Mutex
	texts []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (h *heard) HandleWarningHeader(_ int, _, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.texts = append(h.texts, text)
}

// take returns what was heard since it was called last.
func (h *heard) take() (texts []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	texts, h.texts = h.texts, nil
	return texts
}

var _ = Describe("The annotation that publishes", func() {
	configMap := func(name, value string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{tenant.PublishedAnnotation: value}}}
	}

	It("has three values, and every other one is refused with the way out", func(ctx SpecContext) {
		const namespace = "values"
		createNamespace(ctx, namespace)
		core := tenantry.Client(tenant.System).CoreV1()
		_, err := core.ConfigMaps(namespace).Create(ctx, configMap("o", "false"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		for _, value := range []string{"no", "0", "yes", "", "True", "force "} {
			_, err := core.ConfigMaps(namespace).Create(ctx, configMap("new", value), metav1.CreateOptions{})
			Expect(err).To(MatchError(apierrors.IsInvalid, "invalid"), "create %q", value)
			patch := fmt.Appendf(nil, `{"metadata": {"annotations": {%q: %q}}}`, tenant.PublishedAnnotation, value)
			_, err = core.ConfigMaps(namespace).Patch(ctx, "o", mergePatch, patch, metav1.PatchOptions{})
			Expect(err).To(MatchError(And(
				ContainSubstring("metadata.annotations["+tenant.PublishedAnnotation+"]"),
				ContainSubstring(`must be "true" to publish the object, "force" to replace what tenants have of that name as well, or "false"`))), "patch %q", value)
			_, err = core.Services(namespace).Create(ctx, &corev1.Service{
				ObjectMeta: configMap("never-copied", value).ObjectMeta,
				Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
			}, metav1.CreateOptions{})
			Expect(err).To(MatchError(apierrors.IsInvalid, "invalid"), "create a Service with %q", value)
			_, err = core.Pods(namespace).Create(ctx, &corev1.Pod{
				ObjectMeta: configMap("never-copied", value).ObjectMeta,
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			}, metav1.CreateOptions{})
			Expect(err).To(MatchError(apierrors.IsInvalid, "invalid"), "create a Pod with %q", value)
		}
	}, SpecTimeout(specTimeout))

	It("publishes nothing by a value from before, and the report says so", func(ctx SpecContext) {
		const namespace = "earlier"
		createNamespace(ctx, namespace)
		publish(ctx, namespace, "secret", "true")
		Eventually(copiesOf(ctx, configMaps, "secret")).Should(Equal(countTenants(ctx)))
		By("storing what an earlier server has accepted")
		key := "/registry/configmaps/" + namespace + "/secret"
		stored, err := tenantry.Etcd().Get(ctx, key)
		Expect(err).NotTo(HaveOccurred())
		Expect(stored.Kvs).To(HaveLen(1))
		pair := func(value string) []byte { return append([]byte(tenant.PublishedAnnotation+"\x12\x04"), value...) }
		Expect(bytes.Contains(stored.Kvs[0].Value, pair("true"))).To(BeTrue())
		_, err = tenantry.Etcd().Put(ctx, key, string(bytes.ReplaceAll(stored.Kvs[0].Value, pair("true"), pair("nope"))))
		Expect(err).NotTo(HaveOccurred())
		Eventually(copiesOf(ctx, configMaps, "secret")).Should(BeZero())
		Eventually(reportOf(ctx, configMaps, namespace, "secret")).Should(ContainSubstring(`NotPublishable: annotation multi-tenancy.k8s.io/published has the value "nope", which publishes nothing`))
		By("editing it otherwise")
		core := tenantry.Client(tenant.System).CoreV1()
		_, err = core.ConfigMaps(namespace).Patch(ctx, "secret", mergePatch, []byte(`{"data": {"k": "v"}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		By("making it valid")
		_, err = core.ConfigMaps(namespace).Patch(ctx, "secret", mergePatch,
			fmt.Appendf(nil, `{"metadata": {"annotations": {%q: "true"}}}`, tenant.PublishedAnnotation), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		all := countTenants(ctx)
		Eventually(copiesOf(ctx, configMaps, "secret")).Should(Equal(all))
		Eventually(reportOf(ctx, configMaps, namespace, "secret")).Should(Equal(inAll(all)))
	}, SpecTimeout(specTimeout))

	It("is answered with a warning where it publishes nothing", func(ctx SpecContext) {
		const namespace = "warned"
		createNamespace(ctx, namespace)
		said := &heard{}
		config := rest.CopyConfig(tenantry.Config(tenant.System))
		config.WarningHandler = said
		core := suite.Client(config).CoreV1()
		annotations := map[string]string{tenant.PublishedAnnotation: "true"}
		_, err := core.Services(namespace).Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "never", Annotations: annotations}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(said.take()).To(ConsistOf(ContainSubstring("its endpoints are those of one space")))
		_, err = core.ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "unlisted", Annotations: annotations}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(said.take()).To(ConsistOf(ContainSubstring("serviceaccounts is not among the publishable resources")))
		_, err = core.Secrets(namespace).Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "token", Annotations: map[string]string{tenant.PublishedAnnotation: "true", corev1.ServiceAccountNameKey: "unlisted"}},
			Type:       corev1.SecretTypeServiceAccountToken,
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(said.take()).To(ConsistOf(ContainSubstring("credentials of the system space, which are never published")))
		_, err = core.ConfigMaps(namespace).Create(ctx, configMap("listed", "true"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(said.take()).To(BeEmpty())
	}, SpecTimeout(specTimeout))
})
