package process

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/harness/sessions"
)

// output runs the binary and returns what it prints, and what it complains of.
func output(ctx context.Context, args ...string) (string, string) {
	GinkgoHelper()
	var complaint string
	out, err := exec.CommandContext(ctx, binary, args...).Output()
	if exit := (*exec.ExitError)(nil); err != nil {
		Expect(errors.As(err, &exit)).To(BeTrue(), "%v", err)
		complaint = string(exit.Stderr)
	}
	return string(out), complaint
}

// whoever returns the user of a kubeconfig and its certificate.
func whoever(ctx context.Context, kubeconfig string) (authenticationv1.UserInfo, *x509.Certificate) {
	GinkgoHelper()
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(kubeconfig))
	Expect(err).NotTo(HaveOccurred(), kubeconfig)
	client, err := kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	block, _ := pem.Decode(config.CertData)
	certificate, err := x509.ParseCertificate(block.Bytes)
	Expect(err).NotTo(HaveOccurred())
	return review.Status.UserInfo, certificate
}

// served returns the serial number of the certificate of the server at a port.
func served(port string) func() (string, error) {
	return func() (string, error) {
		connection, err := tls.Dial("tcp", "127.0.0.1:"+port, &tls.Config{InsecureSkipVerify: true}) // it is looked at
		if err != nil {
			return "", err
		}
		defer connection.Close()
		return connection.ConnectionState().PeerCertificates[0].SerialNumber.String(), nil
	}
}

var _ = Describe("tenantry kubeconfig", func() {
	It("knows the tenants of the server, and lets the server sign", func(ctx SpecContext) {
		dir, port := filepath.Join(GinkgoT().TempDir(), "state"), sessions.FreePort()
		server := start(dir, port)
		newTenant(ctx, dir, "acme")
		admin := filepath.Join(dir, "admin.kubeconfig")

		By("a tenant that is not there")
		for _, args := range [][]string{{"--dir", dir}, {"--kubeconfig", admin}} {
			out, complaint := output(ctx, append([]string{"kubeconfig", "typo"}, args...)...)
			Expect(out).To(BeEmpty())
			Expect(complaint).To(ContainSubstring(`tenant "typo" is not known to https://127.0.0.1:` + port))
		}
		out, _ := output(ctx, "kubeconfig", "typo", "--dir", dir, "--offline")
		Expect(out).To(ContainSubstring("/tenants/typo"))

		By("a certificate that the server signs, in the space and in the system space")
		for name, root := range map[tenant.Name]string{"acme": "/tenants/acme", tenant.System: ""} {
			out, complaint := output(ctx, "kubeconfig", name.String(), "--kubeconfig", admin, "--user", "jane", "--group", "devs", "--validity", "1h")
			Expect(complaint).To(BeEmpty())
			Expect(out).To(ContainSubstring("server: https://127.0.0.1:" + port + root + "\n"))
			u, certificate := whoever(ctx, out)
			Expect(u.Username).To(Equal("jane"))
			Expect(u.Groups).To(ConsistOf("devs", "system:authenticated"))
			Expect(u.Extra[tenant.UserExtraKey]).To(Equal(authenticationv1.ExtraValue{name.String()}))
			Expect(time.Until(certificate.NotAfter)).To(BeNumerically("~", time.Hour, time.Minute))
			requests, err := client(dir).CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(requests.Items).To(BeEmpty())
		}

		By("a kubeconfig of whoever logs in")
		for _, args := range [][]string{{"--dir", dir}, {"--kubeconfig", admin}} {
			out, complaint := output(ctx, append(append([]string{"kubeconfig", "acme", "--exec", "keystone"}, args...), "--", "--os-cloud", "acme")...)
			Expect(complaint).To(BeEmpty())
			config, err := clientcmd.RESTConfigFromKubeConfig([]byte(out))
			Expect(err).NotTo(HaveOccurred())
			Expect(config.ExecProvider.Args).To(Equal([]string{"credential", "keystone", "--os-cloud", "acme"}))
			Expect(config.CertData).To(BeEmpty())
			config.ExecProvider = nil // whoever does not log in sees the version
			client, err := kubernetes.NewForConfig(config)
			Expect(err).NotTo(HaveOccurred())
			Expect(client.Discovery().ServerVersion()).NotTo(BeNil())
		}

		By("what the server does not sign")
		_, complaint := output(ctx, "kubeconfig", "acme", "--kubeconfig", admin, "--user", "system:node:n")
		Expect(complaint).To(ContainSubstring("components of Kubernetes"))

		By("a validity, signed here")
		out, complaint = output(ctx, "kubeconfig", "acme", "--dir", dir, "--validity", "2h")
		Expect(complaint).To(BeEmpty())
		_, certificate := whoever(ctx, out)
		Expect(time.Until(certificate.NotAfter)).To(BeNumerically("~", 2*time.Hour, time.Minute))

		Eventually(server.Interrupt(), stopTimeout).Should(gexec.Exit(0))
	}, SpecTimeout(2*startTimeout))
})

var _ = Describe("The certificate of tenantry up", func() {
	It("is served anew while it runs, once it is renewed", func() {
		dir, port := filepath.Join(GinkgoT().TempDir(), "state"), sessions.FreePort()
		server := run("up", "--dir", dir, "--secure-port", port, "--certificate-check-period", "100ms")
		Eventually(server.Out, startTimeout).Should(gbytes.Say("Tenantry is ready"))
		before, err := served(port)()
		Expect(err).NotTo(HaveOccurred())
		Expect(os.Remove(filepath.Join(dir, "pki", "server.crt"))).To(Succeed())
		Eventually(served(port), 2*time.Minute).ShouldNot(Equal(before))
		Eventually(server.Interrupt(), stopTimeout).Should(gexec.Exit(0))
	})
})
