package attack

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/identities"
)

// tooLong is a key's length that takes no time to verify and is refused like one that
// takes minutes.
const tooLong = 9000

// signingRequest returns a request that a key of some length has properly signed.
func signingRequest(name string, bits int) *certificatesv1.CertificateSigningRequest {
	GinkgoHelper()
	request, err := identities.LongKeyRequest(name, bits)
	Expect(err).NotTo(HaveOccurred())
	return &certificatesv1.CertificateSigningRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: certificatesv1.SchemeGroupVersion.String(), Kind: "CertificateSigningRequest"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: request, SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
		},
	}
}

var approval = certificatesv1.CertificateSigningRequestCondition{
	Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "attack",
}

// beLongKey is how a request with a key that is too long is refused.
func beLongKey() OmegaMatcher {
	return And(Satisfy(apierrors.IsInvalid), MatchError(MatchRegexp(`spec\.request: Invalid value: its RSA key has 9\d{3} bits; make one of at most 8192`)))
}

var _ = Describe("A long key in a certificate signing request", func() {
	It("is refused in every space before its signature is verified", func(ctx SpecContext) {
		long := signingRequest("long", tooLong)
		unsigned := long.DeepCopy()
		block, _ := pem.Decode(unsigned.Spec.Request)
		block.Bytes[len(block.Bytes)-1] ^= 1
		unsigned.Spec.Request = pem.EncodeToMemory(block)
		for _, n := range []tenant.Name{"a", "b", tenant.System} {
			requests := tenantry.Client(n).CertificatesV1().CertificateSigningRequests()
			for _, r := range []*certificatesv1.CertificateSigningRequest{long, unsigned} {
				_, err := requests.Create(ctx, r, metav1.CreateOptions{})
				Expect(err).To(beLongKey(), n.String())
				_, err = requests.Create(ctx, r, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				Expect(err).To(beLongKey(), n.String())
				applied, err := json.Marshal(r)
				Expect(err).NotTo(HaveOccurred())
				_, err = requests.Patch(ctx, r.Name, types.ApplyPatchType, applied, metav1.PatchOptions{FieldManager: "attack"})
				Expect(err).To(beLongKey(), n.String())
			}
		}
	}, NodeTimeout(time.Minute))

	It("does not come by a webhook of the tenant", func(ctx SpecContext) {
		n := tenantry.NewTenant(ctx, "keys")
		mutate(ctx, n, signingRequest("long", tooLong).Spec.Request)
		usual := signingRequest("usual", 2048)
		Eventually(func() error { // the server finds the webhook
			_, err := tenantry.Client(n).CertificatesV1().CertificateSigningRequests().Create(ctx, usual, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}).WithContext(ctx).Should(beLongKey())
	}, NodeTimeout(time.Minute))

	It("that was stored before is not verified again, and can be deleted", func(ctx SpecContext) {
		stored := signingRequest("planted", tooLong)
		stored.Finalizers = []string{"example.com/attack"}
		plant(ctx, "a", stored)
		requests := tenantry.Client("a").CertificatesV1().CertificateSigningRequests()
		var planted *certificatesv1.CertificateSigningRequest
		Eventually(func() (err error) {
			planted, err = requests.Get(ctx, "planted", metav1.GetOptions{})
			return err
		}).WithContext(ctx).Should(Succeed())

		label := []byte(`{"metadata":{"labels":{"x":"y"}}}`)
		for _, subresources := range [][]string{nil, {"status"}, {"approval"}} {
			_, err := requests.Patch(ctx, "planted", types.MergePatchType, label, metav1.PatchOptions{}, subresources...)
			Expect(err).To(beLongKey(), "%v", subresources)
		}
		planted.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{approval}
		_, err := requests.UpdateApproval(ctx, "planted", planted, metav1.UpdateOptions{})
		Expect(err).To(beLongKey())

		Expect(requests.Delete(ctx, "planted", metav1.DeleteOptions{})).To(Succeed())
		_, err = requests.Patch(ctx, "planted", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = requests.Get(ctx, "planted", metav1.GetOptions{})
		Expect(err).To(Satisfy(apierrors.IsNotFound))
	}, NodeTimeout(time.Minute))

	It("that was approved before keeps no worker from others", func(ctx SpecContext) {
		approved := signingRequest("approved", tooLong)
		approved.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{approval}
		plant(ctx, "a", approved)
		requests := tenantry.Client("b").CertificatesV1().CertificateSigningRequests()
		usual, err := requests.Create(ctx, signingRequest("usual", 2048), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		usual.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{approval}
		_, err = requests.UpdateApproval(ctx, usual.Name, usual, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() ([]byte, error) {
			issued, err := requests.Get(ctx, usual.Name, metav1.GetOptions{})
			return issued.Status.Certificate, err
		}).WithContext(ctx).ShouldNot(BeEmpty())
		answer, err := tenantry.Client("a").CertificatesV1().CertificateSigningRequests().Get(ctx, "approved", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(answer.Status.Certificate).To(BeEmpty())
		Expect(tenantry.Client("a").CertificatesV1().CertificateSigningRequests().Delete(ctx, "approved", metav1.DeleteOptions{})).To(Succeed())
	}, NodeTimeout(time.Minute))
})

// plant stores a request as if there had been no limits.
func plant(ctx context.Context, n tenant.Name, r *certificatesv1.CertificateSigningRequest) {
	GinkgoHelper()
	r.UID, r.CreationTimestamp = types.UID(r.Name), metav1.NewTime(time.Now())
	r.Annotations = map[string]string{tenant.Former(tenant.Annotation): n.String()}
	value, err := json.Marshal(r)
	Expect(err).NotTo(HaveOccurred())
	_, err = tenantry.Etcd().Put(ctx, "/registry/certificatesigningrequests/"+n.String()+"/"+r.Name, string(value))
	Expect(err).NotTo(HaveOccurred())
}

// mutate has a webhook of the tenant that replaces the request in each request.
func mutate(ctx context.Context, n tenant.Name, request []byte) {
	GinkgoHelper()
	patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/spec/request", "value": request}})
	Expect(err).NotTo(HaveOccurred())
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		review := admissionv1.AdmissionReview{}
		if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true,
			Patch: patch, PatchType: ptr.To(admissionv1.PatchTypeJSONPatch)}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	}))
	DeferCleanup(server.Close)
	_, err = tenantry.Client(n).AdmissionregistrationV1().MutatingWebhookConfigurations().Create(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "keys"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "keys.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL:      ptr.To(server.URL),
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule: admissionregistrationv1.Rule{APIGroups: []string{certificatesv1.GroupName}, APIVersions: []string{"v1"},
					Resources: []string{"certificatesigningrequests"}},
			}},
		}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}
