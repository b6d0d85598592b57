package identity

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/tenantry/tenantry/internal/tenant"
)

// As returns u as the user of n that authentication would have made, for impersonated users
// and users in reviews. It returns an error if there can be no such user. Users of the
// system tenant are not changed.
func As(u user.Info, n tenant.Name) (user.Info, error) {
	switch {
	case n == tenant.System:
		return Of(u, n), nil
	case !n.IsSpace():
		return nil, fmt.Errorf("tenant %q has no users", n)
	case isOrdinary(u, n):
		return u, nil
	}
	result := Of(u, n)
	if namespace, _, err := serviceaccount.SplitUsername(u.GetName()); err == nil {
		result.Groups = serviceaccount.MakeGroupNames(namespace)
	} else if result, err = newUser(u, n); err != nil {
		return nil, err
	}
	if !slices.Contains(result.Groups, user.AllAuthenticated) {
		result.Groups = append(slices.Clip(result.Groups), user.AllAuthenticated)
	}
	return result, nil
}

// isOrdinary reports whether As would not change u. That holds for all authenticated users
// except service accounts.
func isOrdinary(u user.Info, n tenant.Name) bool {
	named := u.GetExtra()[tenant.UserExtraKey]
	return len(named) == 1 && named[0] == string(n) && u.GetName() != "" && !strings.HasPrefix(u.GetName(), systemPrefix) &&
		!slices.ContainsFunc(u.GetGroups(), func(group string) bool { return isImpossible(group, u.GetName(), n) }) &&
		slices.Contains(u.GetGroups(), user.AllAuthenticated)
}
