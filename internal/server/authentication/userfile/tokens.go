package userfile

import (
	"context"
	"crypto/sha256"
	"fmt"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/tenantry/tenantry/internal/server/authentication/watchedfile"
)

// tokens holds users by the hash of their token, so that the time of a lookup does not
// tell which part of a token was guessed right.
type tokens map[[sha256.Size]byte]*user.DefaultInfo

// Tokens authenticates by a token file (--token-auth-file).
type Tokens struct{ *watchedfile.File[tokens] }

// OpenTokens reads a token file.
func OpenTokens(path string) (Tokens, error) {
	file, err := open("token", path, parseTokens)
	return Tokens{file}, err
}

// AuthenticateToken implements authenticator.Token.
func (t Tokens) AuthenticateToken(_ context.Context, token string) (*authenticator.Response, bool, error) {
	u, ok := t.Current()[sha256.Sum256([]byte(token))]
	if !ok {
		return nil, false, nil
	}
	return &authenticator.Response{User: u}, true, nil
}

func parseTokens(content []byte) (tokens, error) {
	result := make(tokens)
	err := parse(content, func(token string, u *user.DefaultInfo) error {
		key := sha256.Sum256([]byte(token))
		if _, ok := result[key]; ok {
			return fmt.Errorf("the token of user %q stands in an earlier line too", u.Name)
		}
		result[key] = u
		return nil
	})
	return result, err
}
