package server

import (
	"net/http"

	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/tenantry/tenantry/internal/server/authentication"
	"github.com/tenantry/tenantry/internal/server/filters"
)

// handlerChain wraps upstream's chain. Its filters, outermost first:
//
//	WithTenant         which space the URL names
//	(upstream)         authentication, audit, impersonation, fairness, authorization
//	WithSpace          does the space exist, and does it take this request
//	WithTenantField    metadata.tenant of request bodies
func handlerChain(apiHandler http.Handler, c *genericapiserver.Config) http.Handler {
	// Completing the configuration has put the loopback token in front of the
	// authenticators; its user belongs to the system tenant.
	withTenants := *c
	withTenants.Authentication.Authenticator = authentication.WithLoopback(c.Authentication.Authenticator)

	handler := filters.WithTenantField(apiHandler, c.Serializer)
	handler = filters.WithSpace(handler, c.Serializer)
	handler = genericapiserver.DefaultBuildHandlerChain(handler, &withTenants)
	return filters.WithTenant(handler, c.Serializer)
}
