//go:build keystone

package keystone

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

// namedUser returns a new user of a domain, and its name.
func namedUser(domain string) (user, string) {
	GinkgoHelper()
	name := ks.name("jäne@example.com")
	return ks.user(domain, name), name
}

// withPassword returns the configuration of a client with a password, in the space of n or, if
// that is empty, by the short path.
func withPassword(n tenant.Name, name, password string) *rest.Config {
	config := rest.AnonymousClientConfig(tenantry.Config(tenant.System))
	config.Username, config.Password, config.QPS = name, password, -1
	if n == "" {
		return tenantry.ShortPath(config)
	}
	return tenantry.In(n, config)
}

// logIn returns what the server takes a password for.
func logIn(ctx context.Context, n tenant.Name, name, password string) (authenticationv1.UserInfo, error) {
	review, err := suite.Client(withPassword(n, name, password)).AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		_, _ = fmt.Fprintln(&logs, err)
		return authenticationv1.UserInfo{}, err
	}
	return review.Status.UserInfo, nil
}

// tryPassword returns the status and Retry-After of one request, which is not tried again.
func tryPassword(ctx context.Context, name, password string) (int, string) {
	GinkgoHelper()
	config := withPassword("acme", name, password)
	client, err := rest.HTTPClientFor(config)
	Expect(err).NotTo(HaveOccurred())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/api/v1/namespaces/default/pods", nil)
	Expect(err).NotTo(HaveOccurred())
	answer, err := client.Do(req)
	Expect(err).NotTo(HaveOccurred())
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	Expect(err).NotTo(HaveOccurred())
	_, _ = fmt.Fprintf(&logs, "%s\n", body)
	return answer.StatusCode, answer.Header.Get("Retry-After")
}

var _ = Describe("A password", Serial, func() {
	It("has the groups that tokens of the user would have in the tenant's domain", func(ctx SpecContext) {
		u, name := namedUser(acme)
		group := ks.create("group", ks.name("group"), object{"domain_id": acme})
		ks.do(http.MethodPut, "/groups/"+group+"/users/"+u.id, nil)
		grant("/projects/"+web, "/users/"+u.id, member)
		grant("/projects/"+data, "/groups/"+group, reader)
		grant("/domains/"+acme, "/users/"+u.id, other)
		elsewhere, off := ks.create("project", ks.name("web"), object{"domain_id": globex}), ks.create("project", ks.name("off"), object{"domain_id": acme})
		grant("/projects/"+elsewhere, "/users/"+u.id, member)
		grant("/projects/"+off, "/users/"+u.id, member)
		ks.set("project", off, object{"enabled": false})
		ks.set("user", u.id, object{"default_project_id": elsewhere})
		grant("/system", "/users/"+u.id, reader)
		info, err := logIn(ctx, "acme", name, u.password)
		Expect(err).NotTo(HaveOccurred())
		Expect(info.Username).To(Equal("keystone:" + u.id))
		Expect(info.Groups).To(ConsistOf("keystone:project:"+web+":"+member, "keystone:project:"+web+":"+reader,
			"keystone:project:"+data+":"+reader, "keystone:domain:"+acme+":"+other, "system:authenticated"))
		client := suite.Client(withPassword("acme", name, u.password))
		_, err = client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = client.CoreV1().Pods("kube-system").List(ctx, metav1.ListOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		metrics, err := tenantry.Client(tenant.System).RESTClient().Get().RequestURI("/metrics").DoRaw(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(metrics)).To(ContainSubstring(`tenantry_keystone_logins_total{result="valid"}`))
	})

	It("is asked about where the URL names the tenant of the user's domain alone", func(ctx SpecContext) {
		u, name := namedUser(acme)
		stranger, strange := namedUser(globex)
		grant("/projects/"+web, "/users/"+stranger.id, member)
		Expect(noTenant(ctx, ks.tokenOf(u, nil))).To(Succeed()) // the server has logged in
		before := way.requests()
		for _, n := range []tenant.Name{"", "fallback", tenant.System} {
			_, err := logIn(ctx, n, name, u.password)
			Expect(err).To(HaveOccurred(), "in %q", n)
		}
		for _, name := range []string{name + "\x00", "\xff", strings.Repeat("n", 256)} {
			status, _ := tryPassword(ctx, name, u.password)
			Expect(status).To(Equal(http.StatusUnauthorized))
		}
		status, _ := tryPassword(ctx, name, u.password+strings.Repeat("a", 4096))
		Expect(status).To(Equal(http.StatusUnauthorized))
		Expect(way.requests()).To(Equal(before))
		_, err := logIn(ctx, "acme", strange, stranger.password)
		Expect(apierrors.IsUnauthorized(err)).To(BeTrue(), "%v", err)
	})

	It("that is wrong is one attempt, however many requests it comes with", func(ctx SpecContext) {
		u, name := namedUser(acme)
		_, err := logIn(ctx, "acme", name, u.password)
		Expect(err).NotTo(HaveOccurred())
		before, wrong := way.requests(), ks.newPassword()
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() {
				defer GinkgoRecover()
				status, _ := tryPassword(ctx, name, wrong)
				Expect(status).To(Equal(http.StatusUnauthorized))
			})
		}
		wg.Wait()
		Expect(way.requests() - before).To(Equal(1))
	})

	It("is not guessed", func(ctx SpecContext) {
		u, name := namedUser(acme)
		grant("/projects/"+web, "/users/"+u.id, member)
		before := way.requests()
		statuses := map[int]int{}
		for range 30 {
			status, after := tryPassword(ctx, name, ks.newPassword())
			statuses[status]++
			Expect(after != "").To(Equal(status == http.StatusTooManyRequests), "%d: %q", status, after)
		}
		Expect(way.requests() - before).To(BeNumerically("<=", 6))
		Expect(statuses[http.StatusTooManyRequests]).To(BeNumerically(">=", 24), "%v", statuses)
		status, _ := tryPassword(ctx, name, u.password)
		Expect(status).To(Equal(http.StatusTooManyRequests), "the right one is neither accepted nor refused")
		neighbour, name := namedUser(acme)
		_, err := logIn(ctx, "acme", name, neighbour.password)
		Expect(err).NotTo(HaveOccurred(), "another user")
	})

	DescribeTable("is refused, or has less, within the TTL after", func(ctx SpecContext, end func(u user)) {
		u, name := namedUser(acme)
		grant("/projects/"+web, "/users/"+u.id, member)
		may := func() bool {
			_, err := suite.Client(withPassword("acme", name, u.password)).CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
			return err == nil
		}
		Expect(may()).To(BeTrue())
		end(u)
		begin := time.Now()
		Eventually(may).WithTimeout(ttl + time.Second).Should(BeFalse())
		AddReportEntry("refused after", time.Since(begin).String())
	},
		Entry("the password is set", func(u user) { ks.set("user", u.id, object{"password": ks.newPassword()}) }),
		Entry("the user is disabled", func(u user) { ks.set("user", u.id, object{"enabled": false}) }),
		Entry("the user is deleted", func(u user) { ks.do(http.MethodDelete, "/users/"+u.id, nil) }),
		Entry("the role is withdrawn", func(u user) { ks.do(http.MethodDelete, "/projects/"+web+"/users/"+u.id+"/roles/"+member, nil) }),
	)

	It("is neither accepted nor refused while Keystone is away", func(ctx SpecContext) {
		u, name := namedUser(acme)
		grant("/projects/"+web, "/users/"+u.id, member)
		known, second := namedUser(acme)
		_, err := logIn(ctx, "acme", second, known.password)
		Expect(err).NotTo(HaveOccurred())
		way.stop()
		_, err = logIn(ctx, "acme", second, known.password)
		Expect(err).NotTo(HaveOccurred(), "a remembered password")
		for range 10 {
			status, after := tryPassword(ctx, name, u.password)
			Expect(status).To(Equal(http.StatusServiceUnavailable))
			Expect(after).NotTo(BeEmpty())
		}
		way.start()
		status, _ := tryPassword(ctx, name, u.password)
		Expect(status).To(Equal(http.StatusOK), "at once, as nothing is remembered of the outage")
	})
})
