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

// newUIDDigest returns a salted digest of a tenant's UID, which does not tell the UID. An
// empty UID is that of no tenant: its digest looks like any other and matches none, so
// that a policy tells nobody who exists.
func newUIDDigest(uid types.UID) string {
	digest := make([]byte, saltSize+sha256.Size)
	_, _ = rand.Read(digest) // never fails
	if uid != "" {
		sum := saltedSum(digest[:saltSize], uid)
		copy(digest[saltSize:], sum[:])
	}
	return base64.RawStdEncoding.EncodeToString(digest)
}

// UIDDigest is the salted digest of a UID in a policy, a grantee's "seal".
type UIDDigest []byte

// ParseUIDDigest reads a digest. What is not well-formed matches nobody.
func ParseUIDDigest(s string) UIDDigest {
	digest, err := base64.RawStdEncoding.DecodeString(s)
	if err != nil || len(digest) != saltSize+sha256.Size {
		return nil
	}
	return digest
}

// Matches reports whether the digest is that of the tenant with the given UID.
func (d UIDDigest) Matches(uid types.UID) bool {
	if len(d) != saltSize+sha256.Size || uid == "" {
		return false
	}
	sum := saltedSum(d[:saltSize], uid)
	return subtle.ConstantTimeCompare(d[saltSize:], sum[:]) == 1
}

func saltedSum(salt []byte, uid types.UID) [sha256.Size]byte {
	var message [128]byte
	return sha256.Sum256(append(append(message[:0], salt...), uid...))
}
