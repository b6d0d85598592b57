package flowcontrol

import (
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/endpoints/request"
	upstream "k8s.io/apiserver/pkg/util/flowcontrol"
	fcrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"

	"github.com/tenantry/tenantry/internal/tenant"
)

// BenchmarkHandle is what a request pays for tenants, and for upstream's estimate.
func BenchmarkHandle(b *testing.B) {
	for _, n := range []tenant.Name{tenant.System, "acme"} {
		for _, verb := range []string{"get", "list", "create"} {
			b.Run(string(n)+"/"+verb, func(b *testing.B) {
				c, _ := newControl()
				c.config.Concurrency = NewOptions().Concurrency
				u := userOf(n, "jane")
				info := &request.RequestInfo{Verb: verb, IsResourceRequest: true, Resource: "pods", APIPrefix: "api", APIVersion: "v1", Namespace: "default"}
				ctx := request.WithRequestInfo(contextOf(&tenant.Request{Authenticated: n}, u), info)
				digest := upstream.RequestDigest{RequestInfo: info, User: u}
				note := func(*flowcontrolv1.FlowSchema, *flowcontrolv1.PriorityLevelConfiguration, string) {}
				estimate := func() fcrequest.WorkEstimate { return fcrequest.WorkEstimate{} }
				b.ReportAllocs()
				for b.Loop() {
					c.Handle(ctx, digest, note, estimate, func(bool) {}, func() {})
				}
			})
		}
	}
}
