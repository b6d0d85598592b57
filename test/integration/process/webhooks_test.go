package process

import (
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/test/harness/sessions"
)

var _ = Describe("A tenant's webhook", func() {
	const webhook = "probe.example.com"

	It("does not tell what is on the server's machine", func(ctx SpecContext) {
		dir, port := filepath.Join(GinkgoT().TempDir(), "state"), sessions.FreePort()
		session := run("up", "--dir", dir, "--secure-port", port)
		Eventually(session.Out, startTimeout).Should(gbytes.Say("Tenantry is ready"))
		member := newTenant(ctx, dir, "acme")

		asked := make(chan struct{}, 1)
		open := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{} }))
		DeferCleanup(open.Close)
		_, openPort, err := net.SplitHostPort(open.Listener.Addr().String())
		Expect(err).NotTo(HaveOccurred())
		closedPort := sessions.FreePort()

		hooks := member.AdmissionregistrationV1().ValidatingWebhookConfigurations()
		none, fail := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Fail
		var first *admissionregistrationv1.ValidatingWebhookConfiguration
		probe := &admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "probe"},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{
				Name: webhook, AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, FailurePolicy: &fail,
				ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new("https://127.0.0.1:" + openPort)},
				Rules: []admissionregistrationv1.RuleWithOperations{{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
				}},
			}},
		}
		Eventually(func() error { // as soon as the tenant has its quota
			first, err = hooks.Create(ctx, probe, metav1.CreateOptions{})
			return err
		}, startTimeout).Should(Succeed())

		told := map[string]string{}
		hosts := []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0", "127.1.2.3"}
		if own := address(); own != "" {
			hosts = append(hosts, own)
		}
		for _, host := range hosts {
			for _, port := range []string{openPort, closedPort, port} {
				target := "https://" + net.JoinHostPort(strings.Trim(host, "[]"), port)
				first.Webhooks[0].ClientConfig.URL = &target
				first, err = hooks.Update(ctx, first, metav1.UpdateOptions{})
				Expect(err).NotTo(HaveOccurred())
				Eventually(func() string { // the server learns of the change a moment later
					_, err := member.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "c"}}, metav1.CreateOptions{})
					if err == nil {
						return ""
					}
					told[target] = strings.Replace(err.Error(), target, "URL", 1)
					return err.Error()
				}, startTimeout).Should(ContainSubstring(target))
			}
		}
		Expect(told).To(HaveLen(3 * len(hosts)))
		for target, text := range told {
			Expect(text).To(Equal(told["https://127.0.0.1:"+closedPort]), target)
		}
		Expect(told["https://127.0.0.1:"+closedPort]).To(HavePrefix(
			`Internal error occurred: failed calling webhook "` + webhook + `": failed to call webhook: Post "URL/?timeout=10s": could not be reached`))
		Expect(asked).NotTo(Receive())
	})
})

// address returns an address of this machine that is not a loopback one, if it has any.
func address() string {
	GinkgoHelper()
	addresses, err := net.InterfaceAddrs()
	Expect(err).NotTo(HaveOccurred())
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() {
			return ip.IP.String()
		}
	}
	return ""
}
