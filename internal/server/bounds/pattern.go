package bounds

import "regexp/syntax"

// Instructions returns how many instructions a regular expression has when it is compiled, none
// if it does not compile: it takes memory by them, and time by them for each byte of a text.
func Instructions(pattern string) int {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0
	}
	compiled, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return 0
	}
	return len(compiled.Inst)
}
