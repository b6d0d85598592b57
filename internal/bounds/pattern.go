package bounds

import "regexp/syntax"

// classRunes are so many bounds of ranges in a class of characters that take as much memory as an instruction. A
// pattern that is anchored at its begin has, below 1,000 instructions, a copy of its class in each.
const classRunes = 8

// Instructions returns about how many instructions a regular expression has when it is compiled,
// none if it does not compile: it takes memory by them, and time by them for each byte of a text.
// A large class of characters, such as \p{L}, counts as many as take its memory. Nothing is compiled to find out.
func Instructions(pattern string) int {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0
	}
	return instructions(parsed) + 2 // to fail and to match
}

func instructions(re *syntax.Regexp) int {
	sum := 0
	for _, sub := range re.Sub {
		sum += instructions(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune)
	case syntax.OpCharClass:
		return 1 + len(re.Rune)/classRunes
	case syntax.OpConcat:
		return sum
	case syntax.OpCapture, syntax.OpStar: // (a?)* is ((a?)+)?
		return sum + 2
	case syntax.OpRepeat:
		if re.Max < 0 { // x{2,} is xx+
			return max(1, re.Min)*sum + 2
		}
		return max(1, re.Max*sum+re.Max-re.Min) // x{0,2} is (?:x(?:x)?)?
	case syntax.OpAlternate:
		return sum + len(re.Sub) - 1
	default:
		return sum + 1
	}
}
