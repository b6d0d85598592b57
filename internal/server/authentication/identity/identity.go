package identity

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
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

// systemPrefix begins the names and groups that mean something to Kubernetes.
const systemPrefix = "system:"

// ParseTenant returns the tenant that credentials name. The system tenant is an
// error where the credentials come from somebody who may not give it.
func ParseTenant(name string, maySystem bool) (tenant.Name, error) {
	n, err := tenant.Parse(name)
	switch {
	case err != nil:
		return "", err
	case n == tenant.All:
		return "", fmt.Errorf("tenant %q is reserved", n)
	case n == tenant.System && !maySystem:
		return "", fmt.Errorf("tenant %q may not be given by this issuer", n)
	default:
		return n, nil
	}
}

// New returns u as a user of n, or of no tenant if n is empty, if its name may
// be one there. It is for names that somebody else has chosen; for those that
// the server has verified itself there is Of.
func New(u user.Info, n tenant.Name) (*user.DefaultInfo, error) {
	switch name := u.GetName(); {
	case name == "":
		return nil, errors.New("the user has no name")
	case name == user.Anonymous || name == user.APIServerUser || name == tenant.Publisher:
		return nil, fmt.Errorf("user name %q is reserved", name)
	case n != tenant.System && strings.HasPrefix(name, systemPrefix):
		return nil, fmt.Errorf("user name %q begins with %q and belongs to the system tenant", name, systemPrefix)
	}
	return Of(u, n), nil
}

// Of returns u as a user of n, or of no tenant if n is empty, whatever its extra
// says. Outside the system tenant, groups of Kubernetes other than those the
// server itself gives mean nothing and are left out, so that no code that looks
// at them can be misled.
func Of(u user.Info, n tenant.Name) *user.DefaultInfo {
	result := &user.DefaultInfo{Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: u.GetExtra()}
	if n != tenant.System && slices.ContainsFunc(result.Groups, isPrivileged) {
		result.Groups = slices.DeleteFunc(slices.Clone(result.Groups), isPrivileged)
	}
	if n == "" {
		if _, ok := result.Extra[tenant.UserExtraKey]; ok {
			result.Extra = maps.Clone(result.Extra)
			delete(result.Extra, tenant.UserExtraKey)
		}
		return result
	}
	extra := make(map[string][]string, len(result.Extra)+1)
	maps.Copy(extra, result.Extra)
	extra[tenant.UserExtraKey] = []string{string(n)}
	result.Extra = extra
	return result
}

func isPrivileged(group string) bool {
	return strings.HasPrefix(group, systemPrefix) &&
		group != user.AllAuthenticated && group != user.AllUnauthenticated &&
		group != serviceaccount.AllServiceAccountsGroup &&
		!strings.HasPrefix(group, serviceaccount.ServiceAccountGroupPrefix)
}

// FromExtra returns u as a user of the tenant that one of the keys of its extra
// names: the first of keys that is there and not empty. Without any it is a user
// without tenant. maySystem is asked only for the system tenant.
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
