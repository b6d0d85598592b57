package authentication

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	configv1alpha1 "github.com/tenantry/tenantry/api/config/v1alpha1"
	"github.com/tenantry/tenantry/api/v1alpha1"
	keystoneclient "github.com/tenantry/tenantry/internal/keystone"
	"github.com/tenantry/tenantry/internal/server/authentication/identity"
	"github.com/tenantry/tenantry/internal/server/authentication/keystone"
	"github.com/tenantry/tenantry/internal/tenant"
)

// OfDomain returns the tenants that name a domain of Keystone, and the UID of one that alone
// does. It is false as long as not all tenants are known.
type OfDomain func(domain v1alpha1.TenantKeystone) ([]tenant.Name, types.UID, bool)

// DomainOf returns the domain of Keystone that a tenant names, if it does. It is false as long as not all tenants are
// known.
type DomainOf func(n tenant.Name) (v1alpha1.TenantKeystone, bool)

// keystonePeriod is how often the files of a KeystoneConfiguration are read again.
const keystonePeriod = 5 * time.Second

var keystoneReloads = metrics.NewCounterVec(&metrics.CounterOpts{
	Name: "tenantry_keystone_config_reloads_total",
	Help: "Times the file of --keystone-config, or one that it names, had changed, by result (success, " +
		"failure: the last valid configuration stays in force).",
	StabilityLevel: metrics.ALPHA,
}, []string{"result"})

func init() { legacyregistry.MustRegister(keystoneReloads) }

// keystoneUsers authenticates by tokens of Keystone, and by passwords. What they say is
// remembered without the tenant, which is looked up for each request.
type keystoneUsers struct {
	path        string
	ofDomain    OfDomain
	domainOf    DomainOf
	issuing     issuing
	allowSystem bool
	period      time.Duration
	current     atomic.Pointer[keystoneSource]
}

// keystoneSource is what one state of the files says.
type keystoneSource struct {
	*keystone.Authenticator
	name string
	// passwords is whether these authenticate, too.
	passwords bool
	// files are those that it was made from.
	files *keystoneclient.Files
}

// newKeystone makes what authenticates by Keystone, nil if none is configured.
func (b *builder) newKeystone(ctx context.Context) (*keystoneUsers, error) {
	if b.Options.KeystoneConfig == "" {
		return nil, nil
	}
	k := &keystoneUsers{
		path: b.Options.KeystoneConfig, ofDomain: b.OfDomain, domainOf: b.DomainOf, allowSystem: b.Options.KeystoneSystem,
		issuing: issuing{b.Since, b.TenantUID}, period: keystonePeriod,
	}
	source, err := k.read(nil)
	if err != nil {
		return nil, fmt.Errorf("--keystone-config: %w", err)
	}
	k.current.Store(source)
	go k.run(ctx)
	return k, nil
}

// keystoneTokens puts Keystone's tokens around all others but those of the file: those that are
// remembered before them, because others may take long to say that they do not know one.
func (b *builder) keystoneTokens(others authenticator.Token) authenticator.Token {
	if b.keystone == nil {
		return others
	}
	agnostic := func(t authenticator.Token) authenticator.Token {
		return authenticator.WrapAudienceAgnosticToken(b.generic.Authentication.APIAudiences, t)
	}
	return tokenUnion{agnostic(authenticator.TokenFunc(b.keystone.remembered)), others, agnostic(b.keystone)}
}

// read makes a source from the files, nil if they are those of before. What was remembered
// by another configuration, or with other credentials, is forgotten.
func (k *keystoneUsers) read(before *keystoneSource) (*keystoneSource, error) {
	files, err := keystoneclient.ReadFiles(k.path)
	if err != nil {
		return nil, err
	}
	if before != nil && files.Equal(before.files) {
		return nil, nil
	}
	c := files.Configuration
	client, err := files.Client(c.RequestTimeout.Duration)
	if err != nil {
		return nil, err
	}
	passwords := c.Passwords == configv1alpha1.KeystonePasswordsAccept
	return &keystoneSource{name: c.Name, passwords: passwords, files: files, Authenticator: keystone.New(keystone.Config{
		Validate: client.Validate, LogIn: client.LogIn, Timeout: 2 * c.RequestTimeout.Duration, // a log-in may be part of it
		TTL: c.CacheTTL.Duration, NegativeTTL: c.NegativeCacheTTL.Duration, AcceptTrusts: c.Trusts == configv1alpha1.KeystoneTrustsAccept,
	})}, nil
}

// run reads the files again when they change, until ctx ends. As long as they are wrong,
// what they were before stays in force.
func (k *keystoneUsers) run(ctx context.Context) {
	reported := ""
	wait.UntilWithContext(ctx, func(context.Context) {
		source, err := k.read(k.current.Load())
		switch {
		case err != nil && err.Error() != reported:
			reported = err.Error()
			keystoneReloads.WithLabelValues("failure").Inc()
			klog.ErrorS(err, "Configuration of Keystone not read again, the last valid one stays in force", "file", k.path)
		case err == nil && source != nil:
			k.current.Store(source)
			keystoneReloads.WithLabelValues("success").Inc()
			klog.InfoS("Configuration of Keystone read again", "file", k.path)
			fallthrough
		case err == nil:
			reported = ""
		}
	}, k.period)
}

// AuthenticateToken implements authenticator.Token.
func (k *keystoneUsers) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	source := k.current.Load()
	found, err := source.Authenticate(ctx, token)
	return k.settle(ctx, source.name, found, err)
}

// remembered authenticates by tokens that Keystone was asked about, as nobody else knew them.
func (k *keystoneUsers) remembered(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	source := k.current.Load()
	found, err := source.Remembered(token)
	return k.settle(ctx, source.name, found, err)
}

// settle returns the user of a token, in the tenant of the token's scope.
func (k *keystoneUsers) settle(ctx context.Context, name string, found *keystone.Identity, err error) (*authenticator.Response, bool, error) {
	if err != nil || found == nil {
		return nil, false, err
	}
	n, uid, err := k.tenantOf(name, found)
	if err != nil {
		return nil, false, err
	}
	u := identity.Of(found.User, n)
	if n.IsSpace() {
		// The tenant may be another one of its name by now, which names no domain.
		if err := noteUID(ctx, n, uid); err != nil {
			return nil, false, err
		}
		if err := k.issuing.check(ctx, u, found.IssuedAt); err != nil {
			return nil, false, err
		}
	}
	return &authenticator.Response{User: u}, true, nil
}

var errNoDomain = errors.New("the URL names no tenant whose domain in Keystone could have the user")

var errUnread = errors.New("the tenants are being read")

// tenantOf returns the tenant of the scope of a token, empty if it has none.
func (k *keystoneUsers) tenantOf(name string, found *keystone.Identity) (tenant.Name, types.UID, error) {
	switch {
	case found.System && k.allowSystem:
		return tenant.System, "", nil
	case found.DomainID == "":
		return "", "", nil
	}
	names, uid, known := k.ofDomain(v1alpha1.TenantKeystone{Keystone: name, DomainID: found.DomainID})
	switch {
	case !known:
		return "", "", identity.Unavailable(errUnread)
	case len(names) > 1:
		return "", "", identity.Refuse("tenants %q have the domain %q of Keystone %q in their status, and one alone may", names, found.DomainID, name)
	case len(names) == 0:
		return "", "", nil
	default:
		return names[0], uid, nil
	}
}

// AuthenticateRequest implements authenticator.Request: by the password of a user of the domain
// whose tenant the URL names.
func (k *keystoneUsers) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	source, ctx := k.current.Load(), req.Context()
	name, password, ok := req.BasicAuth()
	if !ok || !source.passwords {
		return nil, false, nil
	}
	n, _ := requested(ctx)
	domain, known := k.domainOf(n)
	if !known {
		return nil, false, identity.Unavailable(errUnread)
	}
	if domain.Keystone != source.name {
		if err := source.LimitAddress(ctx); err != nil {
			return nil, false, err
		}
		return nil, false, errNoDomain
	}
	binding, err := k.binding(ctx, n)
	if err != nil {
		return nil, false, err
	}
	found, err := source.Password(ctx, binding, domain.DomainID, name, password)
	return k.settle(ctx, source.name, found, err)
}

// requested returns the tenant that the URL of a request names.
func requested(ctx context.Context) (tenant.Name, bool) {
	r := tenant.RequestFrom(ctx)
	if r == nil || r.Requested.IsMany() {
		return "", false
	}
	return tenant.Name(r.Requested), tenant.Name(r.Requested).IsSpace()
}

// binding returns what changes when a tenant is made again, or refuses earlier credentials.
func (k *keystoneUsers) binding(ctx context.Context, n tenant.Name) (string, error) {
	uid, err := k.issuing.tenantUID(ctx, n)
	if err != nil {
		return "", err
	}
	since, err := k.issuing.since(ctx, n)
	return string(uid) + " " + since.String(), err
}
