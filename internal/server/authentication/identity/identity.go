package identity

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/tenantry/tenantry/internal/tenant"
)

// ErrRefused ends authentication: the credentials are genuine and unusable, so
// nothing else may accept them.
var ErrRefused = errors.New("credentials refused")

// Refuse returns an ErrRefused with a reason.
func Refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrRefused, fmt.Errorf(format, args...))
}

// systemPrefix is the prefix of users and groups of Kubernetes.
const systemPrefix = "system:"

// ErrUnavailable means that it cannot be known now whether credentials are genuine.
var ErrUnavailable = errors.New("credentials cannot be verified now")

// Unavailable returns an ErrUnavailable with its reason.
func Unavailable(err error) error { return fmt.Errorf("%w: %w", ErrUnavailable, err) }

// Limited is an ErrUnavailable: of a user, or from an address, came too many wrong passwords.
type Limited struct {
	// After is when to try again.
	After time.Duration
}

// Error implements error.
func (l *Limited) Error() string {
	return fmt.Sprintf("too many wrong passwords; the next one is looked at after %s", l.After.Round(time.Second))
}

// Unwrap returns ErrUnavailable.
func (*Limited) Unwrap() error { return ErrUnavailable }

// Names, groups and extras of users of Keystone, which are no other's.
const (
	KeystonePrefix  = "keystone:"
	KeystoneProject = KeystonePrefix + "project:"
	KeystoneDomain  = KeystonePrefix + "domain:"
	KeystoneSystem  = KeystonePrefix + "system"
	KeystoneExtra   = "keystone.tenantry.io/"
)

// IsKeystone reports whether a name, or a group, is one of Keystone's.
func IsKeystone(name string) bool { return strings.HasPrefix(name, KeystonePrefix) }

// ParseTenant returns the tenant that credentials name. The system tenant is an
// error if the issuer of the credentials may not name it.
func ParseTenant(name string, maySystem bool) (tenant.Name, error) {
	n, err := tenant.Parse(name)
	switch {
	case err != nil:
		return "", err
	case n == tenant.System && !maySystem:
		return "", fmt.Errorf("tenant %q may not be given by this issuer", n)
	default:
		return n, nil
	}
}

// New returns u as a user of n, or of no tenant if n is empty, or an error if its name is
// not allowed there. It is for names from outside; for names that the server has verified
// itself there is Of. Outside the system tenant, groups of Kubernetes are removed: they
// have no rights there, or the server adds them itself, such as those of service accounts.
// What is Keystone's is removed in every tenant.
func New(u user.Info, n tenant.Name) (*user.DefaultInfo, error) {
	if IsKeystone(u.GetName()) {
		return nil, fmt.Errorf("user name %q begins with %q and belongs to Keystone", u.GetName(), KeystonePrefix)
	}
	return newUser(u, n)
}

// newUser returns u as New does, or as a user of Keystone.
func newUser(u user.Info, n tenant.Name) (*user.DefaultInfo, error) {
	switch name := u.GetName(); {
	case name == "":
		return nil, errors.New("the user has no name")
	case name == user.Anonymous || name == user.APIServerUser || name == tenant.Publisher || name == tenant.Syncer:
		return nil, fmt.Errorf("user name %q is reserved", name)
	case n != tenant.System && strings.HasPrefix(name, systemPrefix):
		return nil, fmt.Errorf("user name %q begins with %q and belongs to the system tenant", name, systemPrefix)
	}
	result := Of(u, n)
	impossible := func(group string) bool { return isImpossible(group, u.GetName(), n) }
	if slices.ContainsFunc(result.Groups, impossible) {
		result.Groups = slices.DeleteFunc(slices.Clone(result.Groups), impossible)
	}
	if !IsKeystone(u.GetName()) {
		maps.DeleteFunc(result.Extra, func(key string, _ []string) bool { return IsKeystoneExtra(key) })
	}
	return result, nil
}

// isImpossible reports whether a user of n cannot be in a group. Users of Keystone are in its
// groups alone.
func isImpossible(group, name string, n tenant.Name) bool {
	return n != tenant.System && isKubernetes(group) || IsKeystone(group) != IsKeystone(name) && group != user.AllAuthenticated
}

// IsKeystoneExtra reports whether a key of a user's extra is one of Keystone's. The case of
// keys that come in headers does not count.
func IsKeystoneExtra(key string) bool { return strings.HasPrefix(strings.ToLower(key), KeystoneExtra) }

func isKubernetes(group string) bool {
	return strings.HasPrefix(group, systemPrefix) && group != user.AllAuthenticated
}

// formerKey is what others than the server may still write.
var formerKey = tenant.Former(tenant.UserExtraKey)

// Of returns u as a user of n, or of no tenant if n is empty, and ignores the tenant in
// its extra.
func Of(u user.Info, n tenant.Name) *user.DefaultInfo {
	extra := maps.Clone(u.GetExtra())
	delete(extra, tenant.UserExtraKey)
	delete(extra, formerKey)
	if n != "" {
		if extra == nil {
			extra = make(map[string][]string, 1)
		}
		extra[tenant.UserExtraKey] = []string{string(n)}
	}
	return &user.DefaultInfo{Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: extra}
}

// FromExtra returns u as a user of the tenant that its extra names under the first of keys
// with a value. Without any it is a user without tenant. maySystem is called only for the
// system tenant.
func FromExtra(u user.Info, keys []string, maySystem func() bool) (*user.DefaultInfo, error) {
	name, err := firstValue(u.GetExtra(), keys)
	if err != nil {
		return nil, err
	}
	var n tenant.Name
	if name != "" {
		if n, err = ParseTenant(name, name == string(tenant.System) && maySystem()); err != nil {
			return nil, err
		}
	}
	return New(u, n)
}

func firstValue(extra map[string][]string, keys []string) (string, error) {
	for _, key := range keys {
		values := slices.DeleteFunc(slices.Clone(extra[key]), func(v string) bool { return v == "" })
		switch len(values) {
		case 0:
		case 1:
			return values[0], nil
		default:
			return "", fmt.Errorf("extra %q names %d tenants", key, len(values))
		}
	}
	return "", nil
}
