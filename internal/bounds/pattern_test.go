package bounds

import (
	"regexp/syntax"
	"strings"
	"testing"
)

// FuzzInstructions checks that what is counted is not much more than what a compiler makes,
// and never less.
func FuzzInstructions(f *testing.F) {
	for _, pattern := range []string{
		"", "a", "abc", "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "(a|b|cd)+", "a{3}", "a{2,}", "a{0,}", "a{0,5}", "(ab{1,3}){2,4}", "x*?y+?z??",
		"(?i)hello", `\b\d+\.\d+`, "a||b", "(?:)", "[^a]", ".", "(?s).", "(?P<n>x)", "a{1000}", "(a{10}){10}", "a{0}",
	} {
		f.Add(pattern)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		if len(pattern) > 100 {
			return
		}
		got := Instructions(pattern)
		parsed, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			if got != 0 {
				t.Errorf("%q: got %d, and it does not parse", pattern, got)
			}
			return
		}
		if got > 10_000 {
			return
		}
		compiled, err := syntax.Compile(parsed.Simplify())
		if err != nil {
			t.Skip(err)
		}
		if n := len(compiled.Inst); got < n {
			t.Errorf("%q: got %d, want %d or more", pattern, got, n)
		}
	})
}

// TestInstructionsOfLongPatterns checks that a pattern is not compiled to find out that it is
// too long.
func TestInstructionsOfLongPatterns(t *testing.T) {
	pattern := strings.Repeat("(a{1000})", 1000)
	if got := Instructions(pattern); got < 1_000_000 {
		t.Errorf("got %d", got)
	}
	if n := testing.AllocsPerRun(1, func() { Instructions(pattern) }); n > 50_000 {
		t.Errorf("%v allocations", n)
	}
}

// TestInstructionsOfClasses checks that classes of many ranges count for their memory: 984 instructions of three took
// 13.8 MB.
func TestInstructionsOfClasses(t *testing.T) {
	for pattern, least := range map[string]int{`^[\p{Lu}\p{Mn}\p{So}]{980}$`: 100_000, `\pL\pL\pL\pL`: 400} {
		if got := Instructions(pattern); got < least {
			t.Errorf("%s: got %d, want %d or more", pattern, got, least)
		}
	}
	if got := Instructions("^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"); got > 200 {
		t.Errorf("a usual one: got %d", got)
	}
}
