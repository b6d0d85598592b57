package usage

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	objectsHelp = "# HELP tenantry_tenant_objects Number of objects stored in the space of a tenant, events left out, as last counted. The tenants with the most bytes have series of their own.\n# TYPE tenantry_tenant_objects gauge\n"
	bytesHelp   = "# HELP tenantry_tenant_stored_bytes Bytes that the objects of a tenant take in etcd, events and etcd's history left out, as last counted. The tenants with the most bytes have series of their own.\n# TYPE tenantry_tenant_stored_bytes gauge\n"
)

func TestStored(t *testing.T) {
	usages := map[tenant.Name]*v1alpha1.TenantUsage{
		"a": {Objects: 10, StoredBytes: 1000}, "b": {Objects: 5, StoredBytes: 2000},
		"c": {Objects: 7, StoredBytes: 300}, "d": {Objects: 1, StoredBytes: 40},
	}
	for name, tc := range map[string]struct {
		limit int
		want  string
	}{
		"some": {2, objectsHelp + `
tenantry_tenant_objects{tenant="_other"} 8
tenantry_tenant_objects{tenant="a"} 10
tenantry_tenant_objects{tenant="b"} 5
` + bytesHelp + `
tenantry_tenant_stored_bytes{tenant="_other"} 340
tenantry_tenant_stored_bytes{tenant="a"} 1000
tenantry_tenant_stored_bytes{tenant="b"} 2000
`},
		"none": {0, objectsHelp + `
tenantry_tenant_objects{tenant="_other"} 23
` + bytesHelp + `
tenantry_tenant_stored_bytes{tenant="_other"} 3340
`},
		"all": {5, objectsHelp + `
tenantry_tenant_objects{tenant="_other"} 0
tenantry_tenant_objects{tenant="a"} 10
tenantry_tenant_objects{tenant="b"} 5
tenantry_tenant_objects{tenant="c"} 7
tenantry_tenant_objects{tenant="d"} 1
` + bytesHelp + `
tenantry_tenant_stored_bytes{tenant="_other"} 0
tenantry_tenant_stored_bytes{tenant="a"} 1000
tenantry_tenant_stored_bytes{tenant="b"} 2000
tenantry_tenant_stored_bytes{tenant="c"} 300
tenantry_tenant_stored_bytes{tenant="d"} 40
`},
	} {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewPedanticRegistry()
			registry.MustRegister(Stored{Limit: tc.limit, Each: func(visit func(tenant.Name, *v1alpha1.TenantUsage)) {
				for n, u := range usages {
					visit(n, u)
				}
			}}.collector())
			if err := testutil.GatherAndCompare(registry, strings.NewReader(tc.want)); err != nil {
				t.Error(err)
			}
		})
	}
}
