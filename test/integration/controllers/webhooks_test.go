package controllers

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

// prompt is how long controllers may take for a tenant while another's webhooks hang. It
// is less than one such webhook may keep a worker (timeoutSeconds).
const (
	prompt         = 20 * time.Second
	timeoutSeconds = 30
)

// silence is a webhook that takes requests and never answers.
type silence struct {
	url string
	ca  []byte
	// asked is closed when somebody has asked.
	asked chan struct{}
}

func newSilence() silence {
	s := silence{asked: make(chan struct{})}
	end, once := make(chan struct{}), sync.Once{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		once.Do(func() { close(s.asked) })
		<-end
	}))
	DeferCleanup(func() {
		close(end)
		server.Close()
	})
	s.url = server.URL
	s.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return s
}

// hang has all operations on resources wait for a webhook that does not answer.
func hang(ctx context.Context, n tenant.Name, operation admissionregistrationv1.OperationType, groups []string, resources ...string) silence {
	GinkgoHelper()
	webhook := newSilence()
	_, err := client(n).AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "hanging-"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:                    "hanging.example.com",
			AdmissionReviewVersions: []string{"v1"},
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			FailurePolicy:           ptr.To(admissionregistrationv1.Fail),
			TimeoutSeconds:          ptr.To[int32](timeoutSeconds),
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: &webhook.url, CABundle: webhook.ca},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{operation},
				Rule:       admissionregistrationv1.Rule{APIGroups: groups, APIVersions: []string{"*"}, Resources: resources},
			}},
		}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return webhook
}

// hangOften has all operations on a resource wait for some webhooks that do not answer,
// one after the other, as mutating ones do.
func hangOften(ctx context.Context, n tenant.Name, operation admissionregistrationv1.OperationType, resource string) silence {
	GinkgoHelper()
	const webhooks = 5
	webhook := newSilence()
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{GenerateName: "hanging-"}}
	for i := range webhooks {
		configuration.Webhooks = append(configuration.Webhooks, admissionregistrationv1.MutatingWebhook{
			Name:                    fmt.Sprintf("hanging-%d.example.com", i),
			AdmissionReviewVersions: []string{"v1"},
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			FailurePolicy:           ptr.To(admissionregistrationv1.Ignore),
			TimeoutSeconds:          ptr.To[int32](timeoutSeconds),
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: &webhook.url, CABundle: webhook.ca},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{operation},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"*"}, Resources: []string{resource}},
			}},
		})
	}
	_, err := client(n).AdmissionregistrationV1().MutatingWebhookConfigurations().Create(ctx, configuration, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return webhook
}

var _ = Describe("Webhooks that hang", func() {
	const many = 40
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "x"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}},
	}
	selector := &metav1.LabelSelector{MatchLabels: template.Labels}
	// served checks that the controllers do for a tenant what they do in between.
	served := func(ctx context.Context, n tenant.Name) {
		GinkgoHelper()
		_, err := client(n).AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec:       appsv1.DeploymentSpec{Replicas: ptr.To[int32](5), Selector: selector, Template: template},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() (int, error) {
			pods, err := client(n).CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=x"})
			if err != nil {
				return 0, err
			}
			return len(pods.Items), nil
		}).WithContext(ctx).WithTimeout(prompt).Should(Equal(5))
	}
	serviceAccountIn := func(ctx context.Context, n tenant.Name, namespace string) func() error {
		return func() error {
			_, err := client(n).CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
			return err
		}
	}
	namespace := func(ctx context.Context, n tenant.Name, name string) {
		GinkgoHelper()
		_, err := client(n).CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
	isGone := func(ctx context.Context, get func(context.Context) error) func() bool {
		return func() bool { return apierrors.IsNotFound(get(ctx)) }
	}

	It("keep no pods from another tenant's Deployment", func(ctx SpecContext) {
		slow, other := tenantry.NewTenant(ctx, "slow"), tenantry.NewTenant(ctx, "other")
		webhook := hang(ctx, slow, admissionregistrationv1.Create, []string{""}, "pods")
		for i := range many {
			_, err := client(slow).AppsV1().ReplicaSets("default").Create(ctx, &appsv1.ReplicaSet{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("set-%d", i)},
				Spec:       appsv1.ReplicaSetSpec{Replicas: ptr.To[int32](3), Selector: selector, Template: template},
			}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		Eventually(webhook.asked).WithContext(ctx).Should(BeClosed())
		served(ctx, other)
	}, SpecTimeout(3*time.Minute))

	It("keep no service accounts from another tenant's namespaces", func(ctx SpecContext) {
		slow, other := tenantry.NewTenant(ctx, "slow"), tenantry.NewTenant(ctx, "other")
		webhook := hang(ctx, slow, admissionregistrationv1.Create, []string{""}, "serviceaccounts", "configmaps")
		for i := range many {
			namespace(ctx, slow, fmt.Sprintf("ns-%d", i))
		}
		Eventually(webhook.asked).WithContext(ctx).Should(BeClosed())
		namespace(ctx, other, "new")
		Eventually(serviceAccountIn(ctx, other, "new")).WithContext(ctx).WithTimeout(prompt).Should(Succeed())
		Eventually(func() error {
			_, err := client(other).CoreV1().ConfigMaps("new").Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
			return err
		}).WithContext(ctx).WithTimeout(prompt).Should(Succeed())
	}, SpecTimeout(3*time.Minute))

	It("keep no other tenant's namespaces and garbage", func(ctx SpecContext) {
		slow, other := tenantry.NewTenant(ctx, "slow"), tenantry.NewTenant(ctx, "other")
		owner := func(n tenant.Name, name string, dependents int) func() {
			configMaps := client(n).CoreV1().ConfigMaps("default")
			created, err := configMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			for i := range dependents {
				_, err := client(n).CoreV1().Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
					Name:            fmt.Sprintf("%s-%d", name, i),
					OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: created.UID}},
				}}, metav1.CreateOptions{})
				Expect(err).NotTo(HaveOccurred())
			}
			return func() { Expect(configMaps.Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed()) }
		}
		deleteOwner := owner(slow, "owner", 2*many)
		for i := range many {
			name := fmt.Sprintf("ns-%d", i)
			namespace(ctx, slow, name)
			_, err := client(slow).CoreV1().Secrets(name).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		namespace(ctx, other, "gone")
		deleteOther := owner(other, "owner", 1)
		webhook := hang(ctx, slow, admissionregistrationv1.Delete, []string{""}, "secrets")
		deleteOwner()
		for i := range many {
			Expect(client(slow).CoreV1().Namespaces().Delete(ctx, fmt.Sprintf("ns-%d", i), metav1.DeleteOptions{})).To(Succeed())
		}
		Eventually(webhook.asked).WithContext(ctx).Should(BeClosed())
		deleteOther()
		Expect(client(other).CoreV1().Namespaces().Delete(ctx, "gone", metav1.DeleteOptions{})).To(Succeed())
		Eventually(isGone(ctx, func(ctx context.Context) error {
			_, err := client(other).CoreV1().Secrets("default").Get(ctx, "owner-0", metav1.GetOptions{})
			return err
		})).WithContext(ctx).WithTimeout(prompt).Should(BeTrue(), "garbage")
		Eventually(isGone(ctx, func(ctx context.Context) error {
			_, err := client(other).CoreV1().Namespaces().Get(ctx, "gone", metav1.GetOptions{})
			return err
		})).WithContext(ctx).WithTimeout(prompt).Should(BeTrue(), "namespace")
	}, SpecTimeout(4*time.Minute))

	It("keep no endpoints from another tenant's Services", func(ctx SpecContext) {
		slow, other := tenantry.NewTenant(ctx, "slow"), tenantry.NewTenant(ctx, "other")
		service := func(n tenant.Name, name string) {
			_, err := client(n).CoreV1().Services("default").Create(ctx, &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec:       corev1.ServiceSpec{Selector: template.Labels, Ports: []corev1.ServicePort{{Port: 80}}},
			}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		webhook := hangOften(ctx, slow, admissionregistrationv1.Create, "endpoints")
		for i := range many {
			service(slow, fmt.Sprintf("web-%d", i))
		}
		Eventually(webhook.asked).WithContext(ctx).Should(BeClosed())
		service(other, "web")
		Eventually(func() error {
			_, err := client(other).CoreV1().Endpoints("default").Get(ctx, "web", metav1.GetOptions{})
			return err
		}).WithContext(ctx).WithTimeout(prompt).Should(Succeed())
	}, SpecTimeout(3*time.Minute))

	It("keep no garbage of another tenant while the pods of one owner are collected", func(ctx SpecContext) {
		const pods = 3 * many
		slow, other := tenantry.NewTenant(ctx, "slow"), tenantry.NewTenant(ctx, "other")
		owner := func(n tenant.Name, pods int) func() {
			configMaps := client(n).CoreV1().ConfigMaps("default")
			created, err := configMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			Eventually(serviceAccountIn(ctx, n, "default")).WithContext(ctx).Should(Succeed())
			for i := range pods {
				_, err := client(n).CoreV1().Pods("default").Create(ctx, &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p-%d", i), OwnerReferences: []metav1.OwnerReference{{
						APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: created.UID, Controller: ptr.To(true),
					}}},
					Spec: template.Spec,
				}, metav1.CreateOptions{})
				Expect(err).NotTo(HaveOccurred())
			}
			return func() { Expect(configMaps.Delete(ctx, "owner", metav1.DeleteOptions{})).To(Succeed()) }
		}
		deleteOwner, deleteOther := owner(slow, pods), owner(other, 1)
		webhook := hangOften(ctx, slow, admissionregistrationv1.Delete, "pods")
		deleteOwner()
		Eventually(webhook.asked).WithContext(ctx).Should(BeClosed())
		deleteOther()
		Eventually(isGone(ctx, func(ctx context.Context) error {
			_, err := client(other).CoreV1().Pods("default").Get(ctx, "p-0", metav1.GetOptions{})
			return err
		})).WithContext(ctx).WithTimeout(prompt).Should(BeTrue())
	}, SpecTimeout(4*time.Minute))

	It("of a conversion keep nothing from other tenants", func(ctx SpecContext) {
		const namespaces = 3 * many // half of them are emptied in the version that is stored first
		slow, other := tenantry.NewTenant(ctx, "slow"), tenantry.NewTenant(ctx, "other")
		resource := schema.GroupVersionResource{Group: "hanging.test", Version: "v1", Resource: "knots"}
		webhook := newSilence()
		definition := suite.NewDefinition(resource, "Knot", apiextensionsv1.NamespaceScoped)
		second := *definition.Spec.Versions[0].DeepCopy()
		second.Name, second.Storage = "v2", false
		definition.Spec.Versions = append(definition.Spec.Versions, second)
		definition.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
			Strategy: apiextensionsv1.WebhookConverter,
			Webhook: &apiextensionsv1.WebhookConversion{
				ConversionReviewVersions: []string{"v1"},
				ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: &webhook.url, CABundle: webhook.ca},
			},
		}
		_, err := suite.Definitions(configIn(slow)).Create(ctx, definition, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		knots := suite.Dynamic(configIn(slow)).Resource(resource)
		for i := range namespaces {
			name := fmt.Sprintf("ns-%d", i)
			namespace(ctx, slow, name)
			knot := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "hanging.test/v1", "kind": "Knot", "metadata": map[string]any{"name": "k"}}}
			Eventually(func() error {
				_, err := knots.Namespace(name).Create(ctx, knot, metav1.CreateOptions{})
				return err
			}).WithContext(ctx).Should(Succeed())
		}
		for i := range namespaces {
			Expect(client(slow).CoreV1().Namespaces().Delete(ctx, fmt.Sprintf("ns-%d", i), metav1.DeleteOptions{})).To(Succeed())
		}
		Eventually(webhook.asked).WithContext(ctx).Should(BeClosed())

		By("deleting a namespace of another tenant, and collecting what it defines")
		namespace(ctx, other, "gone")
		gears := schema.GroupVersionResource{Group: "hanging.test", Version: "v1", Resource: "gears"}
		_, err = suite.Definitions(configIn(other)).Create(ctx, suite.NewDefinition(gears, "Gear", apiextensionsv1.NamespaceScoped), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(client(other).CoreV1().Namespaces().Delete(ctx, "gone", metav1.DeleteOptions{})).To(Succeed())
		Eventually(isGone(ctx, func(ctx context.Context) error {
			_, err := client(other).CoreV1().Namespaces().Get(ctx, "gone", metav1.GetOptions{})
			return err
		})).WithContext(ctx).WithTimeout(prompt).Should(BeTrue(), "namespace")
		gear := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "hanging.test/v1", "kind": "Gear", "metadata": map[string]any{
			"name": "g", "ownerReferences": []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "nobody"}},
		}}}
		gearsOfOther := suite.Dynamic(configIn(other)).Resource(gears).Namespace("default")
		Eventually(func() error {
			_, err := gearsOfOther.Create(ctx, gear, metav1.CreateOptions{})
			return err
		}).WithContext(ctx).Should(Succeed())
		Eventually(isGone(ctx, func(ctx context.Context) error {
			_, err := gearsOfOther.Get(ctx, "g", metav1.GetOptions{})
			return err
		})).WithContext(ctx).WithTimeout(collected).Should(BeTrue(), "custom resource")
	}, SpecTimeout(4*time.Minute))
})
