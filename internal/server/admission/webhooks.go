package admission

import (
	"net/url"

	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/tenant"
)

// ServicesIn resolves the services of a tenant's space, over a resolver of
// flattened names.
type ServicesIn struct {
	Flat   webhook.ServiceResolver
	Tenant tenant.Name
}

// ResolveEndpoint implements webhook.ServiceResolver.
func (s ServicesIn) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	return s.Flat.ResolveEndpoint(tenant.Flatten(s.Tenant, namespace), name, port)
}

// WithoutCredentials returns wrap for the webhooks of a tenant. Upstream's wrap
// sends what goes to the service "kubernetes" with the server's own credentials;
// in a tenant's hands that would be every right there is.
func WithoutCredentials(wrap webhook.AuthenticationInfoResolverWrapper) webhook.AuthenticationInfoResolverWrapper {
	return func(resolver webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver {
		wrapped := resolver
		if wrap != nil {
			wrapped = wrap(resolver)
		}
		return &webhook.AuthenticationInfoResolverDelegator{
			ClientConfigForFunc: func(hostPort string) (*rest.Config, error) {
				return anonymous(wrapped.ClientConfigFor(hostPort))
			},
			ClientConfigForServiceFunc: func(name, namespace string, port int) (*rest.Config, error) {
				return anonymous(wrapped.ClientConfigForService(name, namespace, port))
			},
		}
	}
}

// anonymous returns how to reach a server, without what it would know us by.
func anonymous(config *rest.Config, err error) (*rest.Config, error) {
	if err != nil {
		return nil, err
	}
	return &rest.Config{Dial: config.Dial, Proxy: config.Proxy, UserAgent: config.UserAgent, Timeout: config.Timeout}, nil
}
