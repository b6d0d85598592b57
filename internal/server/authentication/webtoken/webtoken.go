package webtoken

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// Claims are the claims of a token.
type Claims map[string]json.RawMessage

// Parse returns the claims of a string in the form of a token, nil for other
// strings.
func Parse(token string) Claims {
	_, rest, _ := strings.Cut(token, ".")
	encoded, signature, found := strings.Cut(rest, ".")
	if !found || strings.Contains(signature, ".") {
		return nil
	}
	payload, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return nil
	}
	var claims Claims
	if err := json.Unmarshal(payload, &claims); err != nil {
		return nil
	}
	return claims
}

// Text returns a claim that is a string, empty if there is none.
func (c Claims) Text(name string) string { return decode[string](c, name) }

// Time returns a claim that is a time, zero if there is none.
func (c Claims) Time(name string) time.Time {
	seconds := decode[float64](c, name)
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0)
}

// decode returns a claim, zero if it is of another type. It returns zero, too, if another
// name differs only in case: a verifier that uses encoding/json, which ignores case, may
// have used that one.
func decode[T any](c Claims, name string) T {
	var zero, value T
	for other := range c {
		if other != name && strings.EqualFold(other, name) {
			return zero
		}
	}
	raw, ok := c[name]
	if !ok || json.Unmarshal(raw, &value) != nil {
		return zero
	}
	return value
}
