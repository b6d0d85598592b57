package admission

import (
	"net/url"

	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/tenant"
)

// servicesIn resolves the services of a tenant's space, over a resolver of
// flattened names.
type servicesIn struct {
	flat   webhook.ServiceResolver
	tenant tenant.Name
}

func (s servicesIn) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	return s.flat.ResolveEndpoint(tenant.Flatten(s.tenant, namespace), name, port)
}

// withoutCredentials returns wrap for the webhooks of a tenant. Upstream's wrap
// sends what goes to the service "kubernetes" with the server's own credentials;
// in a tenant's hands that would be every right there is.
func withoutCredentials(wrap webhook.AuthenticationInfoResolverWrapper) webhook.AuthenticationInfoResolverWrapper {
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
