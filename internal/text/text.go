// Package text cuts texts of others, and says how long they are in JSON.
package text

import (
	"strings"
	"unicode/utf8"
)

// Cut returns the beginning of a text that has at most so many bytes, by whole characters.
func Cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "")
}

// CutJSON returns the beginning of a text that has at most so many bytes in JSON, quotes left out.
func CutJSON(s string, most int) string {
	for i := 0; i < len(s); {
		bytes, inJSON := characterAt(s, i)
		if most -= inJSON; most < 0 {
			return Cut(s, i)
		}
		i += bytes
	}
	return s
}

// JSONLen returns how many bytes a text has in JSON.
func JSONLen[T ~string | ~[]byte](s T) int {
	size := len(`""`)
	for i := 0; i < len(s); {
		bytes, inJSON := characterAt(s, i)
		size += inJSON
		i += bytes
	}
	return size
}

// characterAt returns how many bytes the character has that begins at i, and how many at most in
// JSON as Go writes it.
func characterAt[T ~string | ~[]byte](s T, i int) (bytes, inJSON int) {
	c, bytes := rune(s[i]), 1
	if c >= utf8.RuneSelf {
		c, bytes = utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
	}
	switch {
	case c < ' ', c == '<', c == '>', c == '&', c == '\u2028', c == '\u2029', c == utf8.RuneError && bytes == 1:
		return bytes, len(`\u0000`)
	case c == '"', c == '\\':
		return bytes, 2
	default:
		return bytes, bytes
	}
}
