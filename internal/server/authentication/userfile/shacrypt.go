package userfile

import (
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-crypt/x/crypt"
)

const (
	shaCryptRounds    = 5000
	shaCryptMinRounds = 1000
	// shaCryptMaxRounds keeps a comparison below a second or so.
	shaCryptMaxRounds = 1_000_000
	shaCryptMaxSalt   = 16
	// shaCryptMaxPassword bounds the work to verify a password, which grows with the square
	// of its length.
	shaCryptMaxPassword = 256
	shaCryptAlphabet    = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// shaCrypt is a hash as crypt(5) describes it, "sha256crypt" and "sha512crypt":
//
//	$5$[rounds=N$]salt$hash
//	$6$[rounds=N$]salt$hash
type shaCrypt struct {
	sha512 bool
	rounds int
	salt   string
	sum    string
}

func parseSHACrypt(s string) (shaCrypt, error) {
	fields := strings.Split(s, "$")
	if len(fields) < 4 {
		return shaCrypt{}, errors.New("want $5$salt$hash or $6$salt$hash")
	}
	c, fields := shaCrypt{sha512: fields[1] == "6", rounds: shaCryptRounds}, fields[2:]
	if rounds, ok := strings.CutPrefix(fields[0], "rounds="); ok {
		n, err := strconv.Atoi(rounds)
		if err != nil || n > shaCryptMaxRounds {
			return shaCrypt{}, fmt.Errorf("rounds=%s is not a number up to %d", rounds, shaCryptMaxRounds)
		}
		c.rounds, fields = max(n, shaCryptMinRounds), fields[1:]
	}
	length := 43
	if c.sha512 {
		length = 86
	}
	if len(fields) != 2 || len(fields[1]) != length || strings.Trim(fields[1], shaCryptAlphabet) != "" {
		return shaCrypt{}, fmt.Errorf("it does not end with a salt and %d characters", length)
	}
	c.salt, c.sum = fields[0][:min(len(fields[0]), shaCryptMaxSalt)], fields[1]
	return c, nil
}

func verifySHACrypt(hash, password string) bool {
	c, err := parseSHACrypt(hash)
	if err != nil || len(password) > shaCryptMaxPassword {
		return false
	}
	return subtle.ConstantTimeCompare(c.of(password), []byte(c.sum)) == 1
}

// of returns the hash of a password.
func (c shaCrypt) of(password string) []byte {
	newHash := sha256.New
	if c.sha512 {
		newHash = sha512.New
	}
	return crypt.KeySHACrypt(newHash, []byte(password), []byte(c.salt), c.rounds)
}
