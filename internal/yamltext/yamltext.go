package yamltext

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
)

const (
	// maxBytes is how long a text may be that Check takes. What becomes of one in memory is some
	// hundred times as much, where it is made of empty values.
	maxBytes = 256 << 10
	// MaxDirectives is how many directives YAML has at most: parsers compare each with all before it.
	MaxDirectives = 10
)

// Check returns why YAML, or JSON, is not to be decoded: it is too long, or has aliases.
func Check(content []byte) error {
	switch {
	case len(content) > maxBytes:
		return fmt.Errorf("it has %d bytes, and may have %d: make it shorter", len(content), maxBytes)
	case IsUTF16(content): // in which no letters are found
		return errors.New("it is in UTF-16: write it in UTF-8")
	case HasManyDirectives(content):
		return fmt.Errorf("it has more than %d lines that begin with %%: leave directives out", MaxDirectives)
	}
	if alias := aliasIn(content); alias != "" {
		return fmt.Errorf("it has an alias of YAML, %.40q: write out what it stands for", alias)
	}
	return nil
}

// aliasIn returns an alias of YAML, empty if there can be none: each needs an anchor of its name. Text
// in quotes that looks like both is taken for one.
func aliasIn(content []byte) string {
	anchors := map[string]bool{}
	for _, name := range marked(content, '&') {
		anchors[string(name)] = true
	}
	for _, name := range marked(content, '*') {
		if anchors[string(name)] {
			return "*" + string(name)
		}
	}
	return ""
}

// marked returns the names that stand behind a character. Those of anchors have letters, digits, - and _.
func marked(content []byte, mark byte) [][]byte {
	var names [][]byte
	for i, c := range content {
		if c != mark {
			continue
		}
		rest := content[i+1:]
		end := bytes.IndexFunc(rest, func(r rune) bool {
			return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
		})
		if end < 0 {
			end = len(rest)
		}
		if end > 0 {
			names = append(names, rest[:end])
		}
	}
	return names
}

// beforeDirectives are the ends of lines in YAML, and the mark at the beginning of a text.
var beforeDirectives = []string{"\n", "\r", "\u0085", "\u2028", "\u2029", "\ufeff"}

// HasManyDirectives reports whether many lines of YAML may be directives. In UTF-16 each % counts.
func HasManyDirectives(content []byte) bool {
	if IsUTF16(content) {
		return bytes.Count(content, []byte("%")) > MaxDirectives
	}
	count := 0
	for i, c := range content {
		if c == '%' && (i == 0 || slices.ContainsFunc(beforeDirectives, func(end string) bool { return bytes.HasSuffix(content[:i], []byte(end)) })) {
			count++
		}
	}
	return count > MaxDirectives
}

// IsUTF16 reports whether YAML begins with a byte order mark of UTF-16.
func IsUTF16(content []byte) bool {
	return bytes.HasPrefix(content, []byte{0xfe, 0xff}) || bytes.HasPrefix(content, []byte{0xff, 0xfe})
}
