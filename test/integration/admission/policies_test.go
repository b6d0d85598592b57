package admission

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/tenantry/tenantry/internal/tenant"
)

// hook is a mutating webhook that labels objects with the path it is called by.
type hook struct {
	*httptest.Server
	mu         sync.Mutex
	namespaces []string
}

func newHook() *hook {
	h := &hook{}
	h.Server = httptest.NewTLSServer(http.HandlerFunc(h.serve))
	DeferCleanup(h.Close)
	return h
}

func (h *hook) serve(w http.ResponseWriter, req *http.Request) {
	review := admissionv1.AdmissionReview{}
	if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	h.namespaces = append(h.namespaces, review.Request.Namespace)
	h.mu.Unlock()
	patch := []map[string]any{{"op": "add", "path": "/metadata/labels", "value": map[string]string{"hook": req.URL.Path[1:]}}}
	data, err := json.Marshal(patch)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{
		UID: review.Request.UID, Allowed: true, Patch: data, PatchType: ptr.To(admissionv1.PatchTypeJSONPatch),
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(review); err != nil {
		GinkgoLogr.Error(err, "answering the review")
	}
}

func (h *hook) called() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	called := h.namespaces
	h.namespaces = nil
	return called
}

func podRules() []admissionregistrationv1.RuleWithOperations {
	return []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
	}}
}

// register makes h a webhook of the space of client, called by path.
func (h *hook) register(ctx SpecContext, client kubernetes.Interface, path string) {
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "hook"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "hook.example.com", AdmissionReviewVersions: []string{"v1"}, Rules: podRules(),
			SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL:      ptr.To(h.URL + "/" + path),
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw}),
			},
		}},
	}
	_, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(ctx, configuration, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// label returns the hook that a new pod meets.
func label(ctx SpecContext, client kubernetes.Interface) func() (string, error) {
	return func() (string, error) {
		pod, err := newPod(ctx, client, "default")
		if err != nil {
			return "", err
		}
		return pod.Labels["hook"], nil
	}
}

var _ = Describe("Webhooks of two tenants", func() {
	It("are each called for their own space only, with plain names", func(ctx SpecContext) {
		a, b, other := newTenant(ctx, "a"), newTenant(ctx, "b"), newTenant(ctx, "other")
		hookA, hookB := newHook(), newHook()
		hookA.register(ctx, a, "of-a")
		hookB.register(ctx, b, "of-b")
		Eventually(label(ctx, a)).Should(Equal("of-a"))
		Eventually(label(ctx, b)).Should(Equal("of-b"))
		hookA.called()
		hookB.called()

		Expect(label(ctx, a)()).To(Equal("of-a"))
		Expect(hookA.called()).To(Equal([]string{"default"}))
		Expect(hookB.called()).To(BeEmpty())
		Expect(label(ctx, other)()).To(BeEmpty())
		ensureServiceAccount(ctx, tenantry.Client(tenant.System), "default")
		Expect(label(ctx, tenantry.Client(tenant.System))()).To(BeEmpty())
		Expect(append(hookA.called(), hookB.called()...)).To(BeEmpty())

		By("removing one")
		Expect(a.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(ctx, "hook", metav1.DeleteOptions{})).To(Succeed())
		Eventually(label(ctx, a)).Should(BeEmpty())
		Expect(label(ctx, b)()).To(Equal("of-b"))
	})
})

// newPolicy creates a policy that refuses pods of the image that the config map
// "parameters" of the space names.
func newPolicy(ctx SpecContext, client kubernetes.Interface, image string) {
	_, err := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "parameters"}, Data: map[string]string{"image": image},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	registration := client.AdmissionregistrationV1()
	_, err = registration.ValidatingAdmissionPolicies().Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "images"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			ParamKind: &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"},
			MatchConstraints: &admissionregistrationv1.MatchResources{
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: podRules()[0]}},
			},
			Validations: []admissionregistrationv1.Validation{{
				Expression:        "object.spec.containers.all(c, c.image != params.data.image)",
				MessageExpression: "'no ' + params.data.image + ' in ' + namespaceObject.metadata.name",
			}},
		},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, err = registration.ValidatingAdmissionPolicyBindings().Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "images"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "images", ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			ParamRef: &admissionregistrationv1.ParamRef{
				Name: "parameters", Namespace: "default", ParameterNotFoundAction: ptr.To(admissionregistrationv1.DenyAction),
			},
		},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

var _ = Describe("Admission policies of two tenants", func() {
	It("hold in their own space only, with its own parameters", func(ctx SpecContext) {
		a, b, other := newTenant(ctx, "a"), newTenant(ctx, "b"), newTenant(ctx, "other")
		newPolicy(ctx, a, "of-a")
		newPolicy(ctx, b, "of-b")
		withImage := func(client kubernetes.Interface, image string) func() error {
			return func() error {
				_, err := newPod(ctx, client, "default", func(p *corev1.Pod) { p.Spec.Containers[0].Image = image })
				return err
			}
		}
		Eventually(withImage(a, "of-a")).Should(MatchError(ContainSubstring("no of-a in default")))
		Eventually(withImage(b, "of-b")).Should(MatchError(ContainSubstring("no of-b in default")))
		Eventually(withImage(a, "of-b")).Should(Succeed())
		Expect(withImage(b, "of-a")()).To(Succeed())
		Expect(withImage(other, "of-a")()).To(Succeed())
	})
})
