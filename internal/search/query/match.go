package query

import (
	"slices"
	"strings"
)

// Matches reports whether a text is as a filter says: one of its alternatives, and none of what it excludes.
func (f *Filter) Matches(text string) bool {
	matches := func(v Value) bool { return v.Matches(text) }
	return (len(f.Any) == 0 || slices.ContainsFunc(f.Any, matches)) && !slices.ContainsFunc(f.None, matches)
}

// Matches reports whether a text is the value, or like it if that has wildcards.
func (v *Value) Matches(text string) bool {
	if v.Ordered != "" {
		return false // a text is neither a number nor a time
	}
	if v.Folded {
		text = Fold(text)
	}
	if v.Parts == nil {
		return v.Text == text
	}
	return wildcard(v.Parts, text)
}

// wildcard reports whether s has the parts in their order, the first at its beginning and the last at its end.
func wildcard(parts []string, s string) bool {
	s, found := strings.CutPrefix(s, parts[0])
	for _, part := range parts[1 : len(parts)-1] {
		if !found {
			return false
		}
		_, s, found = strings.Cut(s, part)
	}
	return found && strings.HasSuffix(s, parts[len(parts)-1])
}
