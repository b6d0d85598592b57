package attack

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

// ear is a tenant's webhook that allows everything and keeps what it is told.
type ear struct {
	*httptest.Server
	mu    sync.Mutex
	heard [][]byte
}

func newEar() *ear {
	e := &ear{}
	e.Server = httptest.NewTLSServer(e)
	DeferCleanup(e.Close)
	return e
}

// ServeHTTP implements http.Handler.
func (e *ear) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	review := admissionv1.AdmissionReview{}
	if err != nil || json.Unmarshal(body, &review) != nil {
		http.Error(w, "not a review", http.StatusBadRequest)
		return
	}
	e.mu.Lock()
	e.heard = append(e.heard, body)
	e.mu.Unlock()
	answer := admissionv1.AdmissionReview{TypeMeta: review.TypeMeta}
	answer.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// requests returns what was said so far, as it came and decoded.
func (e *ear) requests() ([]byte, []*admissionv1.AdmissionRequest) {
	GinkgoHelper()
	e.mu.Lock()
	defer e.mu.Unlock()
	decoded := make([]*admissionv1.AdmissionRequest, len(e.heard))
	for i, body := range e.heard {
		review := admissionv1.AdmissionReview{}
		Expect(json.Unmarshal(body, &review)).To(Succeed())
		decoded[i] = review.Request
	}
	return bytes.Join(e.heard, nil), decoded
}

// listen registers e for whatever happens in the space of client.
func (e *ear) listen(ctx SpecContext, client kubernetes.Interface) {
	GinkgoHelper()
	everything := []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}},
	}}
	at := admissionregistrationv1.WebhookClientConfig{
		URL:      ptr.To(e.URL),
		CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: e.Certificate().Raw}),
	}
	_, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "ear"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "mutating.example.com", AdmissionReviewVersions: []string{"v1"}, ClientConfig: at, Rules: everything,
			SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
		}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, err = client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "ear"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "validating.example.com", AdmissionReviewVersions: []string{"v1"}, ClientConfig: at, Rules: everything,
			SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
		}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	Eventually(func(g Gomega) { // both
		_, err := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "c-"}}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		_, heard := e.requests()
		g.Expect(len(heard)).To(BeNumerically(">=", 2))
		last := heard[len(heard)-2:]
		g.Expect([]string{last[0].Resource.Resource, last[1].Resource.Resource}).To(Equal([]string{"configmaps", "configmaps"}))
	}).Should(Succeed())
}

// newPolicy makes a policy of the space of client about pods.
func newPolicy(ctx SpecContext, client kubernetes.Interface, validations ...admissionregistrationv1.Validation) {
	GinkgoHelper()
	_, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "pods"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
				},
			}}},
			Validations: validations,
		},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, err = client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "pods"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "pods", ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

var (
	labels   = map[string]string{"app": "x"}
	template = corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
)

var _ = Describe("A tenant's webhook", func() {
	It("is told nothing of reviews, the platform's identities, and tokens that the platform makes", func(ctx SpecContext) {
		n := tenantry.NewTenant(ctx, "ear")
		client, root := tenantry.Client(n), suite.Client(tenantry.In(n, tenantry.Config(tenant.System)))
		// The object before the webhook, so that the controller finds the account.
		_, err := client.CoreV1().ServiceAccounts("default").Create(ctx,
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: robot}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		e := newEar()
		e.listen(ctx, client)

		By("reviewing, by users of the tenant and of the platform")
		const reviewed = "a-token-" + canary
		for _, asking := range []kubernetes.Interface{client, root} {
			_, err := asking.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
				Spec: authenticationv1.TokenReviewSpec{Token: reviewed},
			}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			_, err = asking.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			access := authorizationv1.ResourceAttributes{Namespace: "default", Verb: "get", Resource: "pods", Name: canary}
			_, err = asking.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{User: "jane", ResourceAttributes: &access},
			}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			_, err = asking.AuthorizationV1().LocalSubjectAccessReviews("default").Create(ctx, &authorizationv1.LocalSubjectAccessReview{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default"},
				Spec:       authorizationv1.SubjectAccessReviewSpec{User: "jane", ResourceAttributes: &access},
			}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			_, err = asking.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &access},
			}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			_, err = asking.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, &authorizationv1.SelfSubjectRulesReview{
				Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "default"},
			}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}

		By("letting controllers, administrators and the tenant itself write")
		_, err = client.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "token", Annotations: map[string]string{corev1.ServiceAccountNameKey: robot}},
			Type:       corev1.SecretTypeServiceAccountToken,
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		var token string
		Eventually(func() (string, error) {
			secret, err := client.CoreV1().Secrets("default").Get(ctx, "token", metav1.GetOptions{})
			if err == nil {
				token = string(secret.Data[corev1.ServiceAccountTokenKey])
			}
			return token, err
		}).ShouldNot(BeEmpty())
		issued, err := root.CoreV1().ServiceAccounts("default").CreateToken(ctx, robot, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = root.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "by-root"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = client.AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "d"},
			Spec:       appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		heardOf := func(resource, namePart string) func() []*admissionv1.AdmissionRequest {
			return func() (found []*admissionv1.AdmissionRequest) {
				_, heard := e.requests()
				for _, r := range heard {
					if r.Resource.Resource == resource && (namePart == "" || r.Name == namePart) {
						found = append(found, r)
					}
				}
				return found
			}
		}
		Eventually(heardOf("pods", "")).ShouldNot(BeEmpty())
		Expect(heardOf("configmaps", "by-root")()).To(HaveLen(2))

		raw, heard := e.requests()
		for _, secret := range []string{reviewed, token, issued.Status.Token} {
			Expect(bytes.Contains(raw, []byte(secret))).To(BeFalse(), "a token was sent to a webhook")
		}
		byPlatform := 0
		for _, r := range heard {
			Expect(r.Resource.Group).NotTo(BeElementOf("authentication.k8s.io", "authorization.k8s.io"), "a review: %v", r.Resource)
			if r.UserInfo.Username != "admin" {
				Expect(r.UserInfo).To(Equal(authenticationv1.UserInfo{Username: tenant.Platform}), "%s %v", r.Operation, r.Resource)
				byPlatform++
			}
		}
		Expect(byPlatform).To(BeNumerically(">=", 2*len([]string{"replicasets", "pods", "configmaps"})))
	})

	It("has policies for company, which know the platform's rights and not who it is", func(ctx SpecContext) {
		client := tenantry.Client(tenantry.NewTenant(ctx, "policy"))
		newPolicy(ctx, client,
			admissionregistrationv1.Validation{
				Expression: "request.userInfo.username == 'system:tenantry' || request.userInfo.username == 'admin'",
				Message:    "somebody else",
			},
			admissionregistrationv1.Validation{
				Expression: "request.userInfo.username == 'admin' || " +
					"!has(request.userInfo.uid) && size(request.userInfo.?groups.orValue([])) == 0 && size(request.userInfo.?extra.orValue({})) == 0",
				Message: "more than a name",
			},
			admissionregistrationv1.Validation{
				Expression: "request.userInfo.username == 'admin' || authorizer.requestResource.check('delete').allowed() && " +
					"authorizer.requestResource.check('delete').reason() == ''",
				Message: "without the right, or with a reason",
			},
			admissionregistrationv1.Validation{Expression: "request.userInfo.username != 'admin'", Message: "policy in force"})
		Eventually(func() error {
			_, err := client.CoreV1().Pods("default").Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "p-"}, Spec: template.Spec}, metav1.CreateOptions{})
			return err
		}).Should(MatchError(ContainSubstring("policy in force")))
		_, err := client.AppsV1().ReplicaSets("default").Create(ctx, &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Name: "r"},
			Spec:       appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func(g Gomega) {
			pods, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=x"})
			g.Expect(err).NotTo(HaveOccurred())
			if len(pods.Items) > 0 {
				return
			}
			set, err := client.AppsV1().ReplicaSets("default").Get(ctx, "r", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(set.Status.Conditions).To(BeEmpty())
			g.Expect(pods.Items).NotTo(BeEmpty())
		}).Should(Succeed())
	})
})
