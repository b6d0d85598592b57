package userfile

import (
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"strings"
)

const (
	shaCryptRounds    = 5000
	shaCryptMinRounds = 1000
	// shaCryptMaxRounds keeps a comparison below a second or so.
	shaCryptMaxRounds = 1_000_000
	shaCryptMaxSalt   = 16
	// shaCryptMaxPassword bounds the work for a password somebody sends, which
	// grows with the square of its length.
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
	return subtle.ConstantTimeCompare([]byte(c.of(password)), []byte(c.sum)) == 1
}

// of returns the hash of a password.
func (c shaCrypt) of(password string) string {
	newHash := sha256.New
	if c.sha512 {
		newHash = sha512.New
	}
	digest := func(write func(hash.Hash)) []byte {
		h := newHash()
		write(h)
		return h.Sum(nil)
	}
	key, salt := []byte(password), []byte(c.salt)
	between := digest(func(h hash.Hash) { h.Write(key); h.Write(salt); h.Write(key) })
	sum := digest(func(h hash.Hash) {
		h.Write(key)
		h.Write(salt)
		h.Write(stretch(between, len(key)))
		for n := len(key); n > 0; n >>= 1 {
			if n&1 == 1 {
				h.Write(between)
			} else {
				h.Write(key)
			}
		}
	})
	p := stretch(digest(func(h hash.Hash) {
		for range len(key) {
			h.Write(key)
		}
	}), len(key))
	s := stretch(digest(func(h hash.Hash) {
		for range 16 + int(sum[0]) {
			h.Write(salt)
		}
	}), len(salt))
	for i := range c.rounds {
		first, last := sum, p
		if i%2 == 1 {
			first, last = p, sum
		}
		sum = digest(func(h hash.Hash) {
			h.Write(first)
			if i%3 != 0 {
				h.Write(s)
			}
			if i%7 != 0 {
				h.Write(p)
			}
			h.Write(last)
		})
	}
	return c.encode(sum)
}

// stretch repeats b up to n bytes.
func stretch(b []byte, n int) []byte {
	result := make([]byte, 0, n+len(b))
	for len(result) < n {
		result = append(result, b...)
	}
	return result[:n]
}

// encode writes a sum in crypt's alphabet, three bytes of it at a time, which
// stand a third of the sum apart and take turns.
func (c shaCrypt) encode(sum []byte) string {
	var result strings.Builder
	write := func(bits uint, characters int) {
		for range characters {
			result.WriteByte(shaCryptAlphabet[bits&63])
			bits >>= 6
		}
	}
	third := len(sum) / 3
	x, y, z := 0, third, 2*third
	for range third {
		write(uint(sum[x])<<16|uint(sum[y])<<8|uint(sum[z]), 4)
		if c.sha512 {
			x, y, z = y+1, z+1, x+1
		} else {
			x, y, z = z+1, x+1, y+1
		}
	}
	if c.sha512 {
		write(uint(sum[63]), 2)
	} else {
		write(uint(sum[31])<<8|uint(sum[30]), 3)
	}
	return result.String()
}
