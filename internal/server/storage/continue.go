package storage

import (
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Upstream's continue tokens hold a key relative to the listed range, so that
// they would continue in any space. A token given out in a space is therefore
// bound to it: "acme.<token>". The dot is no character of upstream's encoding,
// and the tokens of the system space stay as they are. Lists of everything have
// no pages and hence no tokens.
const continueSeparator = "."

func bindContinue(n tenant.Name, token string) string {
	if token == "" || n == tenant.System {
		return token
	}
	return string(n) + continueSeparator + token
}

func unbindContinue(n tenant.Name, token string) (string, error) {
	if token == "" {
		return "", nil
	}
	owner, own, bound := strings.Cut(token, continueSeparator)
	switch {
	case bound && tenant.Name(owner) == n && n != tenant.System && n != tenant.Everything && own != "":
		return own, nil
	case !bound && n == tenant.System:
		return token, nil
	default:
		return "", apierrors.NewBadRequest("continue token is not valid here: it belongs to the list of another tenant; start the list again without it")
	}
}

// bindContinueError binds the token that an expired list carries for going on
// without consistency.
func bindContinueError(n tenant.Name, err error) error {
	var status *apierrors.StatusError
	if !errors.As(err, &status) || status.ErrStatus.Continue == "" {
		return err
	}
	bound := *status
	bound.ErrStatus.Continue = bindContinue(n, status.ErrStatus.Continue)
	return &bound
}
