package authentication

import (
	"bufio"
	"crypto/x509/pkix"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	auditUser   = "tenantry.io/user-tenant"
	auditTarget = "tenantry.io/tenant"
)

// audited returns the annotations of the last event with the given agent.
func audited(agent string) map[string]string {
	GinkgoHelper()
	file, err := os.Open(filepath.Join(dir, "audit.log"))
	Expect(err).NotTo(HaveOccurred())
	defer file.Close()
	var found map[string]string
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if !strings.Contains(lines.Text(), agent) {
			continue
		}
		var event auditv1.Event
		Expect(json.Unmarshal(lines.Bytes(), &event)).To(Succeed())
		if event.UserAgent == agent && event.Stage != auditv1.StageRequestReceived {
			found = event.Annotations
		}
	}
	return found
}

var _ = Describe("An audit event", func() {
	DescribeTable("tells the tenant of the user and of the target", func(as func() credentials, path, user, target string) {
		agent := "audit-" + strings.ReplaceAll(CurrentSpecReport().LeafNodeText, " ", "-")
		as().with("User-Agent", agent).do(http.MethodGet, path, nil)
		Eventually(func(g Gomega) {
			annotations := audited(agent)
			g.Expect(annotations).NotTo(BeNil())
			g.Expect(annotations[auditUser]).To(Equal(user))
			g.Expect(annotations[auditTarget]).To(Equal(target))
		}).Should(Succeed())
	},
		Entry("on the short path", func() credentials { return bearer("a-token") }, "/api/v1/namespaces", "a", "a"),
		Entry("in the space root", func() credentials { return bearer("a-token") }, "/tenants/a/api/v1/namespaces", "a", "a"),
		Entry("that is foreign", func() credentials { return bearer("a-token") }, "/tenants/b/api/v1/namespaces", "a", "b"),
		Entry("that is unknown", func() credentials { return bearer("a-token") }, "/api/v1/tenants/unknown/pods", "a", "unknown"),
		Entry("of the system", func() credentials { return bearer("system-token") }, "/api/v1/namespaces", "system", "system"),
		Entry("of the system in a space", func() credentials { return bearer("system-token") }, "/tenants/b/api/v1/namespaces", "system", "b"),
		Entry("of the system everywhere", func() credentials { return bearer("system-token") }, "/tenants/all/api/v1/namespaces", "system", "all"),
		Entry("of an impersonated user", func() credentials {
			return bearer("system-token").with("Impersonate-User", "joe", "Impersonate-Extra-Tenantry.io%2ftenant", "b")
		}, "/api/v1/namespaces", "system", "b"),
		Entry("of nobody", func() credentials { return credentials{} }, "/api/v1/namespaces", "", ""),
		Entry("of nobody in a space", func() credentials { return credentials{} }, "/tenants/a/api/v1/namespaces", "", "a"),
		Entry("of refused credentials", func() credentials {
			return certificate(tenantsCA, pkix.Name{CommonName: "jane", Organization: []string{"tenant:"}})
		}, "/tenants/a/api/v1/namespaces", "", "a"),
	)
})

// metric returns the value of a metric of the server, empty if there is none.
func metric(name string) string {
	GinkgoHelper()
	all, err := tenantry.Client(tenant.System).RESTClient().Get().AbsPath("/metrics").DoRaw(GinkgoT().Context())
	Expect(err).NotTo(HaveOccurred())
	for line := range strings.Lines(string(all)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
