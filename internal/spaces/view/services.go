package view

import (
	"net/url"

	"k8s.io/apiserver/pkg/util/webhook"

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
	return s.Flat.ResolveEndpoint(tenant.Flatten(s.Tenant, namespace).String(), name, port)
}
