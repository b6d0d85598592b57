//go:build keystone

package keystone

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/standalone"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

// ttl is for how long the server remembers tokens.
const ttl = 3 * time.Second

var (
	tenantry *suite.Environment
	ks       *cloud
	way      *proxy
	front    *tamperer
	// configPath is that of the KeystoneConfiguration, and stateDir the server's directory.
	configPath, stateDir string
	// member and reader are roles, of which member implies reader; acme is a domain, and the
	// name of its tenant, globex a domain without one. web and data are projects of acme.
	member, reader, other string
	acme, globex          string
	web, data             string
)

func TestKeystone(t *testing.T) {
	suite.Run(t, "Keystone")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	ks = connect()
	asker := ks.user("default", ks.name("asker"))
	roles := map[string]string{}
	for _, role := range ks.do(http.MethodGet, "/roles", nil)["roles"].([]any) {
		roles[role.(object)["name"].(string)] = role.(object)["id"].(string)
	}
	member, reader = roles["member"], roles["reader"]
	other = ks.create("role", ks.name("other"), nil)
	ks.do(http.MethodPut, "/system/users/"+asker.id+"/roles/"+reader, nil)
	acme, globex = ks.create("domain", ks.name("acme"), nil), ks.create("domain", ks.name("globex"), nil)
	web, data = ks.create("project", "web", object{"domain_id": acme}), ks.create("project", "data", object{"domain_id": acme})

	front = newTamperer(ks.url)
	DeferCleanup(front.Close)
	way = newProxy(front.URL)
	DeferCleanup(way.stop)
	configPath = configure(asker)
	stateDir = GinkgoT().TempDir()
	tenantry = suite.Start(ctx, func(o *standalone.Options) {
		o.Dir, o.Server.Authentication.KeystoneConfig, o.Server.DefaultTenant = stateDir, configPath, "fallback"
	})
	klog.SetOutput(io.MultiWriter(GinkgoWriter, &logs))
	tenantry.CreateTenants(ctx, "acme")
	mark(ctx, "acme", acme)
	admin := tenantry.Client("acme")
	for _, namespace := range []string{"default", "kube-public"} {
		_, err := admin.RbacV1().RoleBindings(namespace).Create(ctx, binding("keystone:project:"+map[string]string{"default": web, "kube-public": data}[namespace]+":"+member), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
	_, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "domain"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "keystone:domain:" + acme + ":" + member}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}, NodeTimeout(suite.StartTimeout))

func binding(group string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "project"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group}},
	}
}

// configure writes the files of a KeystoneConfiguration.
func configure(asker user) string {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	clouds := fmt.Sprintf("clouds: {asker: {auth: {user_id: %q, password: %q, system_scope: all}}}\n", asker.id, asker.password)
	config := fmt.Sprintf("apiVersion: config.tenantry.io/v1alpha1\nkind: KeystoneConfiguration\nurl: http://%s/v3\ncloudsFile: clouds.yaml\n"+
		"cloud: asker\ncacheTTL: %s\nnegativeCacheTTL: 1s\npasswords: Accept\n", way.address, ttl)
	for name, content := range map[string]string{"clouds.yaml": clouds, "keystone.yaml": config} {
		Expect(os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600)).To(Succeed())
	}
	return filepath.Join(dir, "keystone.yaml")
}

// mark writes into the status of a tenant which domain it is.
func mark(ctx context.Context, n tenant.Name, domain string) {
	GinkgoHelper()
	tenants := suite.Dynamic(tenantry.Config(tenant.System)).Resource(schema.GroupVersionResource{Group: "tenantry.io", Version: "v1alpha1", Resource: "tenants"})
	patch := fmt.Sprintf(`{"status":{"keystone":{"keystone":"default","domainID":%q}}}`, domain)
	_, err := tenants.Patch(ctx, string(n), types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	Expect(err).NotTo(HaveOccurred())
}

// as returns a client with a token, in the space of n or, if that is empty, by the
// short path.
func as(n tenant.Name, token string) *kubernetes.Clientset {
	GinkgoHelper()
	admin := tenantry.Config(tenant.System)
	config := rest.AnonymousClientConfig(admin)
	config.BearerToken, config.QPS = token, -1
	if n == "" {
		return suite.Client(tenantry.ShortPath(config))
	}
	return suite.Client(tenantry.In(n, config))
}

// whoami returns what the server takes a token for.
func whoami(ctx context.Context, token string) (authenticationv1.UserInfo, error) {
	review, err := as("acme", token).AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		_, _ = fmt.Fprintln(&logs, err)
		return authenticationv1.UserInfo{}, err
	}
	return review.Status.UserInfo, nil
}

// groupsOf returns the groups of a token in Keystone.
func groupsOf(ctx context.Context, token string) []string {
	GinkgoHelper()
	u, err := whoami(ctx, token)
	Expect(err).NotTo(HaveOccurred())
	var groups []string
	for _, group := range u.Groups {
		if group != "system:authenticated" {
			groups = append(groups, group)
		}
	}
	return groups
}

// can reports whether a token may do something in acme.
func can(ctx context.Context, token, verb, resource, namespace string) bool {
	GinkgoHelper()
	review, err := as("acme", token).AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Resource: resource, Namespace: namespace}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return review.Status.Allowed
}

// grant gives a user, or a group, a role.
func grant(where, who, role string) { ks.do(http.MethodPut, where+who+"/roles/"+role, nil) }

func newUser() user { return ks.user(acme, ks.name("user")) }

var _ = Describe("A token of Keystone", func() {
	It("of a project has rights in that project alone", func(ctx SpecContext) {
		u := newUser()
		grant("/projects/"+web, "/users/"+u.id, member)
		token := ks.tokenOf(u, inProject(web))
		info, err := whoami(ctx, token)
		Expect(err).NotTo(HaveOccurred())
		Expect(info.Username).To(Equal("keystone:" + u.id))
		Expect(info.UID).To(Equal(u.id))
		Expect(info.Extra).To(HaveKeyWithValue("tenantry.io/tenant", authenticationv1.ExtraValue{"acme"}))
		Expect(groupsOf(ctx, token)).To(ConsistOf("keystone:project:"+web+":"+member, "keystone:project:"+web+":"+reader))
		Expect(can(ctx, token, "create", "pods", "default")).To(BeTrue())
		Expect(can(ctx, token, "create", "pods", "kube-public")).To(BeFalse())
		Expect(can(ctx, token, "list", "namespaces", "")).To(BeFalse())
		_, err = as("acme", token).CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = as("", token).CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred(), "the short path")
		for _, n := range []tenant.Name{tenant.System, "fallback"} {
			_, err = as(n, token).CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", n, err)
		}
	})

	It("of a domain has the tenant", func(ctx SpecContext) {
		u := newUser()
		grant("/domains/"+acme, "/users/"+u.id, member)
		token := ks.tokenOf(u, inDomain(acme))
		Expect(groupsOf(ctx, token)).To(ConsistOf("keystone:domain:"+acme+":"+member, "keystone:domain:"+acme+":"+reader))
		Expect(can(ctx, token, "list", "pods", "kube-public")).To(BeTrue())
	})

	It("has the tenant of its scope, not that of its user's domain", func(ctx SpecContext) {
		stranger := ks.user(globex, ks.name("mallory"))
		grant("/projects/"+data, "/users/"+stranger.id, reader)
		Expect(groupsOf(ctx, ks.tokenOf(stranger, inProject(data)))).To(ConsistOf("keystone:project:" + data + ":" + reader))
		u := newUser()
		elsewhere := ks.create("project", "web", object{"domain_id": globex})
		grant("/projects/"+elsewhere, "/users/"+u.id, member)
		Expect(noTenant(ctx, ks.tokenOf(u, inProject(elsewhere)))).To(Succeed())
	})

	It("has no tenant without a scope, with that of the system or that of a domain without tenant", func(ctx SpecContext) {
		u := newUser()
		Expect(noTenant(ctx, ks.tokenOf(u, nil))).To(Succeed())
		grant("/system", "/users/"+u.id, reader)
		Expect(noTenant(ctx, ks.tokenOf(u, object{"system": object{"all": true}}))).To(Succeed())
		grant("/domains/default", "/users/"+u.id, member)
		Expect(noTenant(ctx, ks.tokenOf(u, inDomain("default")))).To(Succeed())
	})

	It("of an application credential has the credential's roles", func(ctx SpecContext) {
		u := newUser()
		grant("/projects/"+web, "/users/"+u.id, member)
		token, _ := credential(u, object{"roles": []object{{"id": reader}}})
		Expect(groupsOf(ctx, token)).To(ConsistOf("keystone:project:" + web + ":" + reader))
		info, err := whoami(ctx, token)
		Expect(err).NotTo(HaveOccurred())
		Expect(info.Username).To(Equal("keystone:" + u.id))
		Expect(info.Extra).To(HaveKeyWithValue("keystone.tenantry.io/application-credential-restricted", authenticationv1.ExtraValue{"true"}))
		By("having access rules, which the server does not enforce")
		token, _ = credential(u, object{"access_rules": []object{{"service": "identity", "method": "GET", "path": "/v3/users"}}})
		_, err = whoami(ctx, token)
		Expect(apierrors.IsUnauthorized(err)).To(BeTrue(), "%v", err)
	})

	It("of a trust is refused if it impersonates", func(ctx SpecContext) {
		giver, taker := newUser(), newUser()
		grant("/projects/"+web, "/users/"+giver.id, member)
		token, _ := trust(giver, taker, true)
		_, err := whoami(ctx, token)
		Expect(apierrors.IsUnauthorized(err)).To(BeTrue(), "%v", err)
		token, _ = trust(giver, taker, false)
		info, err := whoami(ctx, token)
		Expect(err).NotTo(HaveOccurred())
		Expect(info.Username).To(Equal("keystone:" + taker.id))
		Expect(groupsOf(ctx, token)).To(ContainElement("keystone:project:" + web + ":" + member))
	})

	It("gives nothing by the names of things", func(ctx SpecContext) {
		for i, name := range []string{"system:admin", "system:kube-scheduler", "bob:x", "keystone:" + acme, strings.Repeat("ü", 64), "a\x1b[2Jb", "admin"} {
			other := ks.create("role", "system:masters"+ks.name(""), nil)
			u := ks.user(acme, name)
			hostile := ks.create("project", name, object{"domain_id": acme})
			grant("/projects/"+hostile, "/users/"+u.id, other)
			group := ks.create("group", fmt.Sprintf("keystone:project:%s:admin-%d", web, i), object{"domain_id": acme})
			ks.do(http.MethodPut, "/groups/"+group+"/users/"+u.id, nil)
			token := ks.tokenOf(u, inProject(hostile))
			info, err := whoami(ctx, token)
			Expect(err).NotTo(HaveOccurred())
			Expect(info.Username).To(Equal("keystone:" + u.id))
			Expect(groupsOf(ctx, token)).To(ConsistOf("keystone:project:" + hostile + ":" + other))
			Expect(info.Extra["keystone.tenantry.io/user-name"]).NotTo(ContainElement(ContainSubstring("\x1b")))
			for _, namespace := range []string{"default", "kube-system", "kube-public", ""} {
				Expect(can(ctx, token, "list", "pods", namespace)).To(BeFalse(), "%q in %q", name, namespace)
			}
		}
	})

	It("is asked about once, however many requests it comes with", func(ctx SpecContext) {
		u := newUser()
		grant("/projects/"+web, "/users/"+u.id, member)
		token := ks.tokenOf(u, inProject(web))
		Expect(noTenant(ctx, ks.tokenOf(u, nil))).To(Succeed()) // the server has logged in
		before, begin := way.requests(), time.Now()
		client := as("acme", token)
		var wg sync.WaitGroup
		for range 500 {
			wg.Go(func() {
				defer GinkgoRecover()
				_, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
				Expect(err).NotTo(HaveOccurred())
			})
		}
		wg.Wait()
		Expect(way.requests() - before).To(BeNumerically("<=", 1+int(time.Since(begin)/ttl)))
		before = way.requests()
		for range 100 {
			_, err := whoami(ctx, "gAAAAA"+strings.Repeat("b", 180))
			Expect(apierrors.IsUnauthorized(err)).To(BeTrue(), "%v", err)
		}
		Expect(way.requests() - before).To(BeNumerically("<=", 2)) // denials are remembered for a second
	})
})

// noTenant succeeds if a token is that of a user without tenant.
func noTenant(ctx context.Context, token string) error {
	GinkgoHelper()
	for _, n := range []tenant.Name{"", "acme", "fallback", tenant.System} {
		_, err := as(n, token).CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		if !apierrors.IsForbidden(err) {
			return fmt.Errorf("in %q: %w", n, err)
		}
	}
	return nil
}

// credential returns a token of a new application credential of a user for web, and what
// deletes the credential.
func credential(u user, fields object) (string, func()) {
	GinkgoHelper()
	own := ks.tokenOf(u, inProject(web))
	secret := ks.newPassword()
	body := object{"name": ks.name("credential"), "secret": secret}
	for key, value := range fields {
		body[key] = value
	}
	path := "/users/" + u.id + "/application_credentials"
	status, _, answer := ks.call(own, http.MethodPost, path, object{"application_credential": body})
	Expect(status).To(Equal(http.StatusCreated), "%v", answer)
	id := answer["application_credential"].(object)["id"].(string)
	token, status := ks.authenticate(object{"methods": []string{"application_credential"}, "application_credential": object{"id": id, "secret": secret}}, nil)
	Expect(status).To(Equal(http.StatusCreated))
	return token, func() {
		status, _, answer := ks.call(own, http.MethodDelete, path+"/"+id, nil)
		Expect(status).To(Equal(http.StatusNoContent), "%v", answer)
	}
}

// trust returns a token of a new trust for web, and what deletes the trust.
func trust(giver, taker user, impersonates bool) (string, func()) {
	GinkgoHelper()
	own := ks.tokenOf(giver, inProject(web))
	status, _, answer := ks.call(own, http.MethodPost, "/OS-TRUST/trusts", object{"trust": object{
		"trustor_user_id": giver.id, "trustee_user_id": taker.id, "project_id": web, "impersonation": impersonates, "roles": []object{{"id": member}},
	}})
	Expect(status).To(Equal(http.StatusCreated), "%v", answer)
	id := answer["trust"].(object)["id"].(string)
	return ks.tokenOf(taker, object{"OS-TRUST:trust": object{"id": id}}), func() {
		status, _, answer := ks.call(own, http.MethodDelete, "/OS-TRUST/trusts/"+id, nil)
		Expect(status).To(Equal(http.StatusNoContent), "%v", answer)
	}
}

var _ = Describe("What Keystone withdraws", func() {
	// Each entry returns a token that works, and what ends it.
	refused := func(prepare func(ctx context.Context) (string, func())) func(SpecContext) {
		return func(ctx SpecContext) {
			token, end := prepare(ctx)
			_, err := whoami(ctx, token)
			Expect(err).NotTo(HaveOccurred())
			end()
			begin := time.Now()
			Eventually(func() bool {
				_, err := whoami(ctx, token)
				return apierrors.IsUnauthorized(err)
			}).WithTimeout(ttl + time.Second).Should(BeTrue())
			AddReportEntry("refused after", time.Since(begin).String())
		}
	}
	// ofProject is a token of a user with a role in a new project.
	ofProject := func(end func(u user, project, token string)) func(SpecContext) {
		return refused(func(context.Context) (string, func()) {
			u, project := newUser(), ks.create("project", ks.name("p"), object{"domain_id": acme})
			grant("/projects/"+project, "/users/"+u.id, member)
			token := ks.tokenOf(u, inProject(project))
			return token, func() { end(u, project, token) }
		})
	}
	DescribeTable("is refused", func(ctx SpecContext, run func(SpecContext)) { run(ctx) },
		Entry("a token", ofProject(func(_ user, _, token string) {
			status, _, _ := ks.call(ks.token, http.MethodDelete, "/auth/tokens", nil, "X-Subject-Token", token)
			Expect(status).To(Equal(http.StatusNoContent))
		})),
		Entry("the last role", ofProject(func(u user, project, _ string) {
			ks.do(http.MethodDelete, "/projects/"+project+"/users/"+u.id+"/roles/"+member, nil)
		})),
		Entry("a user is disabled", ofProject(func(u user, _, _ string) { ks.set("user", u.id, object{"enabled": false}) })),
		Entry("a user is deleted", ofProject(func(u user, _, _ string) { ks.do(http.MethodDelete, "/users/"+u.id, nil) })),
		Entry("a password is set", ofProject(func(u user, _, _ string) {
			ks.set("user", u.id, object{"password": ks.newPassword()})
		})),
		Entry("a project is disabled", ofProject(func(_ user, project, _ string) { ks.set("project", project, object{"enabled": false}) })),
		Entry("a project is deleted", ofProject(func(_ user, project, _ string) { ks.do(http.MethodDelete, "/projects/"+project, nil) })),
		Entry("a user leaves a group", refused(func(context.Context) (string, func()) {
			u, group := newUser(), ks.create("group", ks.name("group"), object{"domain_id": acme})
			ks.do(http.MethodPut, "/groups/"+group+"/users/"+u.id, nil)
			grant("/projects/"+web, "/groups/"+group, member)
			return ks.tokenOf(u, inProject(web)), func() { ks.do(http.MethodDelete, "/groups/"+group+"/users/"+u.id, nil) }
		})),
		Entry("a group is deleted", refused(func(context.Context) (string, func()) {
			u, group := newUser(), ks.create("group", ks.name("group"), object{"domain_id": acme})
			ks.do(http.MethodPut, "/groups/"+group+"/users/"+u.id, nil)
			grant("/projects/"+web, "/groups/"+group, member)
			return ks.tokenOf(u, inProject(web)), func() { ks.do(http.MethodDelete, "/groups/"+group, nil) }
		})),
		Entry("a role is deleted", refused(func(context.Context) (string, func()) {
			u, role := newUser(), ks.create("role", ks.name("role"), nil)
			grant("/projects/"+web, "/users/"+u.id, role)
			return ks.tokenOf(u, inProject(web)), func() { ks.do(http.MethodDelete, "/roles/"+role, nil) }
		})),
		Entry("an application credential", refused(func(context.Context) (string, func()) {
			u := newUser()
			grant("/projects/"+web, "/users/"+u.id, member)
			return credential(u, nil)
		})),
		Entry("a trust", refused(func(context.Context) (string, func()) {
			giver, taker := newUser(), newUser()
			grant("/projects/"+web, "/users/"+giver.id, member)
			return trust(giver, taker, false)
		})),
		Entry("a role of who gave a trust", refused(func(context.Context) (string, func()) {
			giver, taker := newUser(), newUser()
			grant("/projects/"+web, "/users/"+giver.id, member)
			token, _ := trust(giver, taker, false)
			return token, func() { ks.do(http.MethodDelete, "/projects/"+web+"/users/"+giver.id+"/roles/"+member, nil) }
		})),
		Entry("who gave a trust is disabled", refused(func(context.Context) (string, func()) {
			giver, taker := newUser(), newUser()
			grant("/projects/"+web, "/users/"+giver.id, member)
			token, _ := trust(giver, taker, false)
			return token, func() { ks.set("user", giver.id, object{"enabled": false}) }
		})),
	)

	It("is a domain, whose tokens are valid again when it is enabled again", func(ctx SpecContext) {
		domain := ks.create("domain", ks.name("domain"), nil)
		u := ks.user(domain, ks.name("user"))
		grant("/projects/"+web, "/users/"+u.id, member)
		refused(func(context.Context) (string, func()) {
			return ks.tokenOf(u, inProject(web)), func() { ks.set("domain", domain, object{"enabled": false}) }
		})(ctx)
		ks.set("domain", domain, object{"enabled": true})
		Eventually(func() error {
			_, err := whoami(ctx, ks.tokenOf(u, inProject(web)))
			return err
		}).WithTimeout(ttl + time.Second).Should(Succeed())
		refused(func(context.Context) (string, func()) {
			return ks.tokenOf(u, inProject(web)), func() {
				ks.set("domain", domain, object{"enabled": false})
				ks.do(http.MethodDelete, "/domains/"+domain, nil)
			}
		})(ctx)
	})

	It("are the rights of one role of several, and what is granted comes", func(ctx SpecContext) {
		u := newUser()
		grant("/projects/"+web, "/users/"+u.id, other)
		grant("/projects/"+web, "/users/"+u.id, member)
		token := ks.tokenOf(u, inProject(web))
		Expect(can(ctx, token, "create", "pods", "default")).To(BeTrue())
		ks.do(http.MethodDelete, "/projects/"+web+"/users/"+u.id+"/roles/"+member, nil)
		Eventually(func() []string { return groupsOf(ctx, token) }).WithTimeout(ttl + time.Second).Should(ConsistOf("keystone:project:" + web + ":" + other))
		Expect(can(ctx, token, "create", "pods", "default")).To(BeFalse())
		grant("/projects/"+web, "/users/"+u.id, member)
		Eventually(func() bool { return can(ctx, token, "create", "pods", "default") }).WithTimeout(ttl + time.Second).Should(BeTrue())
	})
})

var _ = Describe("A Keystone that is away", Serial, func() {
	It("is told from one that refuses", func(ctx SpecContext) {
		u := newUser()
		grant("/projects/"+web, "/users/"+u.id, member)
		known, unknown := ks.tokenOf(u, inProject(web)), ks.tokenOf(u, inProject(web))
		_, err := whoami(ctx, known)
		Expect(err).NotTo(HaveOccurred())
		way.stop()
		_, err = whoami(ctx, known)
		Expect(err).NotTo(HaveOccurred(), "a remembered token")
		status, after := answerTo(ctx, unknown)
		Expect(status).To(Equal(http.StatusServiceUnavailable))
		Expect(after).NotTo(BeEmpty())
		_, err = tenantry.Client("acme").CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred(), "a certificate")
		Eventually(func() int { status, _ := answerTo(ctx, known); return status }).WithTimeout(ttl + time.Second).Should(Equal(http.StatusServiceUnavailable))
		way.start()
		for _, token := range []string{known, unknown} {
			_, err = whoami(ctx, token)
			Expect(err).NotTo(HaveOccurred(), "at once, as nothing is remembered of the outage")
		}
	})
})

// answerTo returns the status and Retry-After of one request, which is not tried again.
func answerTo(ctx context.Context, token string) (int, string) {
	GinkgoHelper()
	config := rest.AnonymousClientConfig(tenantry.In("acme", tenantry.Config(tenant.System)))
	config.BearerToken = token
	client, err := rest.HTTPClientFor(config)
	Expect(err).NotTo(HaveOccurred())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/api/v1/namespaces/default/pods", nil)
	Expect(err).NotTo(HaveOccurred())
	answer, err := client.Do(req)
	Expect(err).NotTo(HaveOccurred())
	defer answer.Body.Close()
	return answer.StatusCode, answer.Header.Get("Retry-After")
}
