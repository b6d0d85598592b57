package users

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"math"
	"net/http"
	"net/http/httptest"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tenantry/tenantry/internal/tenant"
)

// refuse has a webhook of a space refuse all changes of what a space cannot be without, of which clients try again
// after many years, and those of ConfigMaps. It returns when it does.
func refuse(ctx context.Context, n tenant.Name) {
	GinkgoHelper()
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		review := &admissionv1.AdmissionReview{}
		if err := json.NewDecoder(req.Body).Decode(review); err != nil {
			return
		}
		result := &metav1.Status{Code: http.StatusForbidden, Message: "not in this life"}
		if review.Request.Resource.Resource != "configmaps" {
			result.Code, result.Details = http.StatusTooManyRequests, &metav1.StatusDetails{RetryAfterSeconds: math.MaxInt32}
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: result}
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		_ = json.NewEncoder(w).Encode(review)
	}))
	DeferCleanup(hook.Close)
	_, err := tenantry.Client(n).AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "never"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "never.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: new(admissionregistrationv1.SideEffectClassNone),
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{"", rbacv1.GroupName}, APIVersions: []string{"v1"}, Resources: []string{"clusterrolebindings", "configmaps", "namespaces", "serviceaccounts"},
				},
			}},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL: &hook.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw}),
			},
		}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	Eventually(func() error {
		_, err := tenantry.Client(n).CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "c-"}}, metav1.CreateOptions{})
		return err
	}).Should(MatchError(ContainSubstring("not in this life")))
}

var _ = Describe("Who administers a space", func() {
	It("is not for webhooks of the tenant to say", func(ctx SpecContext) {
		n := tenantry.NewTenant(ctx, "held")
		Expect(tenantry.SetSpec(ctx, n, "admins", `[{"kind":"User","name":"admin"},{"kind":"User","name":"mallory"}]`)).To(Succeed())
		mallory := by(n, "mallory")
		Eventually(writesSecret(ctx, mallory, metav1.NamespaceDefault)).Should(Succeed())
		refuse(ctx, n)
		Expect(tenantry.SetSpec(ctx, n, "admins", `[{"kind":"User","name":"admin"}]`)).To(Succeed())
		Eventually(writesSecret(ctx, mallory, metav1.NamespaceDefault)).Should(beForbidden)
		tenantry.DeleteTenant(ctx, n)
	})
})
