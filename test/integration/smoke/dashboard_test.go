package smoke

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes"
)

var metricName = regexp.MustCompile(`\b(tenantry|apiserver|process|go|workqueue)_[a-z0-9_]+`)

var _ = Describe("The dashboard", func() {
	It("shows metrics that the server has", func(ctx SpecContext) {
		content, err := os.ReadFile("../../../config/grafana/tenantry.json")
		Expect(err).NotTo(HaveOccurred())
		var dashboard struct {
			Panels []struct {
				Targets []struct{ Expr string }
			}
		}
		Expect(json.Unmarshal(content, &dashboard)).To(Succeed())
		names := map[string]bool{}
		for _, panel := range dashboard.Panels {
			for _, target := range panel.Targets {
				for _, name := range metricName.FindAllString(target.Expr, -1) {
					names[strings.TrimSuffix(name, "_bucket")] = true
				}
			}
		}
		Expect(len(names)).To(BeNumerically(">", 10))

		client, err := kubernetes.NewForConfig(system())
		Expect(err).NotTo(HaveOccurred())
		metrics, err := client.RESTClient().Get().AbsPath("/metrics").Do(ctx).Raw()
		Expect(err).NotTo(HaveOccurred())
		for name := range names {
			Expect(string(metrics)).To(ContainSubstring("# TYPE " + name + " "))
		}
		Expect(string(metrics)).To(ContainSubstring(`tenantry_tenants{phase="Ready"}`))
		Expect(string(metrics)).To(ContainSubstring(`tenantry_tenant_requests_total{code="2xx",tenant="system"}`))
	})
})
