package authentication

import (
	"encoding/json"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	jose "gopkg.in/go-jose/go-jose.v2"
	"gopkg.in/go-jose/go-jose.v2/jwt"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

// every space in which the tests make service accounts of the same name.
var spaces = []tenant.Name{"a", "b", tenant.System}

func clientIn(t tenant.Name) kubernetes.Interface {
	GinkgoHelper()
	return suite.Client(tenantry.User(t, "admin", "system:masters"))
}

func newAccount(ctx SpecContext, t tenant.Name, name string) {
	GinkgoHelper()
	_, err := clientIn(t).CoreV1().ServiceAccounts("default").Create(ctx,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		Expect(clientIn(t).CoreV1().ServiceAccounts("default").DeleteCollection(ctx, metav1.DeleteOptions{},
			metav1.ListOptions{FieldSelector: "metadata.name=" + name})).To(Succeed())
	})
}

// requestToken asks for a bound token.
func requestToken(ctx SpecContext, t tenant.Name, name string, spec authenticationv1.TokenRequestSpec) string {
	GinkgoHelper()
	request, err := clientIn(t).CoreV1().ServiceAccounts("default").CreateToken(ctx, name,
		&authenticationv1.TokenRequest{Spec: spec}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return request.Status.Token
}

// secretToken makes a secret for a service account and returns what is in it
// once it is filled.
func secretToken(ctx SpecContext, t tenant.Name, name string) map[string][]byte {
	GinkgoHelper()
	secrets := clientIn(t).CoreV1().Secrets("default")
	_, err := secrets.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: name}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	var data map[string][]byte
	Eventually(ctx, func(g Gomega) {
		secret, err := secrets.Get(ctx, name, metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(secret.Data).To(HaveKey(corev1.ServiceAccountTokenKey))
		data = secret.Data
	}).Should(Succeed())
	return data
}

// serverAudience is that of the server itself.
const serverAudience = "https://kubernetes.default.svc"

var accountGroups = []string{"system:serviceaccounts", "system:serviceaccounts:default"}

var _ = Describe("A service account", func() {
	It("acts in its own space, by both kinds of tokens", func(ctx SpecContext) {
		for _, t := range spaces {
			newAccount(ctx, t, "robot")
		}
		for _, t := range spaces {
			bound := bearer(requestToken(ctx, t, "robot", authenticationv1.TokenRequestSpec{}))
			bound.expect("system:serviceaccount:default:robot", t, accountGroups...)
			data := secretToken(ctx, t, "robot")
			Expect(string(data[corev1.ServiceAccountNamespaceKey])).To(Equal("default"))
			Expect(data[corev1.ServiceAccountRootCAKey]).NotTo(BeEmpty())
			legacy := bearer(string(data[corev1.ServiceAccountTokenKey]))
			// Upstream looks for the secrets of the system space in its cache.
			Eventually(ctx, func() int { return status(legacy) }).Should(Equal(http.StatusCreated))
			legacy.expect("system:serviceaccount:default:robot", t, accountGroups...)
			for _, other := range spaces {
				for _, c := range []credentials{bound, legacy} {
					response, body := c.do(http.MethodGet, "/tenants/"+string(other)+"/api", nil)
					want := http.StatusForbidden
					if t == other || t == tenant.System {
						want = http.StatusOK
					}
					Expect(response.StatusCode).To(Equal(want), "%s in %s: %s", t, other, body)
				}
			}
		}
	})

	It("loses its tokens with what they are bound to", func(ctx SpecContext) {
		var all []credentials
		for _, t := range spaces {
			accounts := clientIn(t).CoreV1().ServiceAccounts("default")
			newAccount(ctx, t, "mortal")
			bound := bearer(requestToken(ctx, t, "mortal", authenticationv1.TokenRequestSpec{}))
			legacy := bearer(string(secretToken(ctx, t, "mortal")[corev1.ServiceAccountTokenKey]))
			Expect(status(bound)).To(Equal(http.StatusCreated))
			Eventually(ctx, func() int { return status(legacy) }).Should(Equal(http.StatusCreated))
			all = append(all, bound, legacy)
			Expect(accounts.Delete(ctx, "mortal", metav1.DeleteOptions{})).To(Succeed())
			_, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "mortal"}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		// As upstream, a server remembers a token for ten seconds.
		for _, c := range all {
			Eventually(ctx, func() int { return status(c) }).Should(Equal(http.StatusUnauthorized))
		}
		for _, t := range spaces {
			Eventually(ctx, func(g Gomega) {
				_, err := clientIn(t).CoreV1().Secrets("default").Get(ctx, "mortal", metav1.GetOptions{})
				g.Expect(err).To(MatchError(ContainSubstring("not found")))
			}).Should(Succeed())
		}
	})

	It("has tokens that others can verify, of an issuer of its space", func(ctx SpecContext) {
		issuers := map[string]bool{}
		for _, t := range spaces {
			newAccount(ctx, t, "caller")
			token := requestToken(ctx, t, "caller", authenticationv1.TokenRequestSpec{Audiences: []string{"vault", serverAudience}})
			root := "/tenants/" + string(t)
			response, body := bearer(token).do(http.MethodGet, root+"/.well-known/openid-configuration", nil)
			Expect(response.StatusCode).To(Equal(http.StatusOK), string(body))
			var document struct {
				Issuer  string `json:"issuer"`
				JWKSURI string `json:"jwks_uri"`
			}
			Expect(json.Unmarshal(body, &document)).To(Succeed())
			if t != tenant.System {
				Expect(document.Issuer).To(HaveSuffix(root))
				Expect(document.JWKSURI).To(HaveSuffix(root + "/openid/v1/jwks"))
			}
			response, body = bearer(token).do(http.MethodGet, root+"/openid/v1/jwks", nil)
			Expect(response.StatusCode).To(Equal(http.StatusOK), string(body))
			var keys jose.JSONWebKeySet
			Expect(json.Unmarshal(body, &keys)).To(Succeed())

			signed, err := jwt.ParseSigned(token)
			Expect(err).NotTo(HaveOccurred())
			var claims jwt.Claims
			Expect(signed.Claims(&keys, &claims)).To(Succeed())
			Expect(claims.Validate(jwt.Expected{Issuer: document.Issuer, Audience: jwt.Audience{"vault"}, Time: time.Now()})).To(Succeed())
			Expect(claims.Subject).To(Equal("system:serviceaccount:default:caller"))
			Expect(issuers).NotTo(HaveKey(claims.Issuer))
			issuers[claims.Issuer] = true
		}
	})

	It("has tokens for audiences", func(ctx SpecContext) {
		newAccount(ctx, "a", "caller")
		token := requestToken(ctx, "a", "caller", authenticationv1.TokenRequestSpec{Audiences: []string{"vault"}, ExpirationSeconds: ptr.To(int64(600))})
		bearer(token).refused()
		for t, want := range map[tenant.Name]bool{"a": true, "b": false} {
			for audience, same := range map[string]bool{"vault": true, "other": false} {
				review, err := clientIn(t).AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
					Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{audience}},
				}, metav1.CreateOptions{})
				Expect(err).NotTo(HaveOccurred())
				Expect(review.Status.Authenticated).To(Equal(want && same), "in %s for %s: %s", t, audience, review.Status.Error)
			}
		}
	})
})

var _ = Describe("A bootstrap token", func() {
	It("is one of the system space alone", func(ctx SpecContext) {
		for t, id := range map[tenant.Name]string{tenant.System: "abcdef", "a": "fedcba"} {
			_, err := clientIn(t).CoreV1().Secrets(metav1.NamespaceSystem).Create(ctx, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id},
				Type:       corev1.SecretTypeBootstrapToken,
				StringData: map[string]string{
					"token-id": id, "token-secret": "0123456789abcdef",
					"usage-bootstrap-authentication": "true", "auth-extra-groups": "system:bootstrappers:workers",
				},
			}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		known := bearer("abcdef.0123456789abcdef")
		Eventually(ctx, func() int { return status(known) }).Should(Equal(http.StatusCreated))
		known.expect("system:bootstrap:abcdef", tenant.System, "system:bootstrappers", "system:bootstrappers:workers")
		bearer("fedcba.0123456789abcdef").refused()
	})
})

var _ = Describe("A TokenReview", func() {
	It("knows the tokens of its tenant, of every kind, and says nothing of others", func(ctx SpecContext) {
		tokens := map[string]string{
			"file": "a-token",
			"hook": "hook-review",
			"oidc": issued(issuer, org("a")).token(),
		}
		reviewed("hook-review", map[string]authenticationv1.ExtraValue{claimKey: {"a"}})
		for kind, token := range tokens {
			for _, t := range spaces {
				review, err := clientIn(t).AuthenticationV1().TokenReviews().Create(ctx,
					&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
				Expect(err).NotTo(HaveOccurred())
				Expect(review.Status.Authenticated).To(Equal(t == "a"), "%s in %s", kind, t)
				if t == "a" {
					Expect(review.Status.User.Username).To(Equal("jane"))
				} else {
					Expect(review.Status.User).To(Equal(authenticationv1.UserInfo{}))
				}
				if t == "b" {
					Expect(review.Status.Error).To(Equal("the token is not known here"))
				}
			}
		}
		for _, token := range []string{" ", "\t", "x", issued(issuer, org("system")).token()} {
			for _, t := range []tenant.Name{"a", "b"} {
				review, err := clientIn(t).AuthenticationV1().TokenReviews().Create(ctx,
					&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
				Expect(err).NotTo(HaveOccurred())
				Expect(review.Status.Authenticated).To(BeFalse())
				Expect(review.Status.Error).To(Equal("the token is not known here"))
			}
		}
	})
})
