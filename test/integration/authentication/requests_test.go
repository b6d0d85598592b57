package authentication

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/utils/ptr"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

// requestCertificate makes a request in the space of t and returns it and its key.
func requestCertificate(ctx SpecContext, t tenant.Name, signer string, subject pkix.Name) (*certificatesv1.CertificateSigningRequest, []byte) {
	GinkgoHelper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	Expect(err).NotTo(HaveOccurred())
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject}, key)
	Expect(err).NotTo(HaveOccurred())
	request, err := clientIn(t).CertificatesV1().CertificateSigningRequests().Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "r-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: signer, ExpirationSeconds: ptr.To[int32](3600),
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature},
		},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return request, keyPEM
}

func approve(request *certificatesv1.CertificateSigningRequest) *certificatesv1.CertificateSigningRequest {
	request.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "test",
	}}
	return request
}

// answered approves a request and returns it when it has a certificate, or never will.
func answered(ctx SpecContext, t tenant.Name, request *certificatesv1.CertificateSigningRequest) *certificatesv1.CertificateSigningRequest {
	GinkgoHelper()
	requests := clientIn(t).CertificatesV1().CertificateSigningRequests()
	_, err := requests.UpdateApproval(ctx, request.Name, approve(request), metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
	var answer *certificatesv1.CertificateSigningRequest
	Eventually(func(g Gomega) {
		answer, err = requests.Get(ctx, request.Name, metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(len(answer.Status.Certificate) > 0 || len(answer.Status.Conditions) > 1).To(BeTrue())
	}).Should(Succeed())
	return answer
}

var _ = Describe("An approved certificate signing request", func() {
	It("makes a user of the tenant in whose space it is", func(ctx SpecContext) {
		for _, t := range spaces {
			request, key := requestCertificate(ctx, t, certificatesv1.KubeAPIServerClientSignerName,
				pkix.Name{CommonName: "carla", Organization: []string{"developers"}})
			answer := answered(ctx, t, request)
			Expect(answer.Status.Certificate).NotTo(BeEmpty(), "%v", answer.Status.Conditions)
			carla := credentials{cert: answer.Status.Certificate, key: key}
			carla.expect("carla", t, "developers")
			for _, other := range spaces {
				response, body := carla.do(http.MethodGet, "/tenants/"+string(other)+"/api/v1/secrets", nil)
				Expect(response.StatusCode).To(Equal(http.StatusForbidden), "%s in %s: %s", t, other, body)
			}
		}
	})

	DescribeTable("says that there will be no certificate", func(ctx SpecContext, t tenant.Name, signer string, subject pkix.Name, why string) {
		request, _ := requestCertificate(ctx, t, signer, subject)
		answer := answered(ctx, t, request)
		Expect(answer.Status.Certificate).To(BeEmpty())
		Expect(answer.Status.Conditions[1].Type).To(Equal(certificatesv1.CertificateFailed))
		Expect(answer.Status.Conditions[1].Message).To(ContainSubstring(why))
	},
		Entry("for another tenant", tenant.Name("a"), certificatesv1.KubeAPIServerClientSignerName,
			pkix.Name{CommonName: "carla", Organization: []string{"tenant:b"}}, "names a tenant"),
		Entry("for a component", tenant.Name("a"), certificatesv1.KubeAPIServerClientSignerName, pkix.Name{CommonName: "system:kube-scheduler"}, "components of Kubernetes"),
		Entry("for a component, in the system space", tenant.System, certificatesv1.KubeAPIServerClientSignerName, pkix.Name{CommonName: "system:kube-scheduler"}, "components of Kubernetes"),
		Entry("for a group of Kubernetes", tenant.Name("a"), certificatesv1.KubeAPIServerClientSignerName,
			pkix.Name{CommonName: "carla", Organization: []string{"system:nodes"}}, "groups of Kubernetes"),
		Entry("for a node of a tenant", tenant.Name("a"), certificatesv1.KubeAPIServerClientKubeletSignerName,
			pkix.Name{CommonName: "system:node:n", Organization: []string{"system:nodes"}}, "nodes belong to the platform"),
	)

	It("makes a node, in the system space", func(ctx SpecContext) {
		request, key := requestCertificate(ctx, tenant.System, certificatesv1.KubeAPIServerClientKubeletSignerName,
			pkix.Name{CommonName: "system:node:n", Organization: []string{"system:nodes"}})
		answer := answered(ctx, tenant.System, request)
		Expect(answer.Status.Certificate).NotTo(BeEmpty(), "%v", answer.Status.Conditions)
		credentials{cert: answer.Status.Certificate, key: key}.expect("system:node:n", tenant.System, "system:nodes")
	})

	It("is approved by whom the space lets, and by nobody else", func(ctx SpecContext) {
		request, _ := requestCertificate(ctx, "a", certificatesv1.KubeAPIServerClientSignerName, pkix.Name{CommonName: "carla"})
		client := clientIn("a").RbacV1()
		signer := rbacv1.PolicyRule{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"signers"},
			ResourceNames: []string{certificatesv1.KubeAPIServerClientSignerName}, Verbs: []string{"approve"}}
		for i, rules := range [][]rbacv1.PolicyRule{nil, {signer}} {
			name := []string{"half-approver", "approver"}[i]
			rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests/approval"}, Verbs: []string{"update"}})
			_, err := client.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			_, err = client.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
				RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
				Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			_, err = suite.Client(tenantry.User("a", name)).CertificatesV1().CertificateSigningRequests().
				UpdateApproval(ctx, request.Name, approve(request.DeepCopy()), metav1.UpdateOptions{})
			if name == "half-approver" {
				Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
			} else {
				Expect(err).NotTo(HaveOccurred())
			}
		}
	})
})
