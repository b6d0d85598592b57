package server

import (
	"context"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	upstreamaudit "k8s.io/apiserver/pkg/audit"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/server/audit"
	"github.com/tenantry/tenantry/internal/server/authentication"
	"github.com/tenantry/tenantry/internal/server/filters"
	"github.com/tenantry/tenantry/internal/server/flowcontrol"
	tenantregistry "github.com/tenantry/tenantry/internal/server/registry/tenant"
	"github.com/tenantry/tenantry/internal/server/spaceapi"
	"github.com/tenantry/tenantry/internal/server/usage"
	"github.com/tenantry/tenantry/internal/tenant"
)

// handlerChain wraps upstream's chain. Its filters, outermost first:
//
//	WithTenant         which space the URL names
//	WithAnswers        count the answers, by tenant
//	(upstream)         authentication, audit, impersonation, fairness, authorization
//	WithOpen           count what is being served, by tenant
//	WithSpace          does the space exist, and does it take this request
//	WithLimits         is the tenant within its rateLimit
//	WithRequestLimit   is the request within the tenant's requestLimit
//	WithTenantField    metadata.tenant of request bodies
//	Router             what serves the space
func (c *config) handlerChain(apiHandler http.Handler, generic *genericapiserver.Config) http.Handler {
	withTenants := *generic
	withTenants.Authentication.Authenticator = authentication.WithAudit(
		authentication.WithLoopback(generic.Authentication.Authenticator, c.own.BearerToken, c.informersToken))
	if generic.AuditBackend != nil {
		withTenants.Authentication.Authenticator = audit.WithSpace(withTenants.Authentication.Authenticator)
		withTenants.AuditPolicyRuleEvaluator = &audit.Evaluator{Server: generic.AuditPolicyRuleEvaluator, OfUser: c.auditPolicy, OfSpace: c.knownAuditPolicy}
	}
	withTenants.Authorization.Authorizer = authentication.WithAuditTarget(generic.Authorization.Authorizer)

	limits := flowcontrol.NewLimits(c.flow.Allowance, func(n tenant.Name) *v1alpha1.RateLimit { return c.tenants.RateLimit(n) })
	if generic.FlowControl != nil {
		withTenants.FlowControl = flowcontrol.New(generic.FlowControl, flowcontrol.Config{
			Stats: generic.StorageObjectCountTracker.Get, Counts: c.counts, Limits: limits, Concurrency: c.flow.Concurrency,
		})
	}

	if c.router != nil { // not in the servers that the aggregator delegates to
		c.router.System = apiHandler
		apiHandler = authentication.WithSpaceIssuers(c.router, authentication.Issuer{
			URL:     c.kube.ControlPlane.Extra.ServiceAccountIssuerURL,
			JWKSURI: c.kube.ControlPlane.Extra.ServiceAccountJWKSURI,
			Address: generic.ExternalAddress,
			Keys:    c.kube.ControlPlane.Extra.ServiceAccountPublicKeysGetter,
		})
	}
	handler := filters.WithTenantField(apiHandler, generic.Serializer)
	handler = flowcontrol.WithRequestLimit(handler, c.flow.Size, func(n tenant.Name) *v1alpha1.RequestLimit { return c.tenants.RequestLimit(n) }, generic.Serializer)
	handler = flowcontrol.WithLimits(handler, limits, generic.LongRunningFunc, generic.Serializer)
	handler = filters.WithSpace(handler, c.tenantState, c.shows, c.attach, generic.Serializer)
	handler = usage.WithOpen(handler, generic.LongRunningFunc)
	handler = genericapiserver.DefaultBuildHandlerChain(handler, &withTenants)
	if c.passwords {
		handler = authentication.WithChallenge(handler)
	}
	return filters.WithTenant(usage.WithAnswers(flowcontrol.WithSent(handler), c.usage, c.recorder), generic.Serializer)
}

func (c *config) tenantState(ctx context.Context, n tenant.Name) (tenantregistry.State, bool, error) {
	return c.tenants.Get(ctx, n)
}

// shows reports whether a space shows an object that it does not store: APIServices are
// those of what it serves, and there are no nodes.
func (c *config) shows(n tenant.Name, resource schema.GroupResource, name string) (bool, error) {
	if resource != spaceapi.APIServices {
		return false, nil
	}
	return c.apiServices().Shows(n, name)
}

func (c *config) attach(ctx context.Context, n tenant.Name, uid types.UID, system bool) (context.Context, context.CancelFunc) {
	return c.tenants.Bind(ctx, n, uid, system)
}

// patience is for how long an audit event waits for the storage of Tenants, which
// answers from memory once the server is ready.
const patience = 5 * time.Second

// auditPolicy returns the audit policy of a user's tenant, nil if it has none.
func (c *config) auditPolicy(n tenant.Name) upstreamaudit.PolicyRuleEvaluator {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	state, _, err := c.tenants.Get(ctx, n)
	if err != nil {
		return nil // the server's holds
	}
	return state.AuditPolicy
}

// knownAuditPolicy returns the audit policy of a tenant that is in memory.
func (c *config) knownAuditPolicy(n tenant.Name) upstreamaudit.PolicyRuleEvaluator {
	return c.tenants.AuditPolicy(n)
}

// tenantUID returns the UID of a tenant, empty if there is none.
func (c *config) tenantUID(ctx context.Context, n tenant.Name) (types.UID, error) {
	state, _, err := c.tenants.Get(ctx, n)
	return state.UID, err
}

// credentialsSince returns when a tenant took the name of an earlier one.
func (c *config) credentialsSince(ctx context.Context, n tenant.Name) (time.Time, error) {
	state, _, err := c.tenants.Get(ctx, n)
	return state.CredentialsNotBefore, err
}
