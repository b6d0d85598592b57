package quota

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tenantry/tenantry/internal/tenant"
)

// counted returns the quota of n with amounts given as "used/hard".
func counted(n tenant.Name, amounts map[corev1.ResourceName]string) *corev1.ResourceQuota {
	q := &corev1.ResourceQuota{}
	q.Name, q.Namespace = keyOf(n).name, keyOf(n).namespace.String()
	q.Status.Used, q.Status.Hard = corev1.ResourceList{}, corev1.ResourceList{}
	for name, amount := range amounts {
		used, hard, _ := strings.Cut(amount, "/")
		q.Status.Used[name], q.Status.Hard[name] = resource.MustParse(used), resource.MustParse(hard)
	}
	return q
}

const (
	usedHelp = "# HELP tenantry_tenant_quota_used What tenants use of their quota, by resource, in its unit (cores, bytes, objects). The tenants with the least room have series of their own.\n# TYPE tenantry_tenant_quota_used gauge\n"
	hardHelp = "# HELP tenantry_tenant_quota_hard Hard limits of tenants' quotas, by resource, in its unit (cores, bytes, objects). The tenants with the least room have series of their own.\n# TYPE tenantry_tenant_quota_hard gauge\n"
)

func TestMetrics(t *testing.T) {
	var many []*corev1.ResourceQuota
	for i := range 2 * shownResources {
		many = append(many, counted(tenant.Name(fmt.Sprintf("t%d", i)), map[corev1.ResourceName]string{
			"pods": "1/2", corev1.ResourceName(fmt.Sprintf("count/x%d", i)): "0/1",
		}))
	}
	for name, tc := range map[string]struct {
		limit  int
		quotas []*corev1.ResourceQuota
		want   string
		series int
	}{
		"no tenants": {limit: 1},
		"the fullest have series": {
			limit: 2,
			quotas: []*corev1.ResourceQuota{
				counted("empty", map[corev1.ResourceName]string{"pods": "0/10", "limits.cpu": "0/2"}),
				counted("half", map[corev1.ResourceName]string{"pods": "5/10", "limits.cpu": "0/2"}),
				counted("none", map[corev1.ResourceName]string{"pods": "0/0"}),
				counted("over", map[corev1.ResourceName]string{"pods": "1/0"}),
				counted("some", map[corev1.ResourceName]string{"pods": "1/10", "limits.cpu": "1500m/2"}),
			},
			want: hardHelp + `
tenantry_tenant_quota_hard{resource="limits.cpu",tenant="_other"} 4
tenantry_tenant_quota_hard{resource="limits.cpu",tenant="some"} 2
tenantry_tenant_quota_hard{resource="pods",tenant="_other"} 20
tenantry_tenant_quota_hard{resource="pods",tenant="over"} 0
tenantry_tenant_quota_hard{resource="pods",tenant="some"} 10
` + usedHelp + `
tenantry_tenant_quota_used{resource="limits.cpu",tenant="_other"} 0
tenantry_tenant_quota_used{resource="limits.cpu",tenant="some"} 1.5
tenantry_tenant_quota_used{resource="pods",tenant="_other"} 5
tenantry_tenant_quota_used{resource="pods",tenant="over"} 1
tenantry_tenant_quota_used{resource="pods",tenant="some"} 1
`,
			series: 10,
		},
		// One tenant with the pods and one resource of its own, and the others together.
		"names are bounded": {limit: 1, quotas: many, series: 2*2 + 2*(shownResources-1)},
	} {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewPedanticRegistry()
			registry.MustRegister(collector(tc.limit, func() []*corev1.ResourceQuota { return tc.quotas }))
			if tc.want != "" {
				if err := testutil.GatherAndCompare(registry, strings.NewReader(tc.want)); err != nil {
					t.Error(err)
				}
			}
			if count, err := testutil.GatherAndCount(registry); err != nil || count != tc.series {
				t.Errorf("%d series, %v; want %d", count, err, tc.series)
			}
		})
	}
}

func BenchmarkMetrics(b *testing.B) {
	quotas := make([]*corev1.ResourceQuota, 10_000)
	for i := range quotas {
		quotas[i] = counted(tenant.Name(fmt.Sprintf("t%d", i)), map[corev1.ResourceName]string{
			"pods": "1/200", "requests.cpu": "100m/20", "requests.memory": "1Gi/64Gi", "limits.cpu": "1/40", "limits.memory": "1Gi/128Gi",
			"count/namespaces": "4/50", "count/secrets": "1/1000", "count/configmaps": "4/1000",
		})
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector(50, func() []*corev1.ResourceQuota { return slices.Clone(quotas) }))
	for b.Loop() {
		if _, err := registry.Gather(); err != nil {
			b.Fatal(err)
		}
	}
}
