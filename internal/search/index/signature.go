package index

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/tenantry/tenantry/internal/search/query"
)

// signature says which three letters in a row a text has: each sets one of its bits. A text has a keyword only if
// the text's signature has all bits of the keyword's, so that few texts must be read to find it.
type signature [4]int64

// gram is how many bytes set a bit. Shorter keywords have no signature.
const gram = 3

func newSignature(folded string) signature {
	var s signature
	for line := range strings.SplitSeq(folded, "\n") {
		for i := 0; i+gram <= len(line); i++ {
			// Multiplication spreads similar letters over the bits.
			h := (uint32(line[i])<<16 | uint32(line[i+1])<<8 | uint32(line[i+2])) * 2654435761
			bit := h >> 24
			s[bit/64] |= 1 << (bit % 64)
		}
	}
	return s
}

// maxIndexed is how many bytes of a text stand in an index of the database; PostgreSQL has no more than 2,700 for all.
const maxIndexed = 400

// shortened is how many bytes are left of each text that is too long, at least.
const shortened = maxIndexed/2 - utf8.UTFMax + 1

// short returns a text as it stands in indexes: itself or, if it is too long, its beginning and a digest. No other
// text becomes the same.
func short(text string) string {
	if len(text) <= maxIndexed {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	cut := maxIndexed / 2
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "\n" + hex.EncodeToString(sum[:]) // no text that is compared has a line break
}

// storedName returns a name as it is stored: some names of objects, such as those of Roles, may have bytes that no
// database takes for text. No other name becomes the same.
func storedName(name string) string {
	if query.Text(name) == name {
		return short(name)
	}
	return short("\n" + hex.EncodeToString([]byte(name)))
}

// digest tells one state of a row from others.
func digest(format string, args ...any) int64 {
	h := sha256.New()
	fmt.Fprintf(h, format, args...)
	return int64(binary.BigEndian.Uint64(h.Sum(nil))) // any number does
}
