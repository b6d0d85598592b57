package storage

import (
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Upstream's continue tokens hold a key relative to the listed range, so that they would
// continue in any space. The token of a list in a space is therefore bound to it:
// "acme.<token>". The dot is not in upstream's encoding, and the tokens of the system space
// are not changed. Lists of everything have no pages and hence no tokens.
const continueSeparator = "."

func bindContinue(in tenant.Scope, token string) string {
	if token == "" || in == tenant.System.Scope() {
		return token
	}
	return string(in) + continueSeparator + token
}

func unbindContinue(in tenant.Scope, token string) (string, error) {
	if token == "" {
		return "", nil
	}
	owner, upstream, bound := strings.Cut(token, continueSeparator)
	switch {
	case bound && tenant.Scope(owner) == in && in != tenant.System.Scope() && in != tenant.Everything && upstream != "":
		return upstream, nil
	case !bound && in == tenant.System.Scope():
		return token, nil
	default:
		return "", apierrors.NewBadRequest("continue token is not valid here: it belongs to the list of another tenant; start the list again without it")
	}
}

// bindContinueError binds the token in the error of an expired list, with which clients
// may continue inconsistently.
func bindContinueError(in tenant.Scope, err error) error {
	var status *apierrors.StatusError
	if !errors.As(err, &status) || status.ErrStatus.Continue == "" {
		return err
	}
	bound := *status
	bound.ErrStatus.Continue = bindContinue(in, status.ErrStatus.Continue)
	return &bound
}
