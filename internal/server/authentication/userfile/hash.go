package userfile

import (
	"fmt"
	"strings"

	"golang.org/x/crypto/bcrypt"
)

// verifier returns the function that compares a password with a hash, nil if the file has
// the password itself. Hashes begin with a dollar sign, the name of their algorithm and
// another dollar sign.
func verifier(hash string) (func(hash, password string) bool, error) {
	name, _, ok := strings.Cut(strings.TrimPrefix(hash, "$"), "$")
	if !ok || hash[0] != '$' {
		return nil, nil
	}
	switch name {
	case "2a", "2b", "2y":
		if _, err := bcrypt.Cost([]byte(hash)); err != nil {
			return nil, fmt.Errorf("the password looks like a bcrypt hash and is none: %w", err)
		}
		return verifyBcrypt, nil
	case "5", "6":
		if _, err := parseSHACrypt(hash); err != nil {
			return nil, fmt.Errorf("the password looks like a SHA-crypt hash and is none: %w", err)
		}
		return verifySHACrypt, nil
	default:
		return nil, fmt.Errorf("the password looks like a hash of type %q, which is not known: use bcrypt ($2b$) or SHA-crypt ($5$, $6$)", name)
	}
}

func verifyBcrypt(hash, password string) bool {
	return bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)) == nil
}
