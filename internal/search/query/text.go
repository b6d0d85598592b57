package query

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Text returns s as it is stored and compared: valid UTF-8 in its composed form, without NUL
// and other control characters, which become spaces. Databases differ in what they do with
// them.
func Text(s string) string {
	if isPlain(s) {
		return s
	}
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, string(utf8.RuneError)))
	return norm.NFC.String(s)
}

// Fold returns Text in the form in which upper and lower case are one.
func Fold(s string) string {
	if isPlain(s) {
		return strings.ToLower(s)
	}
	return norm.NFC.String(cases.Fold().String(Text(s)))
}

// isPlain reports whether s is printable ASCII, as nearly all text is.
func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
