package admission

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	authenticationapi "k8s.io/kubernetes/pkg/apis/authentication"
	authorizationapi "k8s.io/kubernetes/pkg/apis/authorization"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/events"

	"github.com/tenantry/tenantry/internal/tenant"
)

// forTenant returns a request as webhooks and policies of a tenant's space see it,
// or nil if they must not see it.
func forTenant(ctx context.Context, a admission.Attributes) (admission.Attributes, error) {
	if isReview(a) {
		return nil, nil
	}
	n, err := tenant.UserTenant(ctx)
	switch {
	case err != nil:
		return nil, admission.NewForbidden(a, err)
	case n != tenant.System:
		return a, nil
	case a.GetUserInfo().GetName() == tenant.Syncer:
		// What a host says of a tenant's pods is so, whatever the tenant's policies make of it: if they could
		// refuse or change it, pods would run that no quota counts, and the syncer would write for ever.
		return nil, nil
	case a.GetResource().GroupResource() == core.Resource("events") || a.GetResource().GroupResource() == events.Resource("events"):
		// A controller records its events of all tenants one after the other: webhooks of one would keep those of others.
		return nil, nil
	case isToken(a.GetObject()) || isToken(a.GetOldObject()):
		return nil, nil
	case a.GetSubresource() == "status" || isCopy(a.GetOldObject()):
		// Statuses are facts, and copies are the publisher's. It is not asked about either: instanceOf leaves it out
		// when it creates them.
		return nil, nil
	default:
		return platformAttributes{a}, nil
	}
}

// isReview reports whether a request is a review, which may contain a token. Upstream keeps
// reviews from policies, but not from webhooks.
func isReview(a admission.Attributes) bool {
	group := a.GetResource().Group
	return group == authenticationapi.GroupName || group == authorizationapi.GroupName
}

// isToken reports whether obj is a Secret with the token of a service account, which a
// controller of the platform has created.
func isToken(obj runtime.Object) bool {
	secret, ok := obj.(*core.Secret)
	return ok && secret.Type == core.SecretTypeServiceAccountToken
}

// isCopy reports whether obj is the copy of a published object.
func isCopy(obj runtime.Object) bool {
	object, ok := obj.(metav1.Object)
	return ok && object.GetLabels()[tenant.PublishedCopyLabel] == tenant.PublishedCopy
}

// platformAttributes are the attributes of a request of the platform: its controllers,
// administrators and nodes.
type platformAttributes struct{ admission.Attributes }

// GetUserInfo returns a user that reveals only that it belongs to the platform.
func (a platformAttributes) GetUserInfo() user.Info {
	return platformUser{real: a.Attributes.GetUserInfo()}
}

// platformUser has the name tenant.Platform and nothing else. real is for the authorizer.
type platformUser struct{ real user.Info }

func (platformUser) GetName() string               { return tenant.Platform }
func (platformUser) GetUID() string                { return "" }
func (platformUser) GetGroups() []string           { return nil }
func (platformUser) GetExtra() map[string][]string { return nil }

// realAttributes are the attributes of an authorization of a platformUser.
type realAttributes struct {
	authorizer.Attributes
	user user.Info
}

// GetUser returns the real user.
func (a realAttributes) GetUser() user.Info { return a.user }

var errNotDecided = errors.New("the authorizer could not decide")

// authorizePlatform decides about a user of the platform. It drops reasons and errors, which
// would reveal the user.
func (s spaceAuthorizer) authorizePlatform(ctx context.Context, a authorizer.Attributes, u platformUser) (authorizer.Decision, string, error) {
	decision, _, err := s.authorizeAs(ctx, realAttributes{a, u.real}, tenant.System)
	if err != nil {
		err = errNotDecided
	}
	return decision, "", err
}
