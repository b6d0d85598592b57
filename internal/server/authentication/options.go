package authentication

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/client-go/util/cert"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"

	"github.com/tenantry/tenantry/internal/tenant"
)

// extraKey is the key of a user's extra under which identity providers (a front proxy, a
// webhook, the mappings of an AuthenticationConfiguration) name the tenant unless another
// one is configured. The server reads it once and replaces it by the accepted tenant.
const extraKey = tenant.UserExtraKey

// Keys of the extra in the answers of k8s-keystone-auth. Names of domains can
// change and be taken by others, so their ids come first.
const (
	keystoneDomainID   = "alpha.kubernetes.io/identity/user/domain/id"
	keystoneDomainName = "alpha.kubernetes.io/identity/user/domain/name"
)

// Options are the flags of authentication: upstream's, and those of tenancy.
type Options struct {
	// Upstream are the options of kube-apiserver.
	Upstream *kubeoptions.BuiltInAuthenticationOptions
	// BasicAuthFile holds passwords; empty for none.
	BasicAuthFile string
	// SystemClientCAFile holds the authorities that may issue client
	// certificates of the system tenant. Empty for those of --client-ca-file.
	SystemClientCAFile string
	// RequestHeaderTenantKeys and WebhookTenantKeys are the keys of the extra by
	// which a front proxy and the webhook name the tenant. The first one with a value
	// counts.
	RequestHeaderTenantKeys []string
	WebhookTenantKeys       []string
	// RequestHeaderSystem and WebhookSystem say whether they may name the system
	// tenant.
	RequestHeaderSystem bool
	WebhookSystem       bool
	// OIDCTenantClaim is the claim of a token that names the tenant, with the
	// --oidc-* flags. An AuthenticationConfiguration maps it to extraKey.
	OIDCTenantClaim string
	// KeystoneConfig is the file of a KeystoneConfiguration; empty for no Keystone.
	KeystoneConfig string
	// KeystoneSystem says whether system-scoped tokens are those of system users.
	KeystoneSystem bool
	// SystemIssuers are the URLs of the issuers whose tokens may name the system tenant.
	SystemIssuers []string
}

// NewOptions returns the defaults, with the given options of kube-apiserver.
func NewOptions(upstream *kubeoptions.BuiltInAuthenticationOptions) Options {
	if upstream.WebHook != nil {
		upstream.WebHook.Version = "v1"
	}
	return Options{
		Upstream:                upstream,
		RequestHeaderTenantKeys: []string{extraKey},
		WebhookTenantKeys:       []string{extraKey, keystoneDomainID, keystoneDomainName},
	}
}

// AddFlags adds the flags of tenancy, not upstream's nor that of
// SystemClientCAFile.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.BasicAuthFile, "basic-auth-file", o.BasicAuthFile,
		"File of passwords: password,user,uid[,\"groups\"[,other]][,,tenant]. Passwords may be hashed by bcrypt or SHA-crypt. "+
			"Without a tenant the user belongs to the system tenant. The file is read again when it changes.")
	fs.StringSliceVar(&o.RequestHeaderTenantKeys, "requestheader-tenant-extra-key", o.RequestHeaderTenantKeys,
		"Key of the extra by which a verified front proxy names the user's tenant (header X-Remote-Extra-Tenantry.io%2ftenant, "+
			"where the prefix is X-Remote-Extra-). Of several the first one counts that has a value.")
	fs.BoolVar(&o.RequestHeaderSystem, "requestheader-allow-system", o.RequestHeaderSystem,
		"Whether a verified front proxy may name the tenant \"system\".")
	fs.StringSliceVar(&o.WebhookTenantKeys, "authentication-token-webhook-tenant-extra-key", o.WebhookTenantKeys,
		"Key of the extra by which the token webhook names the user's tenant. Of several the first one counts that has a value.")
	fs.BoolVar(&o.WebhookSystem, "authentication-token-webhook-allow-system", o.WebhookSystem,
		"Whether the token webhook may name the tenant \"system\".")
	fs.StringVar(&o.OIDCTenantClaim, "oidc-tenant-claim", o.OIDCTenantClaim,
		"Claim that names the user's tenant in tokens of --oidc-issuer-url. In a file of --authentication-config, map it "+
			"to the extra "+extraKey+" instead.")
	fs.StringVar(&o.KeystoneConfig, "keystone-config", o.KeystoneConfig,
		"Configuration file of an OpenStack Keystone whose tokens authenticate, a KeystoneConfiguration of config.tenantry.io/v1alpha1. "+
			"It is read again when it changes.")
	fs.BoolVar(&o.KeystoneSystem, "keystone-allow-system", o.KeystoneSystem,
		"Whether tokens of Keystone with the scope \"system\" are those of users of the tenant \"system\".")
	fs.StringSliceVar(&o.SystemIssuers, "system-issuers", o.SystemIssuers,
		"URLs of the token issuers, of --oidc-issuer-url or --authentication-config, that may name the tenant \"system\".")
}

// Validate reports what is wrong with the options of tenancy.
func (o *Options) Validate() []error {
	var errs []error
	for flag, values := range map[string][]string{
		"system-issuers":                                o.SystemIssuers,
		"requestheader-tenant-extra-key":                o.RequestHeaderTenantKeys,
		"authentication-token-webhook-tenant-extra-key": o.WebhookTenantKeys,
	} {
		if slices.Contains(values, "") {
			errs = append(errs, fmt.Errorf("--%s: one of its values is empty", flag))
		}
	}
	if o.OIDCTenantClaim != "" && (o.Upstream.OIDC == nil || o.Upstream.OIDC.IssuerURL == "") {
		errs = append(errs, fmt.Errorf("--oidc-tenant-claim needs --oidc-issuer-url; "+
			"in a file of --authentication-config, map the claim to the extra %s", extraKey))
	}
	if o.KeystoneSystem && o.KeystoneConfig == "" {
		errs = append(errs, errors.New("--keystone-allow-system needs --keystone-config"))
	}
	errs = append(errs, o.validateSystemIssuers()...)
	return append(errs, o.validateProxies()...)
}

// validateSystemIssuers refuses issuers that are not configured. Upstream refuses a file
// that cannot be read.
func (o *Options) validateSystemIssuers() []error {
	part := kubeoptions.BuiltInAuthenticationOptions{AuthenticationConfigFile: o.Upstream.AuthenticationConfigFile, OIDC: o.Upstream.OIDC}
	config, err := part.ToAuthenticationConfig()
	if err != nil {
		return nil
	}
	var errs []error
	for _, issuer := range o.SystemIssuers {
		known := slices.ContainsFunc(config.AuthenticationConfig.JWT, func(jwt apiserver.JWTAuthenticator) bool { return jwt.Issuer.URL == issuer })
		if issuer != "" && !known {
			errs = append(errs, fmt.Errorf("--system-issuers: %q is neither --oidc-issuer-url nor the URL of an issuer in the file of --authentication-config", issuer))
		}
	}
	return errs
}

// validateProxies refuses configurations in which an authority for users' certificates
// could certify a front proxy, and so users with more rights.
func (o *Options) validateProxies() []error {
	proxy, clients := o.Upstream.RequestHeader, o.Upstream.ClientCert
	if proxy == nil || proxy.ClientCAFile == "" || o.SystemClientCAFile == "" {
		return nil // or upstream validates it
	}
	if len(proxy.AllowedNames) == 0 {
		if shared, err := overlap(o.SystemClientCAFile, proxy.ClientCAFile); err != nil {
			return []error{err}
		} else if shared {
			return []error{errors.New("--requestheader-client-ca-file and --system-client-ca-file hold the same authority: " +
				"name the front proxies with --requestheader-allowed-names, or every client could say who it is")}
		}
	}
	if o.RequestHeaderSystem && clients != nil && clients.ClientCA != "" {
		if shared, err := overlap(clients.ClientCA, proxy.ClientCAFile); err != nil {
			return []error{err}
		} else if shared {
			return []error{errors.New("--requestheader-allow-system: an authority of --client-ca-file, which may not make system users, " +
				"could by a certificate of a front proxy: have front proxies certified by an authority of their own")}
		}
	}
	return nil
}

// overlap reports whether two bundles have an authority in common.
func overlap(one, other string) (bool, error) {
	first, err := cert.CertsFromFile(one)
	if err != nil {
		return false, fmt.Errorf("reading certificate authorities of %q: %w", one, err)
	}
	second, err := cert.CertsFromFile(other)
	if err != nil {
		return false, fmt.Errorf("reading certificate authorities of %q: %w", other, err)
	}
	return slices.ContainsFunc(first, func(a *x509.Certificate) bool { return slices.ContainsFunc(second, a.Equal) }), nil
}
