package authentication

import (
	"context"
	"net/http"
	"strings"

	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/tenantry/tenantry/internal/tenant"
)

// WithAudit notes in the audit event which space the URL names and which tenant
// the user has.
func WithAudit(delegate authenticator.Request) authenticator.Request {
	return authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		ctx := req.Context()
		r := tenant.RequestFrom(ctx)
		if r != nil && r.Requested != "" {
			audit.AddAuditAnnotation(ctx, tenant.AuditTenant, string(r.Requested))
		}
		response, ok, err := delegate.AuthenticateRequest(req)
		if ok && err == nil && r != nil && r.Authenticated != "" {
			audit.AddAuditAnnotation(ctx, tenant.AuditUserTenant, string(r.Authenticated))
		}
		return response, ok, err
	})
}

// WithAuditTarget notes in the audit event the space of a request whose URL names none.
func WithAuditTarget(delegate authorizer.UnconditionalAuthorizer) authorizer.Authorizer {
	return authorizer.AuthorizerFunc(func(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		// Requests to impersonate come before the request itself.
		if r := tenant.RequestFrom(ctx); r != nil && r.Requested == "" && !strings.HasPrefix(a.GetVerb(), "impersonate") {
			if n, err := tenant.ScopeFrom(ctx); err == nil {
				audit.AddAuditAnnotation(ctx, tenant.AuditTenant, string(n))
			}
		}
		return delegate.Authorize(ctx, a)
	})
}
