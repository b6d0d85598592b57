package accesspolicy

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"

	"k8s.io/apimachinery/pkg/types"
)

// saltSize is the size of what makes equal tenants look different.
const saltSize = 16

// newSeal returns by what a tenant with the given UID is recognised, without
// telling the UID. An empty UID is that of no tenant: its seal looks like any
// other and matches none, so that a policy tells nobody who exists.
func newSeal(uid types.UID) string {
	seal := make([]byte, saltSize+sha256.Size)
	_, _ = rand.Read(seal) // never fails
	if uid != "" {
		sum := sealed(seal[:saltSize], uid)
		copy(seal[saltSize:], sum[:])
	}
	return base64.RawStdEncoding.EncodeToString(seal)
}

// Seal is one that is read from a policy.
type Seal []byte

// ParseSeal reads a seal. One that is not well-formed matches nobody.
func ParseSeal(s string) Seal {
	seal, err := base64.RawStdEncoding.DecodeString(s)
	if err != nil || len(seal) != saltSize+sha256.Size {
		return nil
	}
	return seal
}

// Matches reports whether the seal is that of the tenant with the given UID.
func (s Seal) Matches(uid types.UID) bool {
	if len(s) != saltSize+sha256.Size || uid == "" {
		return false
	}
	sum := sealed(s[:saltSize], uid)
	return subtle.ConstantTimeCompare(s[saltSize:], sum[:]) == 1
}

func sealed(salt []byte, uid types.UID) [sha256.Size]byte {
	var message [128]byte
	return sha256.Sum256(append(append(message[:0], salt...), uid...))
}
