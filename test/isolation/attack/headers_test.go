package attack

import (
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/tenantry/tenantry/internal/tenant"
)

var secrets = []string{"/api/v1/secrets", "/tenants/b/api/v1/secrets", "/api/v1/tenants/b/secrets", "/tenants/system/api/v1/secrets", "/tenants/all/api/v1/secrets"}

var _ = Describe("A header", func() {
	It("of a front proxy means nothing from anybody else", func(ctx SpecContext) {
		extra := "X-Remote-Extra-" + strings.ReplaceAll(tenant.UserExtraKey, "/", "%2f")
		former := "X-Remote-Extra-" + strings.ReplaceAll(tenant.Former(tenant.UserExtraKey), "/", "%2f")
		nobody := tenantry.Config("a")
		nobody.CertData, nobody.KeyData = nil, nil
		for _, header := range []http.Header{
			{"X-Remote-User": {"admin"}, "X-Remote-Group": {"system:masters"}},
			{"X-Remote-User": {"admin"}, extra: {"b"}, former: {"b"}},
			{"X-Remote-User": {"admin"}, "X-Remote-Extra-Tenant": {"b"}, "X-Tenant": {"b"}},
			{"X-Remote-User": {"system:admin"}, "X-Remote-Group": {"system:masters"}, extra: {"system"}},
			{"X-Original-Url": {"/tenants/b/api/v1/secrets"}, "X-Rewrite-Url": {"/tenants/b/api/v1/secrets"}},
			{"X-Forwarded-Prefix": {"/tenants/b"}, "X-Forwarded-Uri": {"/tenants/b/api/v1/secrets"}, "Forwarded": {"host=b"}},
			{"X-Http-Method-Override": {"DELETE"}, "X-Forwarded-User": {"system:admin"}},
		} {
			for _, path := range secrets {
				c := call{method: http.MethodGet, path: path}
				got := newWire(tenantry.Config("a")).send(ctx, c, header)
				if path == secrets[0] {
					Expect(got.status).To(Equal(http.StatusOK), "%v: %s", header, got.body)
					Expect(got.body).To(ContainSubstring(`"own"`), "%v: not the own space", header)
				} else {
					Expect(got.status).To(Equal(http.StatusForbidden), "%s %v: %s", path, header, got.body)
				}
				Expect(got.body).NotTo(ContainSubstring(canary), "%s %v", path, header)
				got = newWire(nobody).send(ctx, c, header)
				Expect(got.status).To(BeElementOf(http.StatusUnauthorized, http.StatusForbidden), "%s %v: %s", path, header, got.body)
			}
		}
	}, NodeTimeout(time.Minute))

	It("that impersonates does not leave the tenant", func(ctx SpecContext) {
		attackers := []*wire{newWire(tenantry.Config("a")), newWire(tenantry.User("a", "admin", "system:masters")), newWire(tokenOf(ctx, "a", robot))}
		users := []string{"", "admin", "u", "b:admin", "system:admin", "system:apiserver", "system:node:n", "system:kube-controller-manager",
			"system:serviceaccount:default:robot", "system:serviceaccount:b|default:robot", "system:serviceaccount:kube-system:generic-garbage-collector"}
		groups := []string{"", "devs", "system:masters", "system:nodes", "system:serviceaccounts", "system:authenticated"}
		extras := []string{"", "a", "b", "system", "all", "*"}
		uids := []string{"", "b"}
		for _, w := range attackers {
			for _, u := range users {
				for _, group := range groups {
					for _, extra := range extras {
						for _, uid := range uids {
							header := http.Header{}
							for key, value := range map[string]string{
								"Impersonate-User": u, "Impersonate-Group": group, "Impersonate-Uid": uid,
								"Impersonate-Extra-" + strings.ReplaceAll(tenant.UserExtraKey, "/", "%2f"): extra,
							} {
								if value != "" {
									header[key] = []string{value}
								}
							}
							for _, path := range secrets[:2] {
								got := w.send(ctx, call{method: http.MethodGet, path: path}, header)
								Expect(got.body).NotTo(ContainSubstring(canary), "%s %v", path, header)
								if path != secrets[0] {
									Expect(got.status).To(BeNumerically(">=", 400), "%s %v: %s", path, header, got.body)
									Expect(got.status).To(BeNumerically("<", 500), "%s %v: %s", path, header, got.body)
								}
							}
						}
					}
				}
			}
		}
	}, NodeTimeout(2*time.Minute))

	It("that impersonates works within the tenant", func(ctx SpecContext) {
		got := newWire(tenantry.Config("a")).send(ctx, call{method: http.MethodGet, path: secrets[0]}, http.Header{"Impersonate-User": {"u"}})
		Expect(got.status).To(Equal(http.StatusForbidden), got.body)
		Expect(got.body).To(ContainSubstring(`User \"u\" cannot list resource \"secrets\"`))
	})
})
