package authentication

import (
	"context"
	"fmt"

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
	"github.com/tenantry/tenantry/internal/server/authentication/userfile"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Config says where users come from.
type Config struct {
	Options Options
	// DefaultTenant is the tenant of users without one; empty for none.
	DefaultTenant tenant.Name
	// ServiceAccounts of tenants.
	ServiceAccounts ServiceAccounts
	// Since tells credentials of a tenant from those of an earlier one, Life what is
	// remembered of them.
	Since Since
	Life  Life
}

// withDefault makes a look-up by tenant one by the tenant of a user, which is the
// default one if the user has none.
func withDefault[T any](lookup func(context.Context, tenant.Name) (T, error), n tenant.Name) func(context.Context, tenant.Name) (T, error) {
	if lookup == nil {
		return nil
	}
	return func(ctx context.Context, own tenant.Name) (T, error) {
		var none T
		if own == "" {
			own = n
		}
		if !own.IsSpace() {
			return none, nil
		}
		return lookup(ctx, own)
	}
}

// SystemAccounts returns the part of upstream's options that is left to
// upstream: service accounts of the system space, and its bootstrap tokens. What
// upstream authenticates by them is of the system tenant. Everything else is
// applied by Apply, which can tell where a user comes from.
func SystemAccounts(upstream *kubeoptions.BuiltInAuthenticationOptions) *kubeoptions.BuiltInAuthenticationOptions {
	return &kubeoptions.BuiltInAuthenticationOptions{
		APIAudiences:    upstream.APIAudiences,
		BootstrapToken:  upstream.BootstrapToken,
		ServiceAccounts: upstream.ServiceAccounts,
	}
}

// Apply makes the server's authenticator. That of generic so far must be what
// SystemAccounts gives.
func Apply(ctx context.Context, generic *genericapiserver.Config, config Config) error {
	config.Since, config.Life = withDefault(config.Since, config.DefaultTenant), withDefault(config.Life, config.DefaultTenant)
	b := &builder{generic: generic, Config: config}
	var kinds requestUnion
	for _, kind := range []func(context.Context) (authenticator.Request, error){b.frontProxy, b.certificates, b.passwords} {
		made, err := kind(ctx)
		if err != nil {
			return err
		}
		if made != nil {
			kinds = append(kinds, made)
		}
	}
	tokens, err := b.tokens(ctx)
	if err != nil {
		return err
	}
	kinds = append(kinds, bearertoken.New(tokens), websocket.NewProtocolAuthenticator(tokens))
	a := &authenticators{credentials: group.NewAuthenticatedGroupAdder(kinds), life: config.Life, defaultTenant: config.DefaultTenant}
	if b.anonymous.Enabled {
		a.anonymous = anonymous.NewAuthenticator(b.anonymous.Conditions)
	}
	generic.Authentication.Authenticator = a
	return nil
}

type builder struct {
	Config
	generic *genericapiserver.Config
	// anonymous is known after tokens.
	anonymous apiserver.AnonymousAuthConfig
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
	return issuing{b.Since, b.Life}.certificates(verified), nil
}

func (b *builder) passwords(ctx context.Context) (authenticator.Request, error) {
	if b.Options.BasicAuthFile == "" {
		return nil, nil
	}
	file, err := userfile.OpenPasswords(b.Options.BasicAuthFile)
	if err != nil {
		return nil, err
	}
	go file.Run(ctx)
	return authenticator.WrapAudienceAgnosticRequest(b.generic.Authentication.APIAudiences, file), nil
}

// tokens are those of the token file, which are revoked with their line, and
// behind a cache all others.
func (b *builder) tokens(ctx context.Context) (authenticator.Token, error) {
	upstream := b.Options.Upstream
	var sources, cached tokenUnion
	if path := upstream.TokenFile.TokenFile; path != "" {
		file, err := userfile.OpenTokens(path)
		if err != nil {
			return nil, err
		}
		go file.Run(ctx)
		sources = append(sources, authenticator.WrapAudienceAgnosticToken(b.generic.Authentication.APIAudiences, file))
	}
	if len(b.ServiceAccounts.Issuers) > 0 && b.ServiceAccounts.Keys != nil {
		accounts, err := newSpaceTokens(b.ServiceAccounts)
		if err != nil {
			return nil, err
		}
		cached = append(cached, accounts)
	}
	if system := b.generic.Authentication.Authenticator; system != nil {
		cached = append(cached, systemTokens{tokensOf(system)})
	}
	for _, source := range []func(context.Context) (authenticator.Token, error){b.issuers, b.webhook} {
		made, err := source(ctx)
		if err != nil {
			return nil, err
		}
		if made != nil {
			cached = append(cached, made)
		}
	}
	sources = append(sources, b.Life.cached(cached, true, upstream.TokenSuccessCacheTTL, upstream.TokenFailureCacheTTL))
	return issuing{b.Since, b.Life}.tokens(sources), nil
}
