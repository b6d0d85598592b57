package flowcontrol

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/tenant"
)

// unread begins a request whose client does nothing from then on, by a connection that it returns.
func unread(config *rest.Config, head string) net.Conn {
	GinkgoHelper()
	host, err := url.Parse(config.Host)
	Expect(err).NotTo(HaveOccurred())
	conn, err := (&net.Dialer{}).Dial("tcp", host.Host)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(conn.Close)
	Expect(conn.(*net.TCPConn).SetReadBuffer(4096)).To(Succeed())
	certificates, err := rest.TLSConfigFor(config)
	Expect(err).NotTo(HaveOccurred())
	certificates.ServerName, certificates.NextProtos = host.Hostname(), []string{"http/1.1"}
	secure := tls.Client(conn, certificates)
	_, err = fmt.Fprintf(secure, head, host.Path, config.BearerToken)
	Expect(err).NotTo(HaveOccurred())
	return secure
}

var _ = Describe("A body that does not come", func() {
	const head = "POST %s/api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\nContent-Length: "
	DescribeTable("is not waited for without an end", func(ctx SpecContext, length string) {
		conn := unread(tenantry.Config(tenantry.NewTenant(ctx, "flow")), head+length+"\r\n\r\n{")
		Expect(conn.SetReadDeadline(time.Now().Add(time.Minute))).To(Succeed())
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(response.StatusCode).To(Equal(http.StatusRequestTimeout))
		Expect(response.Body.Close()).To(Succeed())
	},
		Entry("small", "100"),
		Entry("large", "100000"),
	)
})

// The level has 9 seats, of which a large list takes two.
var _ = Describe("Large lists that nobody reads", func() {
	const tenants, path = 5, "/api/v1/namespaces/default/configmaps"
	It("keep no other tenant from its own", func(ctx SpecContext) {
		level, err := tenantry.Client(tenant.System).FlowcontrolV1().FlowSchemas().Get(ctx, "tenants-large", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		var all []tenant.Name
		for range tenants + 1 {
			n := tenantry.NewTenant(ctx, "flow")
			for i := range 12 {
				_, err := tenantry.Client(n).CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m-%d", i)}, Data: map[string]string{"k": strings.Repeat("x", 700_000)},
				}, metav1.CreateOptions{})
				Expect(err).NotTo(HaveOccurred())
			}
			all = append(all, n)
		}
		for _, n := range all {
			Eventually(func() types.UID { return schemaOf(answer(ctx, tenantry.Config(n), path, nil)) }).Should(Equal(level.UID))
		}
		for _, n := range all[:tenants] {
			unread(tenantry.Config(n), "GET %s"+path+" HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\n\r\n")
		}
		for range 20 { // whatever has begun until then
			Expect(answer(ctx, tenantry.Config(all[tenants]), path, nil).StatusCode).To(Equal(http.StatusOK))
		}
	})
})
