package keystone

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"strings"
	"time"

	"k8s.io/utils/lru"

	"github.com/tenantry/tenantry/internal/keystone"
)

const (
	// The smallest Fernet token has 100 characters. Keystone's of one scope have 140 to 300,
	// those of federated users grow with their groups.
	minToken    = 100
	maxToken    = 2048
	tokenPrefix = "gAAAAA"
	tokenLetter = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
)

// Config configures an Authenticator.
type Config struct {
	// Validate asks Keystone about a token.
	Validate func(ctx context.Context, token keystone.Secret) (*keystone.Token, error)
	// LogIn asks Keystone about the password of a user of a domain; nil for no passwords.
	LogIn func(ctx context.Context, domainID, name string, password keystone.Secret) (*keystone.Access, error)
	// Timeout is how long either may take, log-in of the account included.
	Timeout time.Duration
	// TTL and NegativeTTL are for how long valid tokens, and others, are remembered.
	TTL, NegativeTTL time.Duration
	// AcceptTrusts accepts tokens of trusts that impersonate.
	AcceptTrusts bool
}

// Authenticator finds out what tokens and passwords stand for, and remembers it. It has none
// in memory but while it asks.
type Authenticator struct {
	config            Config
	key               []byte
	places            *places
	tokens, passwords *memory
	// users and addresses limit passwords that are refused.
	users, addresses *buckets
	// known are users who have logged in by a password, each with the address.
	known *lru.Cache
}

// New returns an Authenticator that remembers nothing yet.
func New(config Config) *Authenticator {
	a := &Authenticator{
		config: config, key: make([]byte, sha256.Size), places: newPlaces(),
		users: newBuckets(userAttempts, userPause), addresses: newBuckets(addressAttempts, addressPause), known: lru.New(maxBuckets),
	}
	a.tokens = newMemory(config, config.NegativeTTL, a.places, "tokens", lookups, lookupSeconds, cached)
	// A wrong password is as wrong as a valid one is valid: nobody can withdraw it but who changes it.
	a.passwords = newMemory(config, config.TTL, a.places, "passwords", logins, loginSeconds, cachedPasswords)
	_, _ = rand.Read(a.key) // it never fails
	return a
}

// Authenticate returns what a token says: nil for one that Keystone does not know,
// identity.ErrRefused for one that is refused, identity.ErrUnavailable if that cannot be known.
func (a *Authenticator) Authenticate(ctx context.Context, token string) (*Identity, error) {
	if !isToken(token) {
		return nil, nil
	}
	return a.tokens.find(ctx, a.digest(token), func(ctx context.Context) (verdict, time.Time, error) {
		answer, err := a.config.Validate(ctx, keystone.Secret(token))
		if err != nil {
			return verdict{}, time.Time{}, err
		}
		found := verdict{}
		found.identity, found.refused = identityOf(answer, a.config.AcceptTrusts)
		return found, answer.ExpiresAt, nil
	})
}

// Remembered returns what a valid token says, if it is remembered; nil, without asking
// Keystone, for all others. It is as Authenticate otherwise.
func (a *Authenticator) Remembered(token string) (*Identity, error) {
	if !isToken(token) {
		return nil, nil
	}
	found, ok := a.tokens.valid.Get(a.digest(token))
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

// digest returns by what a secret is remembered.
func (a *Authenticator) digest(secret string) string {
	h := hmac.New(sha256.New, a.key)
	h.Write([]byte(secret))
	return string(h.Sum(nil))
}
