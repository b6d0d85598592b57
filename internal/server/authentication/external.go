package authentication

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/client-go/informers"
	openapicommon "k8s.io/kube-openapi/pkg/common"
	kubeauthenticator "k8s.io/kubernetes/pkg/kubeapiserver/authenticator"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"
	"k8s.io/kubernetes/pkg/serviceaccount"

	"github.com/tenantry/tenantry/internal/server/authentication/identity"
	"github.com/tenantry/tenantry/internal/server/authentication/webtoken"
)

// named sets the tenant of a user of an external authenticator to the one that the user's
// extra names, and removes a tenant under the server's own key.
func named(response *authenticator.Response, what string, keys []string, maySystem func() bool) (*authenticator.Response, bool, error) {
	u, err := identity.FromExtra(response.User, keys, maySystem)
	if err != nil {
		return nil, false, identity.Refuse("user %q of the %s: %w", response.User.GetName(), what, err)
	}
	settled := *response // it may be shared by a cache
	settled.User = u
	return &settled, true, nil
}

// namedTokens sets the tenant of the users of delegate. maySystem is called only
// for the system tenant.
func namedTokens(delegate authenticator.Token, what string, keys []string, maySystem func(token string) bool) authenticator.Token {
	return authenticator.TokenFunc(func(ctx context.Context, token string) (*authenticator.Response, bool, error) {
		response, ok, err := delegate.AuthenticateToken(ctx, token)
		if err != nil || !ok {
			return nil, false, err
		}
		return named(response, what, keys, func() bool { return maySystem(token) })
	})
}

// frontProxy authenticates by the headers of a proxy whose certificate upstream
// verifies. Upstream removes these headers from all other requests.
func (b *builder) frontProxy(context.Context) (authenticator.Request, error) {
	config, err := b.Options.Upstream.RequestHeader.ToAuthenticationRequestHeaderConfig()
	if err != nil {
		return nil, fmt.Errorf("reading --requestheader-client-ca-file: %w", err)
	}
	if config == nil {
		return nil, nil
	}
	if err := b.generic.Authentication.ApplyClientCert(config.CAContentProvider, b.generic.SecureServing); err != nil {
		return nil, err
	}
	b.generic.Authentication.RequestHeaderConfig = config
	verified := authenticator.WrapAudienceAgnosticRequest(b.generic.Authentication.APIAudiences,
		headerrequest.NewDynamicVerifyOptionsSecure(config.CAContentProvider.VerifyOptions, config.AllowedClientNames,
			config.UsernameHeaders, config.UIDHeaders, config.GroupHeaders, config.ExtraHeaderPrefixes))
	keys := make([]string, len(b.Options.RequestHeaderTenantKeys))
	for i, key := range b.Options.RequestHeaderTenantKeys {
		keys[i] = strings.ToLower(key) // as upstream reads them: headers have no case
	}
	return authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		// Without a user name there is nothing to verify.
		if !slices.ContainsFunc(config.UsernameHeaders.Value(), func(name string) bool { return req.Header.Get(name) != "" }) {
			return nil, false, nil
		}
		response, ok, err := verified.AuthenticateRequest(req)
		if err != nil || !ok {
			return nil, false, err
		}
		return named(response, "front proxy", keys, func() bool { return b.Options.RequestHeaderSystem })
	}), nil
}

// webhook authenticates by --authentication-token-webhook-config-file.
func (b *builder) webhook(ctx context.Context) (authenticator.Token, error) {
	if b.Options.Upstream.WebHook == nil || b.Options.Upstream.WebHook.ConfigFile == "" {
		return nil, nil
	}
	// Upstream's cache does not distinguish tenants of the same name.
	uncached := *b.Options.Upstream.WebHook
	uncached.CacheTTL = 0
	delegate, err := b.upstream(ctx, &kubeoptions.BuiltInAuthenticationOptions{WebHook: &uncached}, nil)
	if err != nil {
		return nil, fmt.Errorf("configuring the token webhook: %w", err)
	}
	users := namedTokens(delegate, "token webhook", b.Options.WebhookTenantKeys, func(string) bool { return b.Options.WebhookSystem })
	ttl := b.Options.Upstream.WebHook.CacheTTL
	return b.TenantUID.cached(users, false, ttl, ttl), nil
}

// issuers authenticates by the tokens of --oidc-issuer-url or
// --authentication-config, and returns the configuration of anonymous users, which is read there.
// The authenticator is nil if there is no issuer.
func (b *builder) issuers(ctx context.Context) (authenticator.Token, apiserver.AnonymousAuthConfig, error) {
	upstream := b.Options.Upstream
	options := &kubeoptions.BuiltInAuthenticationOptions{
		AuthenticationConfigFile: upstream.AuthenticationConfigFile,
		Anonymous:                upstream.Anonymous,
		OIDC:                     upstream.OIDC,
		ServiceAccounts: &kubeoptions.ServiceAccountAuthenticationOptions{
			Issuers: upstream.ServiceAccounts.Issuers, // tokens of other issuers cannot claim to be theirs
			OptionalTokenGetter: func(informers.SharedInformerFactory) serviceaccount.ServiceAccountTokenGetter {
				return nil
			},
		},
	}
	config, err := options.ToAuthenticationConfig()
	if err != nil {
		return nil, apiserver.AnonymousAuthConfig{}, err
	}
	options.Anonymous = nil
	var delegate authenticator.Token
	switch {
	case options.AuthenticationConfigFile != "":
		delegate, err = b.reloaded(ctx, options)
	case options.OIDC != nil && options.OIDC.IssuerURL != "":
		delegate, err = b.upstream(ctx, options, func(c *apiserver.AuthenticationConfiguration) {
			for i := range c.JWT {
				c.JWT[i].ClaimMappings.Extra = tenantMapping(b.Options.OIDCTenantClaim)
			}
		})
	default:
		return nil, config.Anonymous, nil
	}
	if err != nil {
		return nil, config.Anonymous, fmt.Errorf("configuring token issuers: %w", err)
	}
	return namedTokens(delegate, "token issuer", []string{extraKey}, func(token string) bool {
		return slices.Contains(b.Options.SystemIssuers, webtoken.Parse(token).Text("iss"))
	}), config.Anonymous, nil
}

// tenantMapping maps a claim to extraKey. A token without the claim names no tenant.
func tenantMapping(claim string) []apiserver.ExtraMapping {
	if claim == "" {
		return nil
	}
	return []apiserver.ExtraMapping{{
		Key:             extraKey,
		ValueExpression: "claims[?" + strconv.Quote(claim) + `].orValue("")`,
	}}
}

// upstream makes upstream's authenticator of some of its options.
func (b *builder) upstream(ctx context.Context, part *kubeoptions.BuiltInAuthenticationOptions, change func(*apiserver.AuthenticationConfiguration)) (authenticator.Token, error) {
	config, err := part.ToAuthenticationConfig()
	if err != nil {
		return nil, err
	}
	if change != nil {
		change(config.AuthenticationConfig)
	}
	config.APIAudiences = b.generic.Authentication.APIAudiences
	config.APIServerID = b.generic.APIServerID
	if err := b.dialOut(&config); err != nil {
		return nil, err
	}
	made, _, _, _, err := config.New(ctx)
	if err != nil {
		return nil, err
	}
	return tokensOf(made), nil
}

func (b *builder) dialOut(config *kubeauthenticator.Config) error {
	if b.generic.EgressSelector == nil {
		return nil
	}
	dial, err := b.generic.EgressSelector.Lookup(egressselector.ControlPlane.AsNetworkContext())
	if err != nil {
		return err
	}
	config.CustomDial, config.EgressLookup = dial, b.generic.EgressSelector.Lookup
	return nil
}

// reloaded makes the authenticator of an AuthenticationConfiguration, which
// upstream reads again when it changes.
func (b *builder) reloaded(ctx context.Context, part *kubeoptions.BuiltInAuthenticationOptions) (authenticator.Token, error) {
	part.APIAudiences = b.generic.Authentication.APIAudiences
	var made genericapiserver.AuthenticationInfo
	if err := part.ApplyTo(ctx, &made, b.generic.SecureServing, b.generic.EgressSelector, &openapicommon.Config{}, nil,
		b.ServiceAccounts.Client, nil, b.generic.APIServerID); err != nil {
		return nil, err
	}
	return tokensOf(made.Authenticator), nil
}
