package server

import (
	"net/http"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/tenantry/tenantry/internal/search"
	"github.com/tenantry/tenantry/internal/server/audit"
	"github.com/tenantry/tenantry/internal/server/authentication"
	"github.com/tenantry/tenantry/internal/server/filters"
	"github.com/tenantry/tenantry/internal/server/flowcontrol"
	"github.com/tenantry/tenantry/internal/server/registry/apiservice"
	"github.com/tenantry/tenantry/internal/server/spaceapi"
	"github.com/tenantry/tenantry/internal/server/usage"
	"github.com/tenantry/tenantry/internal/tenant"
)

// handlerChain wraps upstream's chain. Its filters, outermost first:
//
//	WithTenant         which space the URL names
//	WithSockets        subscriptions, if the server has searches: each as a request to what follows
//	WithSpaces         searches of several spaces: a request to what follows in each
//	WithAnswers        count the answers, by tenant
//	WithSent           how much work a request is, whether its body comes, and its answer is read
//	withEnd            end what a server waits for that is ended before it is ready
//	withRights         503 in spaces until the rights in them have been read
//	WithChallenge      how to log in by a password, in answers with 401
//	WithUnavailable    503 instead of 401 where nobody can tell who it is
//	(upstream)         authentication, audit, impersonation, fairness, authorization
//	WithLevelSeats     requests that wait for their clients leave seats to others
//	WithUnended        writes end with their work, not with their clients
//	WithOpen           count what is being served, by tenant
//	WithLimits         is the tenant within its rateLimit
//	WithNamespace      which life of its namespace it was authorized for; watches end with it
//	WithSpace          does the space exist, and does it take this request
//	WithRequestLimit   is the request within the tenant's requestLimit
//	WithWatchBytes     do the tenant's watches hold more of events than they may
//	WithPretty         indent what is to be indented
//	WithTables         which answers may be tables
//	WithBody           metadata.tenant of request bodies, and how long their lists are
//	WithSpaceIssuers   discovery documents of the issuers of spaces
//	WithSearch         searches, if the server has them
//	(spaces)           what serves the space
func (a *assembly) handlerChain(spaces http.Handler, served apiservice.Served, finder *search.Service, generic *genericapiserver.Config) http.Handler {
	withTenants := *generic
	withTenants.Authentication.Authenticator = authentication.WithAudit(authentication.Unavailable(
		authentication.WithLoopback(generic.Authentication.Authenticator, a.loopback.BearerToken, a.informersToken)))
	if finder != nil {
		spaces = finder.WithSearch(spaces)
		withTenants.Authentication.Authenticator = search.RequireUser(withTenants.Authentication.Authenticator)
	}
	if generic.AuditBackend != nil {
		withTenants.Authentication.Authenticator = audit.WithSpace(withTenants.Authentication.Authenticator)
		withTenants.AuditPolicyRuleEvaluator = &audit.Evaluator{Server: generic.AuditPolicyRuleEvaluator, OfUser: a.auditPolicy, OfSpace: a.lookup.AuditPolicy}
	}
	withTenants.Authorization.Authorizer = flowcontrol.InTurn(authentication.WithAuditTarget(generic.Authorization.Authorizer))

	flow := a.opts.FlowControl
	limits := flowcontrol.NewLimits(flow.Allowance, a.lookup.RateLimit)
	if generic.FlowControl != nil {
		withTenants.FlowControl = flowcontrol.New(generic.FlowControl, flowcontrol.Config{
			Stats: generic.StorageObjectCountTracker.Get, Counts: a.spaces.Counts, Limits: limits, Concurrency: flow.Concurrency,
		})
	}
	extra := a.kube.ControlPlane.Extra
	handler := authentication.WithSpaceIssuers(spaces, authentication.Issuer{
		URL: extra.ServiceAccountIssuerURL, JWKSURI: extra.ServiceAccountJWKSURI, Address: generic.ExternalAddress, Keys: extra.ServiceAccountPublicKeysGetter,
	})
	handler = filters.WithBody(handler, generic.Serializer, apiextensionsapiserver.Codecs)
	handler = filters.WithTables(handler)
	handler = filters.WithPretty(handler, generic.Serializer)
	handler = flowcontrol.WithWatchBytes(handler, flow.WatchBytes)
	handler = flowcontrol.WithRequestLimit(handler, flow.Size, a.lookup.RequestLimit, generic.Serializer)
	handler = filters.WithSpace(handler, a.lookup.Get, shows(served), a.lookup.Bind, generic.Serializer)
	lasting := flowcontrol.Lasting(generic.LongRunningFunc)
	handler = filters.WithNamespace(handler, a.lives, lasting, generic.Serializer)
	handler = flowcontrol.WithLimits(handler, limits, lasting, generic.Serializer)
	handler = usage.WithOpen(handler, lasting)
	handler = flowcontrol.WithLevelSeats(flowcontrol.WithUnended(handler, lasting))
	handler = genericapiserver.DefaultBuildHandlerChain(handler, &withTenants)
	if a.opts.authentication.KeystoneConfig != "" {
		handler = authentication.WithUnavailable(handler, generic.Serializer)
	}
	if a.opts.authentication.BasicAuthFile != "" {
		handler = authentication.WithChallenge(handler)
	}
	handler = a.start.withEnd(withRights(handler, func() bool { return a.rbac.HasSynced() && a.users.HasSynced() }, generic.Serializer))
	handler = usage.WithAnswers(flowcontrol.WithSent(handler, generic.RequestTimeout), a.usage, a.recorder)
	if finder != nil {
		handler = finder.WithSockets(finder.WithSpaces(handler))
	}
	return filters.WithTenant(handler, generic.Serializer)
}

// shows reports whether a space shows an object that it does not store: APIServices are
// those of what it serves, and there are no nodes.
func shows(served apiservice.Served) func(n tenant.Name, resource schema.GroupResource, name string) (bool, error) {
	return func(n tenant.Name, resource schema.GroupResource, name string) (bool, error) {
		if resource != spaceapi.APIServices {
			return false, nil
		}
		return served.Shows(n, name)
	}
}
