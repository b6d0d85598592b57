package authentication

import (
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// The hash is of "secret" ("openssl passwd -6").
const (
	tokenFile = `system-token,root,1,"system:masters,ops"
a-token,jane,2,"developers,system:masters",,a
old-format-token,joe,3,"g1,g2",other
`
	passwordFile = `plain,jane,1,"developers,system:masters",,a
` + hashed + `,joe,2,,b
plain,ops,3,operators
`
	hashed = "$6$saltsalt$TVLlQcbpFVof5W3Yz4DTP6gRstiNuHwwTt6GLc1E5n0U0aDehy0S5knV8wiOQSpT0Y77vwPZN.Pq.H91p5hVO1"
)

var _ = Describe("The token file", func() {
	It("tells the tenant", func() {
		bearer("system-token").expect("root", "system", "system:masters", "ops")
		bearer("a-token").expect("jane", "a", "developers")
		bearer("old-format-token").expect("joe", "system", "g1", "g2")
	})

	It("accepts nothing else", func() {
		for _, token := range []string{"unknown", "a-toke", "a-token2", "jane", "system-token,root"} {
			bearer(token).refused()
		}
	})

	It("is read again when it changes, and not if it is malformed", func() {
		DeferCleanup(func() {
			write("tokens.csv", []byte(tokenFile))
			Eventually(func(g Gomega) { g.Expect(status(bearer("a-token"))).To(Equal(http.StatusCreated)) }).Should(Succeed())
		})
		write("tokens.csv", []byte("next-token,jane,2,developers,,b\n"))
		Eventually(func() int { return status(bearer("next-token")) }).Should(Equal(http.StatusCreated))
		bearer("next-token").expect("jane", "b", "developers")
		bearer("a-token").refused()

		write("tokens.csv", []byte("next-token,jane,2,developers,,a\nbroken-token,jane\n"))
		Eventually(func() string {
			return metric(`tenantry_user_file_reloads_total{file="token",result="failure"}`)
		}).ShouldNot(BeElementOf("", "0"))
		bearer("next-token").expect("jane", "b", "developers")
	})
})

var _ = Describe("The basic-auth file", func() {
	It("tells the tenant", func() {
		basic("jane", "plain").expect("jane", "a", "developers")
		basic("joe", "secret").expect("joe", "b")
		basic("ops", "plain").expect("ops", "system", "operators")
	})

	It("refuses what is wrong and asks for a password", func() {
		for _, c := range []credentials{
			basic("jane", "secret"), basic("jane", ""), basic("nobody", "plain"), basic("joe", hashed), basic("", ""), basic("a:jane", "plain"),
		} {
			c.refused()
			response, _ := c.do(http.MethodGet, "/api", nil)
			Expect(response.Header.Get("WWW-Authenticate")).To(HavePrefix("Basic realm="))
		}
		response, _ := basic("jane", "plain").do(http.MethodGet, "/api", nil)
		Expect(response.Header).NotTo(HaveKey("Www-Authenticate"))
	})

	It("is read again when it changes", func() {
		DeferCleanup(func() {
			write("passwords.csv", []byte(passwordFile))
			Eventually(func() int { return status(basic("jane", "plain")) }).Should(Equal(http.StatusCreated))
		})
		write("passwords.csv", []byte("other,jane,1,,b\n"))
		Eventually(func() int { return status(basic("jane", "other")) }).Should(Equal(http.StatusCreated))
		basic("jane", "other").expect("jane", "b")
		basic("jane", "plain").refused()
		basic("joe", "secret").refused()
	})
})

func status(c credentials) int {
	code, _ := c.whoami()
	return code
}
