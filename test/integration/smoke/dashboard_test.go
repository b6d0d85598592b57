package smoke

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/tenantry/tenantry/internal/tenant"
)

var metricName = regexp.MustCompile(`\b(tenantry|apiserver|controller_runtime|etcd|process|go|workqueue)_[a-z0-9_]+`)

// shown returns the expressions of the dashboard.
func shown() (expressions []string) {
	GinkgoHelper()
	content, err := os.ReadFile("../../../config/grafana/tenantry.json")
	Expect(err).NotTo(HaveOccurred())
	var dashboard struct {
		Panels []struct {
			Targets []struct{ Expr string }
		}
	}
	Expect(json.Unmarshal(content, &dashboard)).To(Succeed())
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			expressions = append(expressions, target.Expr)
		}
	}
	return expressions
}

// alerting returns the expressions of the alert rules.
func alerting() (expressions []string) {
	GinkgoHelper()
	content, err := os.ReadFile("../../../config/prometheus/rules.yaml")
	Expect(err).NotTo(HaveOccurred())
	var file struct {
		Groups []struct {
			Rules []struct{ Expr string }
		}
	}
	Expect(yaml.Unmarshal(content, &file)).To(Succeed())
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			expressions = append(expressions, rule.Expr)
		}
	}
	return expressions
}

var _ = Describe("The dashboard and the alert rules", func() {
	It("are about metrics that the server has", func(ctx SpecContext) {
		names := map[string]bool{}
		for _, expressions := range [][]string{shown(), alerting()} {
			before := len(names)
			for _, expression := range expressions {
				for _, name := range metricName.FindAllString(expression, -1) {
					names[strings.TrimSuffix(name, "_bucket")] = true
				}
			}
			Expect(len(names) - before).To(BeNumerically(">", 2))
		}

		client := tenantry.Client(tenant.System)
		_, err := client.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "published", Annotations: map[string]string{tenant.PublishedAnnotation: "true"}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		var metrics []byte
		read := func() string {
			metrics, err = client.RESTClient().Get().AbsPath("/metrics").Do(ctx).Raw()
			Expect(err).NotTo(HaveOccurred())
			return string(metrics)
		}
		Eventually(read).Should(ContainSubstring(`tenantry_published_objects{reason="InAllSpaces",resource="configmaps"} 1`))
		reference, err := os.ReadFile("../../../docs/reference/metrics.md")
		Expect(err).NotTo(HaveOccurred())
		for name := range names {
			// There is no KeystoneSync, no --search and no host.
			if slices.ContainsFunc([]string{"tenantry_keystone_sync_", "tenantry_search_", "tenantry_syncer_"}, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
				Expect(string(reference)).To(ContainSubstring("`" + name + "`"))
				continue
			}
			Expect(string(metrics)).To(ContainSubstring("# TYPE " + name + " "))
		}
		Expect(string(metrics)).To(ContainSubstring(`tenantry_published_copies{resource="configmaps",state="current"} `))
		for _, phase := range []string{"Ready", "Progressing", "Terminating"} {
			Expect(string(metrics)).To(ContainSubstring(`tenantry_tenants{phase="` + phase + `"}`))
		}
		Expect(string(metrics)).To(ContainSubstring(`controller_runtime_reconcile_total{controller="published",`))
		Expect(string(metrics)).To(ContainSubstring(`tenantry_tenant_requests_total{code="2xx",tenant="system"}`))
	})
})
