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

// Life returns the UID of the tenant that has a name, which tells it from earlier
// and later ones of that name; empty if there is none.
type Life func(ctx context.Context, n tenant.Name) (types.UID, error)

// note notes in the request of ctx which tenant has the name n. It comes before what is
// checked by other properties of the tenant: those may be a later tenant's, and then the
// request is refused where it is admitted to a space, but never an earlier one's.
func (l Life) note(ctx context.Context, n tenant.Name) error {
	if l == nil || n == tenant.System {
		return nil
	}
	uid, err := l(ctx, n)
	if err != nil {
		return err
	}
	return noteLife(ctx, n, uid)
}

func noteLife(ctx context.Context, n tenant.Name, uid types.UID) error {
	if !tenant.RequestFrom(ctx).NoteLife(uid) {
		return identity.Refuse("tenant %q was made again while they were checked; try again", n)
	}
	return nil
}

// cached returns an authenticator that remembers for a while what delegate knows of a
// token, but not beyond the life of the user's tenant: the next tenant of that name may
// have somebody else of the user's name. A nil Life knows of no lives.
func (l Life) cached(delegate authenticator.Token, errors bool, successes, failures time.Duration) authenticator.Token {
	verified := l.verified(delegate)
	remembered := cache.New(verified, errors, successes, failures)
	return authenticator.TokenFunc(func(ctx context.Context, token string) (*authenticator.Response, bool, error) {
		response, ok, err := remembered.AuthenticateToken(ctx, token)
		if err != nil || !ok {
			return nil, false, err
		}
		current, err := l.isCurrent(ctx, response)
		if err != nil {
			return nil, false, err
		}
		if !current {
			if response, ok, err = verified.AuthenticateToken(ctx, token); err != nil || !ok {
				return nil, false, err
			}
		}
		if u, ok := response.User.(userInLife); ok {
			if err := noteLife(ctx, u.tenant, u.uid); err != nil {
				return nil, false, err
			}
			response = u.response
		}
		return response, true, nil
	})
}

// userInLife is a user of a tenant with the UID that the tenant had before the user's
// token was verified.
type userInLife struct {
	user.Info
	tenant   tenant.Name
	uid      types.UID
	response *authenticator.Response
}

// verified returns delegate, which answers with users in the lives of their tenants.
func (l Life) verified(delegate authenticator.Token) authenticator.Token {
	if l == nil {
		return delegate
	}
	return authenticator.TokenFunc(func(ctx context.Context, token string) (*authenticator.Response, bool, error) {
		// What is verified against the objects of a space says in advance of which.
		claimed := claimedTenant(token)
		var before types.UID
		if claimed != "" {
			var err error
			if before, err = l(ctx, claimed); err != nil {
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
			if before, err = l(ctx, n); err != nil {
				return nil, false, err
			}
		}
		marked := *response
		marked.User = userInLife{Info: response.User, tenant: n, uid: before, response: response}
		return &marked, true, nil
	})
}

// isCurrent reports whether the tenant of a verified user is still the same.
func (l Life) isCurrent(ctx context.Context, response *authenticator.Response) (bool, error) {
	u, ok := response.User.(userInLife)
	if !ok {
		return true, nil
	}
	now, err := l(ctx, u.tenant)
	return now == u.uid, err
}
