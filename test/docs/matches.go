package docs

import (
	"regexp"
	"strings"
)

// momentary are parts of an output that differ each time.
var momentary = []struct {
	pattern     *regexp.Regexp
	replacement string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`), "TIME"},
	{regexp.MustCompile(`-[0-9a-f]{8,10}-[0-9a-z]{5}\b`), "-POD"},
	{regexp.MustCompile(`\b(\d+[dhm])?\d+[dhms]\b`), "AGE"},
	{regexp.MustCompile(`\b\d{4,}\b`), "NUMBER"},
	{regexp.MustCompile(`[ \t]+`), " "},
	{regexp.MustCompile(` ?\n`), "\n"},
}

func normalize(text string) string {
	for _, m := range momentary {
		text = m.pattern.ReplaceAllString(text, m.replacement)
	}
	return strings.TrimSpace(text)
}

// Matches returns whether an output is what a page shows: "..." is anything in a line, and
// lines of their own where it is alone.
func Matches(shown, got string) bool {
	quoted := regexp.QuoteMeta(normalize(shown))
	quoted = regexp.MustCompile(`(?m)^\\\.\\\.\\\.$`).ReplaceAllString(quoted, `(?s:.*)`)
	return regexp.MustCompile("^" + strings.ReplaceAll(quoted, `\.\.\.`, `[^\n]*`) + "$").MatchString(normalize(got))
}
