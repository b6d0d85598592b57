//go:build keystone

package keystone

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
	"github.com/tenantry/tenantry/test/harness/sessions"
)

// newStockWebhook starts k8s-keystone-auth, which K8S_KEYSTONE_AUTH names or, without that, what
// answers as its version 1.36 does, and returns a file for --authentication-token-webhook-config-file.
func newStockWebhook() string {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	Expect(err).NotTo(HaveOccurred())
	var url string
	if stock := os.Getenv("K8S_KEYSTONE_AUTH"); stock != "" {
		for name, content := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
			Expect(os.WriteFile(filepath.Join(dir, name), content, 0o600)).To(Succeed())
		}
		address := "127.0.0.1:" + sessions.FreePort()
		session := sessions.Run(stock, "--listen", address, "--keystone-url", ks.url,
			"--tls-cert-file", filepath.Join(dir, "tls.crt"), "--tls-private-key-file", filepath.Join(dir, "tls.key"))
		DeferCleanup(func() { sessions.Kill(session) })
		Eventually(func() error { _, err := net.Dial("tcp", address); return err }).Should(Succeed())
		url = "https://" + address
	} else {
		pair, err := tls.X509KeyPair(certificate, key)
		Expect(err).NotTo(HaveOccurred())
		server := httptest.NewUnstartedServer(http.HandlerFunc(reviewAsStock))
		server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
		server.StartTLS()
		DeferCleanup(server.Close)
		url = server.URL
	}
	return writeKubeconfig(&rest.Config{Host: url + "/webhook", TLSClientConfig: rest.TLSClientConfig{CAData: certificate}})
}

// reviewAsStock answers TokenReviews as k8s-keystone-auth does: with the token itself it asks who
// has it, and for the names of the user's groups.
func reviewAsStock(w http.ResponseWriter, req *http.Request) {
	defer GinkgoRecover()
	var review object
	Expect(json.NewDecoder(req.Body).Decode(&review)).To(Succeed())
	if version := review["apiVersion"]; version != "authentication.k8s.io/v1beta1" {
		http.Error(w, fmt.Sprintf("unknown apiVersion %q", version), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	answer := func(code int, status object) {
		review["status"] = status
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(review)
	}
	token := review["spec"].(object)["token"].(string)
	code, _, body := ks.call(token, http.MethodGet, "/auth/tokens", nil, "X-Subject-Token", token)
	found, _ := body["token"].(object)
	project, scoped := found["project"].(object)
	if code != http.StatusOK || !scoped {
		answer(http.StatusUnauthorized, object{"authenticated": false, "user": object{"username": "", "uid": "", "groups": nil, "extra": nil}})
		return
	}
	names := func(all any) []any {
		result := []any{}
		for _, one := range all.([]any) {
			result = append(result, one.(object)["name"])
		}
		return result
	}
	u := found["user"].(object)
	_, _, groups := ks.call(token, http.MethodGet, "/users/"+u["id"].(string)+"/groups", nil)
	domain := u["domain"].(object)
	answer(http.StatusOK, object{"authenticated": true, "user": object{
		"username": u["name"], "uid": u["id"], "groups": append(names(groups["groups"]), project["id"]), "extra": object{
			"alpha.kubernetes.io/identity/roles":      names(found["roles"]),
			"alpha.kubernetes.io/identity/project/id": []any{project["id"]}, "alpha.kubernetes.io/identity/project/name": []any{project["name"]},
			"alpha.kubernetes.io/identity/user/domain/id": []any{domain["id"]}, "alpha.kubernetes.io/identity/user/domain/name": []any{domain["name"]},
		},
	}})
}

// selfAt returns who has a token at a server, by the short path.
func selfAt(ctx context.Context, administrator *rest.Config, token string) (authenticationv1.UserInfo, error) {
	config := rest.AnonymousClientConfig(administrator)
	config.BearerToken = token
	review, err := suite.Client(config).AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		_, _ = fmt.Fprintln(&logs, err)
		return authenticationv1.UserInfo{}, err
	}
	return review.Status.UserInfo, nil
}

var _ = Describe("The stock webhook", func() {
	It("gives what it says, and nothing that is Keystone's or the system's", func(ctx SpecContext) {
		path, err := binary()
		Expect(err).NotTo(HaveOccurred())
		home, abroad := ks.create("domain", ks.name("home"), nil), ks.create("domain", ks.name("abroad"), nil)
		project := ks.create("project", "web", object{"domain_id": home})
		group := func(name string, u user) {
			id := ks.create("group", name, object{"domain_id": home})
			ks.do(http.MethodPut, "/groups/"+id+"/users/"+u.id, nil)
		}
		newMember := func(domain, name string) user {
			u := ks.user(domain, name)
			grant("/projects/"+project, "/users/"+u.id, member)
			return u
		}
		jane, stranger := newMember(home, "jane"), newMember(abroad, "mallory")
		group("developers", jane)
		group("keystone:project:"+project+":admin", jane)
		group("system:masters", jane)
		hidden := []user{newMember(home, "system:admin"), newMember(home, "keystone:"+jane.id)}
		domainAdmin := ks.user(home, "boss")
		grant("/domains/"+home, "/users/"+domainAdmin.id, other)

		// Beside the server of this suite, which has no webhook, there are two that have it.
		servers := map[string]*follower{}
		hook := newStockWebhook()
		for _, version := range []string{"v1beta1", "v1"} {
			r := newFollower(path)
			servers[version] = r
			command := "tenantry up --authentication-token-webhook-config-file " + hook + " --authentication-token-webhook-version " + version
			if version == "v1beta1" {
				command += " --keystone-config " + configPath
			}
			r.serve(r.localize(command))
		}
		both, second := servers["v1beta1"], servers["v1"]
		beside, err := clientcmd.BuildConfigFromFlags("", filepath.Join(both.dir, ".tenantry", "admin.kubeconfig"))
		Expect(err).NotTo(HaveOccurred())
		for _, domain := range []string{home, abroad} {
			tenantry.CreateTenants(ctx, tenant.Name(domain))
			mark(ctx, tenant.Name(domain), domain)
			both.must(ctx, fmt.Sprintf(`kubectl create -f - <<< '{"apiVersion": "v1", "kind": "Tenant", "metadata": {"name": %q}}' &&
				kubectl wait --for=condition=Ready tenant/%s &&
				kubectl patch tenants.tenantry.io %s --subresource status --type merge -p '{"status": {"keystone": {"keystone": "default", "domainID": %q}}}'`,
				domain, domain, domain, domain))
		}

		ofTenant := func(n string) types.GomegaMatcher {
			return HaveKeyWithValue("tenantry.io/tenant", authenticationv1.ExtraValue{n})
		}
		ours := tenantry.Config(tenant.System)

		By("a user of the scope's domain, whose tenant is the same by both")
		token := ks.tokenOf(jane, inProject(project))
		var own, theirs authenticationv1.UserInfo
		Eventually(func() (err error) { own, err = selfAt(ctx, ours, token); return err }).Should(Succeed())
		Eventually(func() (err error) { theirs, err = selfAt(ctx, beside, token); return err }).Should(Succeed())
		Expect(own.Username).To(Equal("keystone:" + jane.id))
		Expect(theirs.Username).To(Equal("jane"))
		Expect(own.Groups).To(ConsistOf("keystone:project:"+project+":"+reader, "keystone:project:"+project+":"+member, "system:authenticated"))
		Expect(theirs.Groups).To(ConsistOf("developers", project, "system:authenticated"))
		Expect(own.Extra).To(ofTenant(home))
		Expect(theirs.Extra).To(And(ofTenant(home), HaveKeyWithValue("alpha.kubernetes.io/identity/roles", ContainElement("member"))))

		By("a user of another domain, whose tenant is not")
		token = ks.tokenOf(stranger, inProject(project))
		own, err = selfAt(ctx, ours, token)
		Expect(err).NotTo(HaveOccurred())
		theirs, err = selfAt(ctx, beside, token)
		Expect(err).NotTo(HaveOccurred())
		Expect(own.Extra).To(ofTenant(home))
		Expect(theirs.Extra).To(ofTenant(abroad))

		By("users with names of the system, and of Keystone's users")
		for _, u := range hidden {
			_, err = selfAt(ctx, beside, ks.tokenOf(u, inProject(project)))
			Expect(apierrors.IsUnauthorized(err)).To(BeTrue(), "%v", err)
		}

		By("a token of a domain, which the webhook does not take, and the server does")
		theirs, err = selfAt(ctx, beside, ks.tokenOf(domainAdmin, inDomain(home)))
		Expect(err).NotTo(HaveOccurred())
		Expect(theirs.Username).To(Equal("keystone:" + domainAdmin.id))

		By("a server that asks it by version v1, which it does not speak")
		alone, err := clientcmd.BuildConfigFromFlags("", filepath.Join(second.dir, ".tenantry", "admin.kubeconfig"))
		Expect(err).NotTo(HaveOccurred())
		_, err = selfAt(ctx, alone, ks.tokenOf(jane, inProject(project)))
		Expect(apierrors.IsUnauthorized(err)).To(BeTrue(), "%v", err)
	}, SpecTimeout(4*time.Minute))
})
