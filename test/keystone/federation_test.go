//go:build keystone

package keystone

import (
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// federation is an identity provider whose users are those of a header, which stands for what a
// module of SAML or OpenID Connect in front of Keystone says of them. They are in one group.
type federation struct{ id, group string }

func newFederation() federation {
	GinkgoHelper()
	id := ks.name("idp")
	group := "keystone:project:" + web + ":" + id[len(id)-13:] // as long as a name of a group may be
	f := federation{id, ks.create("group", group, object{"domain_id": acme})}
	ks.do(http.MethodPut, "/OS-FEDERATION/identity_providers/"+f.id, object{"identity_provider": object{"enabled": true}})
	ks.do(http.MethodPut, "/OS-FEDERATION/mappings/"+f.id, object{"mapping": object{"rules": []object{{
		"local":  []object{{"user": object{"name": "{0}"}}, {"group": object{"id": f.group}}},
		"remote": []object{{"type": "HTTP_X_TEST_USER"}},
	}}}})
	ks.do(http.MethodPut, "/OS-FEDERATION/identity_providers/"+f.id+"/protocols/mapped", object{"protocol": object{"mapping_id": f.id}})
	return f
}

// token returns one without scope.
func (f federation) token(name string) string {
	GinkgoHelper()
	status, header, answer := ks.call("", http.MethodGet, "/OS-FEDERATION/identity_providers/"+f.id+"/protocols/mapped/auth", nil, "X-Test-User", name)
	Expect(status).To(Equal(http.StatusCreated), "%v", answer)
	return header.Get("X-Subject-Token")
}

// scoped returns a token for a scope.
func (f federation) scoped(name string, scope object) string {
	GinkgoHelper()
	token, status := ks.authenticate(object{"methods": []string{"token"}, "token": object{"id": f.token(name)}}, scope)
	Expect(status).To(Equal(http.StatusCreated))
	return token
}

var _ = Describe("A federated user", func() {
	It("has the roles of the groups in the token, and nothing by any name", func(ctx SpecContext) {
		f := newFederation()
		grant("/projects/"+web, "/groups/"+f.group, member)
		Expect(noTenant(ctx, f.token("system:masters"))).To(Succeed())
		token := f.scoped("system:masters", inProject(web))
		info, err := whoami(ctx, token)
		Expect(err).NotTo(HaveOccurred())
		Expect(info.Username).To(MatchRegexp("^keystone:[0-9a-f]{64}$"))
		Expect(info.Extra).To(HaveKeyWithValue("keystone.tenantry.io/federated-group-ids", authenticationv1.ExtraValue{f.group}))
		Expect(groupsOf(ctx, token)).To(ConsistOf("keystone:project:"+web+":"+member, "keystone:project:"+web+":"+reader))
		Expect(can(ctx, token, "create", "pods", "default")).To(BeTrue())
		Expect(can(ctx, token, "list", "pods", "kube-public")).To(BeFalse())
		grant("/domains/"+acme, "/groups/"+f.group, member)
		Expect(groupsOf(ctx, f.scoped("jane", inDomain(acme)))).To(ConsistOf("keystone:domain:"+acme+":"+member, "keystone:domain:"+acme+":"+reader))
		By("being another one than a local user of the name")
		_, name := namedUser(acme)
		another, err := whoami(ctx, f.scoped(name, inProject(web)))
		Expect(err).NotTo(HaveOccurred())
		Expect(strings.TrimPrefix(another.Username, "keystone:")).To(HaveLen(64))
		status, _ := tryPassword(ctx, "jane", ks.newPassword())
		Expect(status).To(Equal(http.StatusUnauthorized))
	})

	DescribeTable("is refused within the TTL after", func(ctx SpecContext, end func(f federation)) {
		f := newFederation()
		grant("/projects/"+web, "/groups/"+f.group, member)
		token := f.scoped("jane", inProject(web))
		_, err := whoami(ctx, token)
		Expect(err).NotTo(HaveOccurred())
		end(f)
		begin := time.Now()
		Eventually(func() bool {
			_, err := whoami(ctx, token)
			return apierrors.IsUnauthorized(err)
		}).WithTimeout(ttl + time.Second).Should(BeTrue())
		AddReportEntry("refused after", time.Since(begin).String())
	},
		Entry("the group has lost its role", func(f federation) {
			ks.do(http.MethodDelete, "/projects/"+web+"/groups/"+f.group+"/roles/"+member, nil)
		}),
		Entry("the group is deleted", func(f federation) { ks.do(http.MethodDelete, "/groups/"+f.group, nil) }),
		// Keystone itself takes tokens of an identity provider that is disabled.
		Entry("the domain of the identity provider is disabled", func(f federation) {
			provider := ks.do(http.MethodGet, "/OS-FEDERATION/identity_providers/"+f.id, nil)["identity_provider"].(object)
			ks.set("domain", provider["domain_id"].(string), object{"enabled": false})
		}),
		Entry("the identity provider is deleted", func(f federation) {
			ks.do(http.MethodDelete, "/OS-FEDERATION/identity_providers/"+f.id, nil)
		}),
	)
})
