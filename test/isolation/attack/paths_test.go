package attack

import (
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// others are ways to write the path of b's secrets, or the system's, that some
// reader might take for a's own or for nobody's.
var others = []string{
	"/tenants/b/api/v1/secrets",
	"/tenants/%62/api/v1/secrets",
	"/tenants/B/api/v1/secrets",
	"/Tenants/b/api/v1/secrets",
	"/%74enants/b/api/v1/secrets",
	"/tenants%2fb/api/v1/secrets",
	"/tenants/b%2fapi/v1/secrets",
	"/tenants/b%00/api/v1/secrets",
	"/tenants/b%20/api/v1/secrets",
	"/tenants/b;a/api/v1/secrets",
	"//tenants/b/api/v1/secrets",
	"/tenants//b/api/v1/secrets",
	"/tenants/b//api/v1/secrets",
	"/./tenants/b/api/v1/secrets",
	"/tenants/a/../b/api/v1/secrets",
	"/tenants/a/%2e%2e/b/api/v1/secrets",
	"/tenants/a/..%2fb/api/v1/secrets",
	"/tenants/a/..;/b/api/v1/secrets",
	"/tenants/a/tenants/b/api/v1/secrets",
	"/tenants/a/api/v1/tenants/b/secrets",
	"/tenants/b/api/v1/tenants/a/secrets",
	"/tenants/b/api/v1/tenants/b/secrets",
	"/tenants/system/api/v1/tenants/a/secrets",
	"/tenants/a,b/api/v1/secrets",
	"/tenants/a|b/api/v1/secrets",
	"/tenants/*/api/v1/secrets",
	"/tenants/all/api/v1/secrets",
	"/tenants/ALL/api/v1/secrets",
	"/tenants/everything/api/v1/secrets",
	"/tenants/system/api/v1/secrets",
	"/api/v1/tenants/b/secrets",
	"/api/v1/tenants/%62/secrets",
	"/api/v1/tenants/b%2fsecrets",
	"/api/v1/tenants/a/../b/secrets",
	"/api/v1/tenants/a/tenants/b/secrets",
	"/api/v1/tenants/b/namespaces/default/secrets/seed",
	"/api/v1/tenants/b/namespaces/default/secrets/seed?pretty=true",
	"/api/v1/watch/tenants/b/secrets",
	"/api/v1/tenants/b/watch/secrets",
	"/api/v1/namespaces/default/tenants/b/secrets",
	"/api/v1/namespaces/b%7cdefault/secrets",
	"/api/v1/namespaces/b|default/secrets",
	"/api/v1/namespaces/t%2fb%2fdefault/secrets/seed",
	"/api/v1/namespaces/default/secrets/..%2f..%2f..%2fb%2fdefault%2fsecrets%2fseed",
	"/api/v1/namespaces/..%2fb%2fdefault/secrets/seed",
	"/api/v1/secrets?tenant=b",
	"/api/v1/secrets?fieldSelector=metadata.namespace%3Db",
	"/api/v1/secrets?fieldSelector=metadata.namespace%3Db%7cdefault",
	"/api/v1/secrets?fieldSelector=metadata.tenant%3Db",
	"/api/v1/secrets?labelSelector=attack%3D" + canary,
	"/api/v1/secrets?continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIuLi9iL2RlZmF1bHQvIn0",
	"/api/v1/namespaces/b/secrets",
	"/api/v1/namespaces/default/secrets/b",
	"/apis/tenantry.io/v1alpha1/tenants/b/secrets",
	"/apis//v1/tenants/b/secrets",
	"/api/v1/tenants",
	"/api/v1/tenants/b",
	"/api/v1/tenants/b/status",
	"/apis/tenantry.io/v1alpha1/tenants",
	"/apis/tenantry.io/v1alpha1/tenants/b",
	"/tenants/a/api/v1/tenants/b",
	"/tenants/b",
	"/tenants/b/",
	"/tenants/",
	"/tenants",
}

var _ = Describe("A path", func() {
	It("shows a user of a nothing of others, however it is written", func(ctx SpecContext) {
		w := newWire(tenantry.Config("a"))
		for _, path := range others {
			c := call{method: http.MethodGet, path: path}
			answers := map[string]answer{"HTTP/1.1": w.sendPlain(ctx, c, nil)}
			if !strings.HasPrefix(path, "//") { // which is not a path for this client over HTTP/2
				answers["HTTP/2"] = w.send(ctx, c, nil)
			}
			for version, got := range answers {
				Expect(got.status).To(Or(Equal(http.StatusOK), And(BeNumerically(">=", 300), BeNumerically("<", 500))), "%s %s: %s", version, path, got.body)
				Expect(got.body).NotTo(ContainSubstring(canary), "%s %s", version, path)
			}
		}
	}, NodeTimeout(time.Minute))

	It("of the system's own is not there for the administrator of a", func(ctx SpecContext) {
		w := newWire(tenantry.Config("a"))
		for _, path := range []string{
			"/api/v1/nodes", "/api/v1/nodes/n", "/api/v1/nodes/n/proxy/metrics", "/api/v1/nodes/n/status", "/api/v1/watch/nodes",
			"/api/v1/tenants", "/api/v1/tenants/b", "/apis/tenantry.io/v1alpha1/tenants", "/api/v1/componentstatuses",
			"/apis/tenantry.io/v1alpha1/publishedobjects", "/apis/tenantry.io/v1alpha1/keystonesyncs",
			"/apis/apiregistration.k8s.io/v1/apiservices/v1./status",
			"/metrics", "/metrics/slis", "/debug/pprof", "/debug/pprof/heap", "/debug/flags/v", "/debug/api_priority_and_fairness/dump_requests",
			"/logs", "/logs/kube-apiserver.log", "/configz", "/statusz", "/flagz", "/swagger.json",
			"/api/v1/namespaces/default/pods/p/proxy", "/api/v1/namespaces/default/services/kubernetes/proxy/api",
			"/api/v1/namespaces/default/services/https:kubernetes:443/proxy/api/v1/secrets",
		} {
			for _, root := range []string{"", "/tenants/a", "/tenants/system", "/tenants/b"} {
				got := w.send(ctx, call{method: http.MethodGet, path: root + path}, nil)
				Expect(got.status).To(BeElementOf(http.StatusForbidden, http.StatusNotFound), "%s: %s", root+path, got.body)
				Expect(got.body).NotTo(ContainSubstring(canary))
			}
		}
	}, NodeTimeout(time.Minute))

	It("leads nobody anywhere without credentials", func(ctx SpecContext) {
		config := tenantry.Config("a")
		config.CertData, config.KeyData = nil, nil
		w := newWire(config)
		for _, root := range []string{"", "/tenants/a", "/tenants/b", "/tenants/nobody", "/tenants/system", "/tenants/all"} {
			for _, path := range []string{"/api", "/api/v1/secrets", "/apis/apps/v1/deployments", "/openapi/v2", "/metrics"} {
				got := w.send(ctx, call{method: http.MethodGet, path: root + path}, nil)
				Expect(got.status).To(BeElementOf(http.StatusUnauthorized, http.StatusForbidden), "%s: %s", root+path, got.body)
			}
		}
	})
})
