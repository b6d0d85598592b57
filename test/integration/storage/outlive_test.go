package storage

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

// slowHook is a webhook that allows everything, once it is released.
type slowHook struct {
	*httptest.Server
	called, release chan struct{}
}

func newSlowHook() *slowHook {
	h := &slowHook{called: make(chan struct{}, 10), release: make(chan struct{})}
	h.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		review := admissionv1.AdmissionReview{}
		if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		h.called <- struct{}{}
		select {
		case <-h.release:
		case <-req.Context().Done():
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(review); err != nil {
			GinkgoLogr.Error(err, "answering the review")
		}
	}))
	DeferCleanup(h.Close)
	return h
}

var _ = Describe("A request that outlives its tenant", func() {
	const n = tenant.Name("outlived")

	It("ends, if it is a watch, and shows nothing of the next tenant of the name", func(ctx SpecContext) {
		tenantry.CreateTenants(ctx, "watched")
		secrets, err := tenantry.Client("watched").CoreV1().Secrets("").Watch(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(secrets.Stop)
		tenantry.DeleteTenant(ctx, "watched")
		tenantry.CreateTenants(ctx, "watched")
		DeferCleanup(func(ctx SpecContext) { tenantry.DeleteTenant(ctx, "watched") })
		_, err = tenantry.Client("watched").CoreV1().Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "of-the-next"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		for {
			select {
			case event, open := <-secrets.ResultChan():
				if !open {
					return
				}
				object, err := meta.Accessor(event.Object)
				Expect(err).NotTo(HaveOccurred())
				Expect(object.GetName()).NotTo(Equal("of-the-next"))
			case <-ctx.Done():
				Fail("the watch does not end")
			}
		}
	}, SpecTimeout(timeout))

	It("finds nothing of the earlier tenant of the name by the resource versions of its time", func(ctx SpecContext) {
		const n = tenant.Name("historic")
		widgets := schema.GroupVersionResource{Group: "history.example.com", Version: "v1", Resource: "widgets"}
		resources := []schema.GroupVersionResource{
			widgets, corev1.SchemeGroupVersion.WithResource("secrets"), corev1.SchemeGroupVersion.WithResource("events"), corev1.SchemeGroupVersion.WithResource("namespaces"),
		}
		begin := func() dynamic.Interface {
			tenantry.CreateTenants(ctx, n)
			_, err := suite.Definitions(tenantry.Config(n)).Create(ctx, suite.NewDefinition(widgets, "Widget", apiextensionsv1.NamespaceScoped), metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			client, err := dynamic.NewForConfig(tenantry.Config(n))
			Expect(err).NotTo(HaveOccurred())
			Eventually(func() error { _, err := client.Resource(widgets).List(ctx, metav1.ListOptions{}); return err }).WithContext(ctx).Should(Succeed())
			return client
		}
		earlier := begin()
		kinds := map[string]string{"widgets": "Widget", "secrets": "Secret", "events": "Event", "namespaces": "Namespace"}
		create := func(in dynamic.Interface, r schema.GroupVersionResource) *unstructured.Unstructured {
			object := &unstructured.Unstructured{Object: map[string]any{}}
			object.SetGroupVersionKind(r.GroupVersion().WithKind(kinds[r.Resource]))
			object.SetName("mine")
			if r.Resource == "events" {
				object.Object["involvedObject"] = map[string]any{"namespace": "default"}
			}
			at := in.Resource(r).Namespace("default")
			if r.Resource == "namespaces" {
				at = in.Resource(r)
			}
			created, err := at.Create(ctx, object, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			return created
		}
		var then string
		for _, r := range resources {
			then = create(earlier, r).GetResourceVersion()
		}
		exactly := metav1.ListOptions{ResourceVersion: then, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
		tokens := map[string]string{}
		for _, r := range resources {
			found, err := earlier.Resource(r).List(ctx, exactly)
			Expect(err).NotTo(HaveOccurred())
			Expect(found.Items).To(ContainElement(HaveField("GetName()", "mine")), r.String())
			page, err := earlier.Resource(r).List(ctx, metav1.ListOptions{Limit: 1})
			Expect(err).NotTo(HaveOccurred())
			tokens[r.Resource] = page.GetContinue()
		}
		tenantry.DeleteTenant(ctx, n)

		later := begin()
		DeferCleanup(func(ctx SpecContext) { tenantry.DeleteTenant(ctx, n) })
		for _, r := range resources {
			for _, options := range []metav1.ListOptions{exactly, {ResourceVersion: then, Limit: 1}, {ResourceVersion: then}, {Limit: 1, Continue: tokens[r.Resource]}} {
				if options.ResourceVersion == "" && options.Continue == "" {
					continue // one page had all
				}
				found, err := later.Resource(r).List(ctx, options)
				Expect(err).To(Satisfy(apierrors.IsResourceExpired), "%v: %+v: %v", r, options, found)
			}
			w, err := later.Resource(r).Watch(ctx, metav1.ListOptions{ResourceVersion: then})
			Expect(err).NotTo(HaveOccurred())
			var event watch.Event
			Eventually(w.ResultChan()).WithContext(ctx).Should(Receive(&event))
			w.Stop()
			Expect(apierrors.FromObject(event.Object)).To(Satisfy(apierrors.IsResourceExpired), "%v: %+v", r, event)
			now, err := later.Resource(r).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
			Expect(err).NotTo(HaveOccurred())
			Expect(now.Items).NotTo(ContainElement(HaveField("GetName()", "mine")), r.String())
			w, err = later.Resource(r).Watch(ctx, metav1.ListOptions{ResourceVersion: now.GetResourceVersion()})
			Expect(err).NotTo(HaveOccurred())
			create(later, r)
			Eventually(w.ResultChan()).WithContext(ctx).Should(Receive(And(
				HaveField("Type", watch.Added), HaveField("Object.GetName()", "mine"))), "%v: a watch of its own life", r)
			w.Stop()
		}
		Expect(tokens["secrets"] + tokens["namespaces"]).NotTo(BeEmpty())
	}, SpecTimeout(timeout))

	It("ends, if it is a watch of the tenant's, when the tenant is suspended", func(ctx SpecContext) {
		const n = tenant.Name("watching")
		tenantry.CreateTenants(ctx, n)
		system := suite.Client(tenantry.In(n, tenantry.Config(tenant.System))).CoreV1().ConfigMaps("default")
		list, err := system.List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		options := metav1.ListOptions{ResourceVersion: list.ResourceVersion}
		theirs, err := tenantry.Client(n).CoreV1().ConfigMaps("default").Watch(ctx, options)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(theirs.Stop)
		ours, err := system.Watch(ctx, options)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(ours.Stop)
		Expect(tenantry.SetSpec(ctx, n, "suspended", "true")).To(Succeed())
		Eventually(theirs.ResultChan()).WithContext(ctx).WithTimeout(timeout).Should(BeClosed())
		_, err = system.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "meanwhile"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(ours.ResultChan()).WithContext(ctx).WithTimeout(timeout).Should(Receive())
	}, SpecTimeout(timeout))

	It("leaves nothing for the next tenant of the name", func(ctx SpecContext) {
		tenantry.CreateTenants(ctx, n)
		client := tenantry.Client(n)
		hook := newSlowHook()
		_, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "slow"},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{
				Name: "slow.storage.test", AdmissionReviewVersions: []string{"v1"}, TimeoutSeconds: ptr.To[int32](30),
				SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
				Rules: []admissionregistrationv1.RuleWithOperations{{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{"rbac.authorization.k8s.io"}, APIVersions: []string{"v1"}, Resources: []string{"clusterroles"}},
				}},
				ClientConfig: admissionregistrationv1.WebhookClientConfig{
					URL:      ptr.To(hook.URL),
					CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw}),
				},
			}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())

		By("beginning while the tenant is there")
		// The server learns of the webhook a moment later; the first request that is
		// held is the one that counts.
		result := make(chan error, 1)
		Eventually(func(g Gomega) {
			go func() {
				_, err := client.RbacV1().ClusterRoles().Create(ctx, clusterRole("planted"), metav1.CreateOptions{})
				result <- err
			}()
			select {
			case <-hook.called:
			case err := <-result:
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(client.RbacV1().ClusterRoles().Delete(ctx, "planted", metav1.DeleteOptions{})).To(Succeed())
				g.Expect(false).To(BeTrue(), "the webhook is not called yet")
			}
		}).WithContext(ctx).WithTimeout(timeout).Should(Succeed())

		By("ending when the tenant is gone")
		tenantry.DeleteTenant(ctx, n)
		close(hook.release)
		Eventually(result).WithContext(ctx).WithTimeout(timeout).Should(Receive(&err))
		Expect(err).To(Satisfy(apierrors.IsTimeout), "it ends with the tenant: %v", err)
		for _, key := range keys(ctx, "/registry/") {
			Expect(key).NotTo(ContainSubstring("/" + n.String() + "/"))
		}
	}, SpecTimeout(timeout))
})
