package filters

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/server/authentication/identity"
	tenantregistry "github.com/tenantry/tenantry/internal/server/registry/tenant"
	"github.com/tenantry/tenantry/internal/server/spaceapi"
	"github.com/tenantry/tenantry/internal/tenant"
)

// TenantState returns the state of a tenant and whether the tenant exists.
type TenantState func(ctx context.Context, n tenant.Name) (tenantregistry.State, bool, error)

// Shows reports whether the space of n shows an object of a resource that spaces cannot
// change. It does not depend on the system space.
type Shows func(n tenant.Name, resource schema.GroupResource, name string) (bool, error)

var tenants = schema.GroupResource{Resource: "tenants"}

// Bind returns the context of a request that ends with the tenant of a UID and, unless
// the user is a system user, with the tenant's suspension. The function must be called when
// the request is done.
type Bind func(ctx context.Context, n tenant.Name, uid types.UID, system bool) (context.Context, context.CancelFunc)

// WithSpace refuses requests that a space does not accept, and ends accepted requests with
// the tenant. It runs after authorization, so that users learn nothing from it about
// tenants other than their own.
func WithSpace(handler http.Handler, state TenantState, shows Shows, bind Bind, serializer runtime.NegotiatedSerializer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		n, uid, err := admitToSpace(req, state, shows)
		if err != nil {
			rejectSpace(w, req, serializer, err)
			return
		}
		if n != "" {
			ctx, releaseOwn, err := bindToOwn(req.Context(), n, state, bind)
			if err != nil {
				reject(w, req, serializer, apierrors.NewInternalError(err))
				return
			}
			defer releaseOwn()
			user, err := tenant.UserTenant(ctx)
			ctx, release := bind(ctx, n, uid, err == nil && user == tenant.System)
			defer release()
			if ctx, err = asAuthenticated(ctx); err != nil {
				reject(w, req, serializer, apierrors.NewForbidden(tenants, string(n), err))
				return
			}
			req = req.WithContext(ctx)
		}
		handler.ServeHTTP(w, req)
	})
}

// bindToOwn returns the context of a request in the space of n that ends with the tenant of its user, too, if that is
// another one: who is suspended or deleted at home does not go on as a guest.
func bindToOwn(ctx context.Context, n tenant.Name, state TenantState, bind Bind) (context.Context, context.CancelFunc, error) {
	own := tenant.RequestFrom(ctx).Authenticated
	if !own.IsSpace() || own == n {
		return ctx, func() {}, nil
	}
	found, _, err := state(ctx, own)
	if err != nil {
		return ctx, nil, err
	}
	bound, release := bind(ctx, own, found.UID, false)
	return bound, release, nil
}

// rejectSpace sends an error. Clients request discovery first, for which client-go shows the
// text of a response but not the message of a Status.
func rejectSpace(w http.ResponseWriter, req *http.Request, serializer runtime.NegotiatedSerializer, err error) {
	info, ok := request.RequestInfoFrom(req.Context())
	if ok && !info.IsResourceRequest && apierrors.IsForbidden(err) {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	reject(w, req, serializer, err)
}

// asAuthenticated replaces the user of ctx, who may be impersonated, by the user that
// authentication would have made. Authorization has decided about that user.
func asAuthenticated(ctx context.Context) (context.Context, error) {
	userTenant, err := tenant.UserTenant(ctx)
	u, ok := request.UserFrom(ctx)
	if err != nil || !ok || userTenant == tenant.System {
		return ctx, err
	}
	settled, err := identity.As(u, userTenant)
	return request.WithUser(ctx, settled), err
}

// admitToSpace returns the tenant in whose space a request may act, with its UID. The name is
// empty for admitted requests in no tenant's space, or in many.
func admitToSpace(req *http.Request, state TenantState, shows Shows) (tenant.Name, types.UID, error) {
	ctx := req.Context()
	info, ok := request.RequestInfoFrom(ctx)
	if !ok {
		return "", "", apierrors.NewInternalError(errors.New("no RequestInfo in the context"))
	}
	in, err := tenant.ScopeFrom(ctx)
	n, one := in.Tenant()
	switch {
	case errors.Is(err, tenant.ErrNoTenant) && !info.IsResourceRequest:
		return "", "", nil // the authorizer has let a health check through
	case err != nil:
		return "", "", apierrors.NewForbidden(tenants, "", err)
	case in.IsMany():
		if info.IsResourceRequest && info.Verb != "list" && info.Verb != "watch" {
			return "", "", apierrors.NewMethodNotSupported(schema.GroupResource{Group: info.APIGroup, Resource: info.Resource},
				info.Verb+" in all tenants at once")
		}
		return "", "", nil
	case !one:
		return "", "", nil
	}
	found, exists, err := state(ctx, n)
	if err != nil {
		return "", "", apierrors.NewInternalError(err)
	}
	userTenant, err := tenant.UserTenant(ctx)
	if err != nil {
		return "", "", apierrors.NewForbidden(tenants, "", err)
	}
	if err := checkAge(ctx, n, found); err != nil {
		return "", "", err
	}
	if err := checkUID(ctx, n, found, state); err != nil {
		return "", "", err
	}
	return n, found.UID, admit(n, userTenant, info, found, exists, shows)
}

// checkAge refuses a request that was received before its tenant was created if there was
// an earlier tenant of the name, whose users may have sent it.
func checkAge(ctx context.Context, n tenant.Name, found tenantregistry.State) error {
	if received, ok := request.ReceivedTimestampFrom(ctx); ok && received.Before(found.CredentialsNotBefore) {
		return apierrors.NewForbidden(tenants, string(n), fmt.Errorf("tenant %q is younger than this request", n))
	}
	return nil
}

// checkUID refuses a request whose credentials were checked for an earlier tenant of the
// name, or before the tenant existed. A server that stalls may learn of its tenants between
// authentication and this check. found is the state of n.
func checkUID(ctx context.Context, n tenant.Name, found tenantregistry.State, state TenantState) error {
	r := tenant.RequestFrom(ctx)
	if !r.Authenticated.IsSpace() {
		return nil
	}
	if r.Authenticated != n {
		var err error
		if found, _, err = state(ctx, r.Authenticated); err != nil {
			return apierrors.NewInternalError(err)
		}
		if err := checkAge(ctx, r.Authenticated, found); err != nil {
			return err
		}
	}
	if !r.HasUID(found.UID) {
		return apierrors.NewForbidden(tenants, string(r.Authenticated),
			fmt.Errorf("tenant %q was made or deleted while the credentials were checked; try again", r.Authenticated))
	}
	return nil
}

// admit decides about a request of a user of a tenant in the space of n.
func admit(n, userTenant tenant.Name, info *request.RequestInfo, state tenantregistry.State, exists bool, shows Shows) error {
	resource := schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}
	var refused error
	if info.IsResourceRequest {
		refused = spaceapi.Request(info.Verb, resource, info.Subresource)
	}
	switch {
	case !exists && userTenant == tenant.System:
		return apierrors.NewNotFound(tenants, string(n))
	case !exists:
		return apierrors.NewForbidden(tenants, string(n), fmt.Errorf("tenant %q does not exist; ask the platform's administrators", n))
	case info.IsResourceRequest && spaceapi.IsAbsent(resource):
		return apierrors.NewNotFound(resource, info.Name)
	case refused != nil:
		return refusal(n, info, resource, refused, shows)
	case state.Terminating && info.IsResourceRequest && info.Verb == "create" && !isReview(info):
		return Terminating(n)
	case state.Terminating && userTenant != tenant.System && info.IsResourceRequest && isWrite(info.Verb) && !isReview(info):
		return Ending(n)
	case state.Suspended && userTenant != tenant.System:
		reason := "no reason is given"
		if state.Reason != "" {
			reason = state.Reason
		}
		return apierrors.NewForbidden(tenants, string(n), fmt.Errorf("tenant %q is suspended: %s", n, reason))
	default:
		return nil
	}
}

// refusal returns the error of a request that every space refuses for a reason. To delete an
// object that the space does not show is a NotFound: clients that clean up what they
// could not create, such as Helm, ignore that. To delete a collection is refused even so,
// because its objects may be shown and stay.
func refusal(n tenant.Name, info *request.RequestInfo, resource schema.GroupResource, reason error, shows Shows) error {
	if info.Verb == "delete" && info.Subresource == "" {
		shown, err := shows(n, resource, info.Name)
		switch {
		case err != nil:
			return apierrors.NewInternalError(fmt.Errorf("looking for %s %q in the space of tenant %q: %w", resource, info.Name, n, err))
		case !shown:
			return apierrors.NewNotFound(resource, info.Name)
		}
	}
	return apierrors.NewForbidden(resource, info.Name, reason)
}

// Terminating refuses a new object like a terminating namespace, so that
// controllers do not retry.
func Terminating(n tenant.Name) error {
	err := apierrors.NewForbidden(tenants, string(n), fmt.Errorf("tenant %q is being deleted and takes no new objects", n))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type:    corev1.NamespaceTerminatingCause,
		Message: fmt.Sprintf("tenant %s is being terminated", n),
		Field:   "metadata.namespace",
	})
	return err
}

// Ending refuses a change in a space that is being emptied.
func Ending(n tenant.Name) error {
	return apierrors.NewForbidden(tenants, string(n), fmt.Errorf("tenant %q is being deleted, and nobody of it changes anything any more", n))
}

// isReview reports whether a creation is a review, which is not stored.
func isReview(info *request.RequestInfo) bool {
	return info.APIGroup == "authorization.k8s.io" || info.APIGroup == "authentication.k8s.io"
}

func isWrite(verb string) bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, verb)
}
