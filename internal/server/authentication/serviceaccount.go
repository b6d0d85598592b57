package authentication

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"gopkg.in/go-jose/go-jose.v2/jwt"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/serviceaccount"

	"github.com/tenantry/tenantry/internal/server/authentication/identity"
	"github.com/tenantry/tenantry/internal/server/authentication/webtoken"
	"github.com/tenantry/tenantry/internal/tenant"
)

// tenantClaim is the claim of a service account token that names its tenant. Tokens of the
// system space do not have it.
const tenantClaim = tenant.TokenClaim

// namespaceClaim is the claim of upstream's legacy tokens that names the
// namespace.
const namespaceClaim = "kubernetes.io/serviceaccount/namespace"

// tokenGenerator generates tokens of the space of the request.
type tokenGenerator struct {
	system serviceaccount.TokenGenerator
	issuer string
	keys   *TokenKeys
}

// NewTokenGenerator returns a generator of tokens for every space. system generates those
// of the system space where keys have none to sign with, as with an external signer: spaces
// have no tokens then.
func NewTokenGenerator(system serviceaccount.TokenGenerator, issuer string, keys *TokenKeys) serviceaccount.TokenGenerator {
	if system == nil {
		return nil
	}
	return tokenGenerator{system: system, issuer: issuer, keys: keys}
}

// GenerateToken implements serviceaccount.TokenGenerator.
func (g tokenGenerator) GenerateToken(ctx context.Context, claims *jwt.Claims, private any) (string, error) {
	n, err := tenant.SpaceFrom(ctx)
	if err != nil {
		return "", err
	}
	key := g.keys.Signing()
	switch {
	case n == tenant.System && key == nil:
		return g.system.GenerateToken(ctx, claims, private)
	case n == tenant.System:
		return sign(ctx, g.issuer, key, claims, private)
	case key == nil:
		return "", errors.New("service accounts of tenants have tokens only where --service-account-signing-key-file is set")
	}
	withTenant, err := claimsOf(private)
	if err != nil {
		return "", err
	}
	withTenant[tenantClaim] = string(n)
	return sign(ctx, spaceIssuer(g.issuer, n), key, claims, withTenant)
}

func sign(ctx context.Context, issuer string, key any, claims *jwt.Claims, private any) (string, error) {
	signer, err := serviceaccount.JWTTokenGenerator(issuer, key)
	if err != nil {
		return "", err
	}
	return signer.GenerateToken(ctx, claims, private)
}

// LegacyTokens generates the tokens that upstream's tokens controller, which serves every
// space at once, stores in secrets. The controller knows accounts by their flattened
// namespace; the token has the tenant and the plain namespace.
type LegacyTokens struct{ keys *TokenKeys }

// NewLegacyTokens returns a generator that signs by keys, nil if these have none to sign with.
func NewLegacyTokens(keys *TokenKeys) *LegacyTokens {
	if keys.Signing() == nil {
		return nil
	}
	return &LegacyTokens{keys}
}

// IsKnown reports whether a server still verifies by the key that a token names, or the token
// is none that LegacyTokens makes.
func (g *LegacyTokens) IsKnown(token []byte) bool {
	return webtoken.Parse(string(token)).Text("iss") != serviceaccount.LegacyIssuer || g.keys.knows(string(token))
}

// Listen has a listener told when the keys have changed, until forget is called.
func (g *LegacyTokens) Listen(listener serviceaccount.Listener) (forget func()) {
	if g.keys == nil {
		return func() {}
	}
	g.keys.AddListener(listener)
	return func() { g.keys.removeListener(listener) }
}

// GenerateToken implements serviceaccount.TokenGenerator.
func (g *LegacyTokens) GenerateToken(ctx context.Context, claims *jwt.Claims, private any) (string, error) {
	all, err := claimsOf(private)
	if err != nil {
		return "", err
	}
	flat, _ := all[namespaceClaim].(string)
	n, namespace := tenant.Flat(flat).Split()
	if n == tenant.System {
		return sign(ctx, serviceaccount.LegacyIssuer, g.keys.Signing(), claims, private)
	}
	all[tenantClaim], all[namespaceClaim] = string(n), namespace
	plain := *claims
	plain.Subject = strings.Replace(claims.Subject, flat, namespace, 1)
	return sign(ctx, serviceaccount.LegacyIssuer, g.keys.Signing(), &plain, all)
}

// claimsOf returns private claims, whose type upstream does not export.
func claimsOf(private any) (map[string]any, error) {
	encoded, err := json.Marshal(private)
	if err != nil {
		return nil, fmt.Errorf("encoding claims: %w", err)
	}
	claims := make(map[string]any)
	if err := json.Unmarshal(encoded, &claims); err != nil {
		return nil, fmt.Errorf("decoding claims: %w", err)
	}
	return claims, nil
}

// ServiceAccounts verifies tokens of tenants' service accounts.
type ServiceAccounts struct {
	Issuers   []string
	Keys      serviceaccount.PublicKeysGetter
	Audiences authenticator.Audiences
	// Client reads the objects of every space by flattened names.
	Client kubernetes.Interface
}

// spaceTokens verifies tokens that carry a tenant, against that tenant's objects.
type spaceTokens struct {
	config ServiceAccounts
	legacy authenticator.Token
}

func newSpaceTokens(config ServiceAccounts) (authenticator.Token, error) {
	legacy, err := serviceaccount.NewLegacyValidator(true, spaceGetter{config.Client}, config.Client.CoreV1())
	if err != nil {
		return nil, err
	}
	return spaceTokens{
		config: config,
		legacy: serviceaccount.JWTTokenAuthenticator([]string{serviceaccount.LegacyIssuer}, config.Keys, config.Audiences, legacy),
	}, nil
}

// bound returns an authenticator of the tokens of one space's issuers.
func (t spaceTokens) bound(n tenant.Name) authenticator.Token {
	issuers := make([]string, len(t.config.Issuers))
	for i, issuer := range t.config.Issuers {
		issuers[i] = spaceIssuer(issuer, n)
	}
	return serviceaccount.JWTTokenAuthenticator(issuers, t.config.Keys, t.config.Audiences,
		serviceaccount.NewValidator(spaceGetter{t.config.Client}))
}

// AuthenticateToken implements authenticator.Token.
func (t spaceTokens) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	n := claimedTenant(token)
	if n == "" {
		return nil, false, nil // not a token of a space; another authenticator may know it
	}
	response, ok, err := tokenUnion{t.legacy, t.bound(n)}.AuthenticateToken(context.WithValue(ctx, claimKey{}, n), token)
	if err != nil { // a token of this server, which no other authenticator may accept
		return nil, false, identity.Refuse("service account token of tenant %q: %w", n, err)
	}
	if !ok {
		return nil, false, nil
	}
	// The signature covers the claim, which is therefore verified.
	response.User = identity.Of(response.User, n)
	return response, true, nil
}

// systemTokens are tokens that upstream has verified against the objects of the
// system space.
type systemTokens struct{ authenticator.Token }

// AuthenticateToken implements authenticator.Token.
func (t systemTokens) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	response, ok, err := t.Token.AuthenticateToken(ctx, token)
	if err != nil || !ok {
		return nil, false, err
	}
	response.User = identity.Of(response.User, tenant.System)
	return response, true, nil
}

// claimedTenant returns the space that a token claims, if any, without verifying it.
func claimedTenant(token string) tenant.Name {
	n, err := tenant.Parse(webtoken.Parse(token).Text(tenantClaim))
	if err != nil || !n.IsSpace() {
		return ""
	}
	return n
}

type claimKey struct{}

var errNoClaim = errors.New("no tenant claimed")

// spaceGetter reads the objects to which a token is bound, in the space that the
// token claims.
type spaceGetter struct{ client kubernetes.Interface }

// getter is a client of one kind in one namespace.
type getter[T any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
}

// getInSpace reads an object in the space that a token claims to be of. in returns the client of a namespace of the
// flattened view.
func getInSpace[T any, C getter[T]](ctx context.Context, in func(namespace string) C, namespace, name string) (T, error) {
	n, ok := ctx.Value(claimKey{}).(tenant.Name)
	if !ok {
		return *new(T), errNoClaim
	}
	return in(tenant.Flatten(n, namespace).String()).Get(ctx, name, metav1.GetOptions{})
}

// GetServiceAccount implements serviceaccount.ServiceAccountTokenGetter.
func (g spaceGetter) GetServiceAccount(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
	return getInSpace[*corev1.ServiceAccount](ctx, g.client.CoreV1().ServiceAccounts, namespace, name)
}

// GetPod implements serviceaccount.ServiceAccountTokenGetter.
func (g spaceGetter) GetPod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	return getInSpace[*corev1.Pod](ctx, g.client.CoreV1().Pods, namespace, name)
}

// GetSecret implements serviceaccount.ServiceAccountTokenGetter.
func (g spaceGetter) GetSecret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	return getInSpace[*corev1.Secret](ctx, g.client.CoreV1().Secrets, namespace, name)
}

// GetNode implements serviceaccount.ServiceAccountTokenGetter. Nodes are objects of the
// system space, also for tenants' pods.
func (g spaceGetter) GetNode(ctx context.Context, name string) (*corev1.Node, error) {
	return g.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
}

// GetValidatingWebhookConfiguration implements serviceaccount.ServiceAccountTokenGetter. No
// token is bound to one; see server.validateFeatures.
func (g spaceGetter) GetValidatingWebhookConfiguration(_ context.Context, name string) (*admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	return nil, apierrors.NewNotFound(admissionregistrationv1.Resource("validatingwebhookconfigurations"), name)
}

// GetMutatingWebhookConfiguration implements serviceaccount.ServiceAccountTokenGetter.
func (g spaceGetter) GetMutatingWebhookConfiguration(_ context.Context, name string) (*admissionregistrationv1.MutatingWebhookConfiguration, error) {
	return nil, apierrors.NewNotFound(admissionregistrationv1.Resource("mutatingwebhookconfigurations"), name)
}

var _ serviceaccount.ServiceAccountTokenGetter = spaceGetter{}
