package authentication

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/token/cache"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/tenantry/tenantry/internal/server/authentication/identity"
	"github.com/tenantry/tenantry/internal/tenant"
)

// TenantUID returns the UID of a tenant, which distinguishes it from earlier and later
// tenants of the name; empty if there is none.
type TenantUID func(ctx context.Context, n tenant.Name) (types.UID, error)

// note notes in the request of ctx the UID of tenant n. It is called before other
// properties of the tenant are checked. Those may be a later tenant's, and then admission
// to the space refuses the request, but they are never an earlier one's.
func (t TenantUID) note(ctx context.Context, n tenant.Name) error {
	if t == nil || n == tenant.System {
		return nil
	}
	uid, err := t(ctx, n)
	if err != nil {
		return err
	}
	return noteUID(ctx, n, uid)
}

func noteUID(ctx context.Context, n tenant.Name, uid types.UID) error {
	if !tenant.RequestFrom(ctx).NoteUID(uid) {
		return identity.Refuse("tenant %q was made again while they were checked; try again", n)
	}
	return nil
}

// cached returns an authenticator that caches the results of delegate, but not beyond the
// end of the user's tenant: in the next tenant of that name, another user may have the
// user's name. A nil TenantUID does not distinguish tenants.
func (t TenantUID) cached(delegate authenticator.Token, errors bool, successes, failures time.Duration) authenticator.Token {
	verified := t.verified(delegate)
	caching := cache.New(verified, errors, successes, failures)
	return authenticator.TokenFunc(func(ctx context.Context, token string) (*authenticator.Response, bool, error) {
		response, ok, err := caching.AuthenticateToken(ctx, token)
		if err != nil || !ok {
			return nil, false, err
		}
		current, err := t.isCurrent(ctx, response)
		if err != nil {
			return nil, false, err
		}
		if !current {
			if response, ok, err = verified.AuthenticateToken(ctx, token); err != nil || !ok {
				return nil, false, err
			}
		}
		if u, ok := response.User.(userWithUID); ok {
			if err := noteUID(ctx, u.tenant, u.uid); err != nil {
				return nil, false, err
			}
			response = u.response
		}
		return response, true, nil
	})
}

// userWithUID is a user of a tenant with the UID that the tenant had before the user's
// token was verified.
type userWithUID struct {
	user.Info
	tenant   tenant.Name
	uid      types.UID
	response *authenticator.Response
}

// verified returns delegate with the UIDs of tenants in the users.
func (t TenantUID) verified(delegate authenticator.Token) authenticator.Token {
	if t == nil {
		return delegate
	}
	return authenticator.TokenFunc(func(ctx context.Context, token string) (*authenticator.Response, bool, error) {
		// A token that is verified against the objects of a space claims the tenant.
		claimed := claimedTenant(token)
		var before types.UID
		if claimed != "" {
			var err error
			if before, err = t(ctx, claimed); err != nil {
				return nil, false, err
			}
		}
		response, ok, err := delegate.AuthenticateToken(ctx, token)
		if err != nil || !ok {
			return nil, false, err
		}
		n, err := tenant.OfUser(response.User)
		if err != nil {
			return nil, false, identity.Refuse("%w", err)
		}
		if n == tenant.System {
			return response, true, nil
		}
		if claimed == "" || n != claimed {
			if before, err = t(ctx, n); err != nil {
				return nil, false, err
			}
		}
		marked := *response
		marked.User = userWithUID{Info: response.User, tenant: n, uid: before, response: response}
		return &marked, true, nil
	})
}

// isCurrent reports whether the tenant of a verified user is still the same.
func (t TenantUID) isCurrent(ctx context.Context, response *authenticator.Response) (bool, error) {
	u, ok := response.User.(userWithUID)
	if !ok {
		return true, nil
	}
	now, err := t(ctx, u.tenant)
	return now == u.uid, err
}
