package authentication

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"

	"github.com/tenantry/tenantry/internal/server/authentication/certificate"
	"github.com/tenantry/tenantry/internal/server/authentication/keystone"
	"github.com/tenantry/tenantry/internal/server/authentication/userfile"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Config is the configuration of the server's authenticator.
type Config struct {
	Options Options
	// DefaultTenant is the tenant of users without one; empty for none.
	DefaultTenant tenant.Name
	// ServiceAccounts authenticates service accounts of tenants.
	ServiceAccounts ServiceAccounts
	// Since tells credentials of a tenant from those of an earlier one, and TenantUID cached
	// results of the one from those of the other.
	Since     Since
	TenantUID TenantUID
	// OfDomain finds the tenants of tokens of Keystone.
	OfDomain OfDomain
	// DomainOf finds the domain of those who log in to Keystone with a password.
	DomainOf DomainOf
}

// withDefault makes a look-up by tenant one by the tenant of a user, which is
// byDefault if the user has none.
func withDefault[T any](lookup func(context.Context, tenant.Name) (T, error), byDefault tenant.Name) func(context.Context, tenant.Name) (T, error) {
	if lookup == nil {
		return nil
	}
	return func(ctx context.Context, n tenant.Name) (T, error) {
		if n = cmp.Or(n, byDefault); n.IsSpace() {
			return lookup(ctx, n)
		}
		var none T
		return none, nil
	}
}

// SystemAccounts returns the part of upstream's options that is left to upstream: service
// accounts of the system space, and its bootstrap tokens. All these users belong to the
// system tenant. New handles the other options, because it has to know the source of each
// user.
func SystemAccounts(upstream *kubeoptions.BuiltInAuthenticationOptions) *kubeoptions.BuiltInAuthenticationOptions {
	return &kubeoptions.BuiltInAuthenticationOptions{
		APIAudiences:    upstream.APIAudiences,
		BootstrapToken:  upstream.BootstrapToken,
		ServiceAccounts: upstream.ServiceAccounts,
	}
}

// New returns the server's authenticator. That of generic must be made with the options of
// SystemAccounts; it is part of what is returned. generic gets to know the authorities of client certificates.
func New(ctx context.Context, generic *genericapiserver.Config, config Config) (authenticator.Request, error) {
	config.Since, config.TenantUID = withDefault(config.Since, config.DefaultTenant), withDefault(config.TenantUID, config.DefaultTenant)
	b := &builder{generic: generic, Config: config}
	var err error
	if b.keystone, err = b.newKeystone(ctx); err != nil {
		return nil, err
	}
	var kinds requestUnion
	for _, kind := range []func(context.Context) (authenticator.Request, error){b.frontProxy, b.certificates, b.passwords} {
		made, err := kind(ctx)
		if err != nil {
			return nil, err
		}
		if made != nil {
			kinds = append(kinds, made)
		}
	}
	tokens, forAnonymous, err := b.tokens(ctx)
	if err != nil {
		return nil, err
	}
	kinds = append(kinds, bearertoken.New(tokens), websocket.NewProtocolAuthenticator(tokens))
	a := &authenticators{credentials: ofShortChains(group.NewAuthenticatedGroupAdder(kinds)), tenantUID: config.TenantUID, defaultTenant: config.DefaultTenant}
	if config.Options.KeystoneConfig != "" {
		credentials := a.credentials
		a.credentials = authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
			return credentials.AuthenticateRequest(keystone.WithClient(req))
		})
	}
	if forAnonymous.Enabled {
		a.anonymous = anonymous.NewAuthenticator(forAnonymous.Conditions)
	}
	return a, nil
}

// ofShortChains refuses requests with certificates that take long to verify, before anything verifies them.
func ofShortChains(credentials authenticator.Request) authenticator.Request {
	return authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		if err := certificate.CheckChain(req.TLS); err != nil {
			return nil, false, err
		}
		return credentials.AuthenticateRequest(req)
	})
}

type builder struct {
	Config
	generic *genericapiserver.Config
	// keystone is nil if none is configured.
	keystone *keystoneUsers
}

func (b *builder) certificates(context.Context) (authenticator.Request, error) {
	clients, err := b.Options.Upstream.ClientCert.GetClientCAContentProvider()
	if err != nil {
		return nil, fmt.Errorf("reading --client-ca-file: %w", err)
	}
	var system dynamiccertificates.CAContentProvider
	if file := b.Options.SystemClientCAFile; file != "" {
		if system, err = dynamiccertificates.NewDynamicCAContentFromFile("system-client-ca", file); err != nil {
			return nil, fmt.Errorf("reading --system-client-ca-file: %w", err)
		}
	}
	for _, bundle := range []dynamiccertificates.CAContentProvider{clients, system} {
		if bundle == nil {
			continue
		}
		if err := b.generic.Authentication.ApplyClientCert(bundle, b.generic.SecureServing); err != nil {
			return nil, err
		}
	}
	if clients == nil && system == nil {
		return nil, nil
	}
	verified, err := certificate.New(clients, system)
	if err != nil {
		return nil, err
	}
	return issuing{b.Since, b.TenantUID}.certificates(verified), nil
}

// passwords authenticates by those of the file and, with names that are not in it, by Keystone's.
func (b *builder) passwords(ctx context.Context) (authenticator.Request, error) {
	var sources requestUnion
	inFile := func(*http.Request) bool { return false }
	if b.Options.BasicAuthFile != "" {
		file, err := userfile.OpenPasswords(b.Options.BasicAuthFile)
		if err != nil {
			return nil, fmt.Errorf("--basic-auth-file: %w", err)
		}
		go file.Run(ctx)
		sources, inFile = append(sources, file), file.Knows
	}
	if b.keystone != nil {
		sources = slices.Insert(sources, 0, authenticator.Request(authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
			if inFile(req) {
				return nil, false, nil
			}
			return b.keystone.AuthenticateRequest(req)
		})))
	}
	if len(sources) == 0 {
		return nil, nil
	}
	return authenticator.WrapAudienceAgnosticRequest(b.generic.Authentication.APIAudiences, sources), nil
}

// tokens authenticates by the tokens of the token file, without a cache because removing
// a line revokes a token, by all others behind a cache and, if nobody knows a token, by those
// of Keystone, which has a cache of its own: outages are not remembered in it. The configuration
// of anonymous users stands beside that of the issuers.
func (b *builder) tokens(ctx context.Context) (authenticator.Token, apiserver.AnonymousAuthConfig, error) {
	upstream := b.Options.Upstream
	var sources, cached tokenUnion
	issuers, forAnonymous, err := b.issuers(ctx)
	if err != nil {
		return nil, forAnonymous, err
	}
	if path := upstream.TokenFile.TokenFile; path != "" {
		file, err := userfile.OpenTokens(path)
		if err != nil {
			return nil, forAnonymous, fmt.Errorf("--token-auth-file: %w", err)
		}
		go file.Run(ctx)
		sources = append(sources, authenticator.WrapAudienceAgnosticToken(b.generic.Authentication.APIAudiences, file))
	}
	if len(b.ServiceAccounts.Issuers) > 0 && b.ServiceAccounts.Keys != nil {
		accounts, err := newSpaceTokens(b.ServiceAccounts)
		if err != nil {
			return nil, forAnonymous, err
		}
		cached = append(cached, accounts)
	}
	if system := b.generic.Authentication.Authenticator; system != nil {
		cached = append(cached, systemTokens{tokensOf(system)})
	}
	webhook, err := b.webhook(ctx)
	if err != nil {
		return nil, forAnonymous, err
	}
	for _, source := range []authenticator.Token{issuers, webhook} {
		if source != nil {
			cached = append(cached, source)
		}
	}
	sources = append(sources, b.keystoneTokens(b.TenantUID.cached(cached, true, upstream.TokenSuccessCacheTTL, upstream.TokenFailureCacheTTL)))
	return issuing{b.Since, b.TenantUID}.tokens(sources), forAnonymous, nil
}
