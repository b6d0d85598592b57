package keystone

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/keystone"
	"github.com/tenantry/tenantry/internal/server/authentication/identity"
)

const (
	// The smallest Fernet token has 100 characters. Keystone's of one scope have 140 to 300,
	// those of federated users grow with their groups.
	minToken    = 100
	maxToken    = 2048
	tokenPrefix = "gAAAAA"
	tokenLetter = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

	// maxRemembered is how many valid tokens are remembered, and how many others: these do
	// not drive those out.
	maxRemembered = 8192
	// outageLogInterval is how often an outage is logged.
	outageLogInterval = 10 * time.Second
)

// Config configures an Authenticator.
type Config struct {
	// Validate asks Keystone.
	Validate func(ctx context.Context, token keystone.Secret) (*keystone.Token, error)
	// Timeout is how long that may take, log-in included.
	Timeout time.Duration
	// TTL and NegativeTTL are for how long valid tokens, and others, are remembered.
	TTL, NegativeTTL time.Duration
	// AcceptTrusts accepts tokens of trusts that impersonate.
	AcceptTrusts bool
}

// Authenticator finds out what tokens say, and remembers it. It has no token in memory but
// while it asks.
type Authenticator struct {
	config         Config
	key            []byte
	valid, invalid *cache.LRUExpireCache
	flights        singleflight.Group
	places         *places
	outages        rate.Sometimes
}

// verdict is what is known of a token: who it is, or why it is refused.
type verdict struct {
	identity *Identity
	refused  error
}

// New returns an Authenticator that remembers nothing yet.
func New(config Config) *Authenticator {
	a := &Authenticator{
		config: config, key: make([]byte, sha256.Size), places: newPlaces(),
		valid: cache.NewLRUExpireCache(maxRemembered), invalid: cache.NewLRUExpireCache(maxRemembered),
		outages: rate.Sometimes{Interval: outageLogInterval},
	}
	_, _ = rand.Read(a.key) // it never fails
	return a
}

// Authenticate returns what a token says: nil for one that Keystone does not know,
// identity.ErrRefused for one that is refused, identity.ErrUnavailable if that cannot be known.
func (a *Authenticator) Authenticate(ctx context.Context, token string) (*Identity, error) {
	if !isToken(token) {
		return nil, nil
	}
	digest := a.digest(token)
	if found, ok := a.remembered(digest); ok {
		return found.identity, found.refused
	}
	cached.WithLabelValues("nothing").Inc()
	client, _ := ctx.Value(clientKey{}).(string)
	flight := a.flights.DoChan(digest, func() (any, error) { return a.lookUp(client, digest, token) })
	select {
	case result := <-flight:
		if result.Err != nil {
			return nil, result.Err
		}
		found := result.Val.(verdict)
		return found.identity, found.refused
	case <-ctx.Done():
		return nil, identity.Unavailable(ctx.Err())
	}
}

// Remembered returns what a valid token says, if it is remembered; nil, without asking
// Keystone, for all others. It is as Authenticate otherwise.
func (a *Authenticator) Remembered(token string) (*Identity, error) {
	if !isToken(token) {
		return nil, nil
	}
	found, ok := a.valid.Get(a.digest(token))
	if !ok {
		return nil, nil
	}
	cached.WithLabelValues(resultValid).Inc()
	return found.(verdict).identity, found.(verdict).refused
}

// isToken reports whether a bearer token looks like Keystone's. Others are not shown to it;
// a JWS token, which Keystone can make too, is not told from those of other issuers.
func isToken(token string) bool {
	return len(token) >= minToken && len(token) <= maxToken && strings.HasPrefix(token, tokenPrefix) && strings.Trim(token, tokenLetter) == ""
}

func (a *Authenticator) digest(token string) string {
	h := hmac.New(sha256.New, a.key)
	h.Write([]byte(token))
	return string(h.Sum(nil))
}

func (a *Authenticator) remembered(digest string) (verdict, bool) {
	if found, ok := a.valid.Get(digest); ok {
		cached.WithLabelValues(resultValid).Inc()
		return found.(verdict), true
	}
	if _, ok := a.invalid.Get(digest); ok {
		cached.WithLabelValues(resultInvalid).Inc()
		return verdict{}, true
	}
	return verdict{}, false
}

// lookUp asks Keystone, for all requests that wait for the same token. It ends with
// none of them.
func (a *Authenticator) lookUp(client, digest, token string) (verdict, error) {
	release, ok := a.places.acquire(client)
	if !ok {
		lookups.WithLabelValues(resultBusy).Inc()
		return verdict{}, identity.Unavailable(errBusy)
	}
	defer release()
	if found, ok := a.remembered(digest); ok { // since this request has looked
		return found, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), a.config.Timeout)
	defer cancel()
	begin := time.Now()
	answer, err := a.config.Validate(ctx, keystone.Secret(token))
	lookupSeconds.Observe(time.Since(begin).Seconds())
	switch {
	case errors.Is(err, keystone.ErrNotValid):
		return a.forget(digest), nil
	case err == nil && !answer.ExpiresAt.After(time.Now()):
		return a.forget(digest), nil
	case err == nil && time.Since(begin) >= a.config.TTL:
		err = errSlow // which is no denial
	}
	if err != nil {
		lookups.WithLabelValues(resultOutage).Inc()
		a.outages.Do(func() {
			klog.ErrorS(err, "Keystone cannot be asked about tokens; requests with tokens that are not remembered get 503", "nextLog", outageLogInterval)
		})
		return verdict{}, identity.Unavailable(err)
	}
	// Not from now on: the answer may be as old as the request.
	ttl := min(time.Until(begin.Add(a.config.TTL)), time.Until(answer.ExpiresAt))
	found := verdict{}
	found.identity, found.refused = identityOf(answer, a.config.AcceptTrusts)
	if found.refused != nil {
		lookups.WithLabelValues(resultRefused).Inc()
	} else {
		lookups.WithLabelValues(resultValid).Inc()
	}
	a.valid.Add(digest, found, ttl)
	return found, nil
}

// forget remembers that a token is not valid.
func (a *Authenticator) forget(digest string) verdict {
	lookups.WithLabelValues(resultInvalid).Inc()
	a.invalid.Add(digest, nil, a.config.NegativeTTL)
	return verdict{}
}

var (
	errBusy = errors.New("too many tokens wait to be looked up in Keystone")
	errSlow = errors.New("an answer of Keystone took longer than cacheTTL, for which it may be believed")
)
