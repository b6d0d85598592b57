package cachememory

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tenantry/tenantry/internal/tenant"
)

func TestCacheMetrics(t *testing.T) {
	m := New(1000, 3000)
	for n, bytes := range map[tenant.Name]int64{"a": 10, "b": 30, "c": 20, "d": 5} {
		m.addLocked(n, bytes)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m.collector(2))
	if err := testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP tenantry_tenant_cache_all_bytes What all tenants together take of the server's memory: what tenantry_tenant_cache_bytes shows, and three times what they have stored.
# TYPE tenantry_tenant_cache_all_bytes gauge
tenantry_tenant_cache_all_bytes 65
# HELP tenantry_tenant_cache_all_limit_bytes What --tenant-cache-total-bytes allows all tenants together, 0 without a limit.
# TYPE tenantry_tenant_cache_all_limit_bytes gauge
tenantry_tenant_cache_all_limit_bytes 3000
# HELP tenantry_tenant_cache_bytes Bytes of the server's memory that definitions, policies and custom resources of tenants, and objects of empty entries, take, as --tenant-cache-bytes counts them. The tenants with the most have series of their own.
# TYPE tenantry_tenant_cache_bytes gauge
tenantry_tenant_cache_bytes{tenant="_other"} 15
tenantry_tenant_cache_bytes{tenant="b"} 30
tenantry_tenant_cache_bytes{tenant="c"} 20
# HELP tenantry_tenant_cache_limit_bytes What --tenant-cache-bytes allows each tenant.
# TYPE tenantry_tenant_cache_limit_bytes gauge
tenantry_tenant_cache_limit_bytes 1000
`)); err != nil {
		t.Error(err)
	}
}
