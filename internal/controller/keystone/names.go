package keystone

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// idLength is how much of an id is part of a name, and slugLength how much is left.
	idLength   = 12
	slugLength = validation.DNS1123LabelMaxLength - idLength - 1
)

// nameOf returns the name of a Tenant or a namespace for something of Keystone with a name
// and an id. The name is for people; the end keeps those of different ids apart.
func nameOf(name, id string) string {
	slug := slugOf(name)
	if slug == "" {
		return "x-" + shortOf(id) // a label must not begin with a hyphen
	}
	return slug + "-" + shortOf(id)
}

// shortOf returns the first part of an id, which is random unless somebody has chosen it.
func shortOf(id string) string {
	if len(id) >= 2*idLength && strings.Trim(id, "0123456789abcdef") == "" {
		return id[:idLength]
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])[:idLength]
}

// slugOf returns what a label may have of a name.
func slugOf(name string) string {
	var slug strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			slug.WriteRune(r)
		case slug.Len() > 0 && !strings.HasSuffix(slug.String(), "-"):
			slug.WriteByte('-')
		}
		if slug.Len() == slugLength {
			break
		}
	}
	return strings.Trim(slug.String(), "-")
}
