package replicas

import (
	"context"
	"strings"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

// recording makes a server record at once what tenants use.
const recording = "--tenant-usage-period=100ms"

// usageOf returns the objects and bytes that a Tenant says it has stored.
func usageOf(ctx context.Context, s *server, n tenant.Name) (objects, bytes int64) {
	return toldOf(ctx, s, n, "objects"), toldOf(ctx, s, n, "storedBytes")
}

// requestsOf returns how many requests a Tenant says its users have made.
func requestsOf(ctx context.Context, s *server, n tenant.Name) int64 {
	return toldOf(ctx, s, n, "requests")
}

func toldOf(ctx context.Context, s *server, n tenant.Name, field string) int64 {
	t, err := s.dynamic(tenant.System).Resource(v1alpha1.GroupVersion.WithResource("tenants")).Get(ctx, n.String(), metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	told, _, _ := unstructured.NestedInt64(t.Object, "status", "usage", field)
	return told
}

// storedBy returns what etcd holds with a tenant in its key, but for events and
// the tenant's quota, and how much more encryption makes of it at most.
func storedBy(ctx context.Context, prefix string, n tenant.Name) (objects, bytes, overhead int64) {
	for key, value := range etcd.stored(ctx, prefix+"/") {
		if !strings.Contains(key, "/"+n.String()+"/") || strings.HasPrefix(key, prefix+"/events/") || strings.HasSuffix(key, "/"+v1alpha1.TenantQuota) {
			continue
		}
		// System namespaces and custom resources in them may be called like a tenant.
		below := key[strings.Index(key, "/"+n.String()+"/"):]
		if strings.Count(below, "/") == 2 && (strings.HasPrefix(key, prefix+"/secrets/") || strings.HasPrefix(key, prefix+"/configmaps/") ||
			strings.Contains(key, "/"+widgets.Group+"/") || strings.HasPrefix(key, prefix+"/serviceaccounts/")) {
			continue
		}
		objects, bytes = objects+1, bytes+int64(len(value))
		if strings.HasPrefix(string(value), "k8s:enc:") {
			overhead += 100
		}
	}
	return objects, bytes, overhead
}
