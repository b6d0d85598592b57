package flowcontrol

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/tenant"
)

var errManyImpersonate = apierrors.NewTooManyRequests(
	fmt.Sprintf("%d requests of the tenant wait to be authorized to impersonate; try again, or send fewer of them at once", maxImpersonating), 1)

// InTurn is an authorizer by which the users of a tenant are authorized to impersonate one after the other. Each
// impersonated group and extra value is authorized separately, before the request has a seat, and the cost grows with
// the RBAC objects of the tenant. So a tenant has one such check at a time, and requests beyond those that wait are
// rejected, because nothing else bounds what they hold in memory.
func InTurn(delegate authorizer.Authorizer) authorizer.Authorizer {
	turns := keyed.Turns[tenant.Name]{Each: 1, Waiting: maxImpersonating}
	return authorizer.AuthorizerFunc(func(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		n := chargedTenant(ctx)
		if !strings.HasPrefix(a.GetVerb(), "impersonate") || !n.IsSpace() {
			return delegate.Authorize(ctx, a)
		}
		rejection := sentFrom(ctx).rejection
		if rejection != nil && rejection.Load() != nil {
			// Upstream tries one way to impersonate after the other. By none may be done what is answered so.
			return authorizer.DecisionDeny, "", keyed.ErrTooMany
		}
		release, err := turns.Take(ctx, n)
		if errors.Is(err, keyed.ErrTooMany) && rejection != nil {
			rejection.Store(errManyImpersonate)
		}
		if err != nil {
			return authorizer.DecisionDeny, "", err
		}
		defer release()
		return delegate.Authorize(ctx, a)
	})
}
