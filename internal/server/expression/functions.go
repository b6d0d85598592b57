package expression

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/utils/lru"

	"github.com/tenantry/tenantry/internal/bounds"
)

const (
	// maxWork bounds a product of the sizes of two lists.
	maxWork = 16 << 20
	// maxSearch bounds the product of the bytes of a text and the instructions of the pattern
	// that is searched in it, each of which takes ten nanoseconds.
	maxSearch = 100_000_000
	// maxPattern is how many instructions a pattern may have when it is compiled, which is
	// before anything is searched.
	maxPattern = 2000
	// maxRange is the maximum length of lists.range.
	maxRange = 10_000
	// perPiece is what a piece of a split text takes in memory, in bytes.
	perPiece = 64
	// maxVerb is the length of what a verb of string.format makes of a number, whose
	// precision has at most precisionDigits digits.
	maxVerb, precisionDigits = 1300, 3
)

// check returns an error if a function may not be called with some arguments.
type check func(args []ref.Val) error

// checks are those of functions that take more than their arguments have elements.
var checks = map[string]check{
	"replace":         replaced,
	"join":            joined,
	"split":           split,
	"format":          formatted,
	"lists.range":     ranged,
	"flatten":         written,
	"sum":             written,
	"min":             written,
	"max":             written,
	"isSorted":        written,
	"distinct":        compared,
	"indexOf":         compared,
	"lastIndexOf":     compared,
	"sets.contains":   compared,
	"sets.equivalent": compared,
	"sets.intersects": compared,
	"find":            searched,
	"findAll":         searched,
	"quantity":        quantified,
	"isQuantity":      quantified,
}

var (
	errCompared = fmt.Errorf("two values of this expression are too large to be compared in all their elements: the product of their sizes may be %d", maxWork*perElement)
	errRange    = fmt.Errorf("lists.range makes at most %d elements; make a shorter list", maxRange)
	errPattern  = fmt.Errorf("a pattern of this expression has more than %d instructions when it is compiled; repeat less in it", maxPattern)
	errFormat   = fmt.Errorf("a format has at most %d digits of precision and %d verbs", precisionDigits, maxBytes/maxVerb)
)

func written(args []ref.Val) error { return fitting(sizeOf(args...)) }

// fitting returns an error if so many bytes are more than a value may have.
func fitting(size int) error {
	if size > maxBytes {
		return errTooLarge
	}
	return nil
}

func ranged(args []ref.Val) error {
	if number(args[0]) > maxRange {
		return errRange
	}
	return nil
}

// compared is for functions that may compare each element of one argument with each of
// another, or of the same.
func compared(args []ref.Val) error {
	other := args[0]
	if len(args) > 1 {
		other = args[1]
	}
	if !product(sizeOf(args[0]), length(other)) || !product(sizeOf(other), length(args[0])) {
		return errCompared
	}
	return written(args)
}

func product(a, b int) bool { return a*b <= maxWork*perElement }

// length returns the number of elements, or of bytes of a text.
func length(v ref.Val) int {
	switch v := v.(type) {
	case types.String:
		return len(v)
	case traits.Lister:
		return number(v.Size())
	default:
		return 1
	}
}

func number(v ref.Val) int {
	n, _ := v.(types.Int)
	return int(n)
}

func text(v ref.Val) string {
	s, _ := v.(types.String)
	return string(s)
}

// replaced is for text.replace(old, new, most).
func replaced(args []ref.Val) error {
	s, old, replacement := text(args[0]), text(args[1]), text(args[2])
	count := strings.Count(s, old)
	if len(args) > 3 && number(args[3]) >= 0 {
		count = min(count, number(args[3]))
	}
	return fitting(len(s) + count*max(0, len(replacement)-len(old)))
}

// joined is for list.join(separator).
func joined(args []ref.Val) error {
	size := sizeOf(args[0])
	if len(args) > 1 {
		size += length(args[0]) * length(args[1])
	}
	return fitting(size)
}

// split is for text.split(separator, most).
func split(args []ref.Val) error {
	pieces := strings.Count(text(args[0]), text(args[1])) + 1
	if len(args) > 2 && number(args[2]) >= 0 {
		pieces = min(pieces, number(args[2]))
	}
	return fitting(pieces * perPiece)
}

// formatted is for text.format(arguments).
func formatted(args []ref.Val) error {
	verbs := strings.Split(text(args[0]), "%")
	for _, verb := range verbs[1:] {
		if precision, ok := strings.CutPrefix(verb, "."); ok && len(precision)-len(strings.TrimLeft(precision, "0123456789")) > precisionDigits {
			return errFormat
		}
	}
	if len(verbs)*maxVerb > maxBytes {
		return errFormat
	}
	return written(args)
}

// searched is for text.matches(pattern) and its like.
func searched(args []ref.Val) error {
	bytes, instructions := length(args[0]), instructionsOf(text(args[1]))
	if instructions > maxPattern {
		return errPattern
	}
	if bytes*instructions > maxSearch {
		return fmt.Errorf("to search a text of %d bytes for a pattern of %d instructions takes too long, their product may be %d; "+
			"repeat less in the pattern ({1,100} is compiled as a hundred parts, + is not), or bound the text", bytes, instructions, maxSearch)
	}
	return nil
}

// compiled has the number of instructions of the patterns that were used last.
var compiled = lru.New(1000)

// longPattern is the length of a pattern from which on it is not compiled to be weighed.
const longPattern = 4000

// quantified is for quantity(text).
func quantified(args []ref.Val) error { return bounds.Quantity(text(args[0])) }

// instructionsOf returns how many instructions a pattern has when it is compiled. What does
// not compile has one: upstream's call fails.
func instructionsOf(pattern string) int {
	if len(pattern) > longPattern {
		return longPattern * len(pattern)
	}
	if n, ok := compiled.Get(pattern); ok {
		return n.(int)
	}
	n := max(1, bounds.Instructions(pattern))
	compiled.Add(pattern, n)
	return n
}

// guardFunctions defines the functions of an environment anew, with their checks.
func guardFunctions(env *cel.Env) (*cel.Env, error) {
	known := env.Functions()
	for name, check := range checks {
		declared, ok := known[name]
		if !ok {
			continue // later or earlier versions have it
		}
		bindings, err := declared.Bindings()
		if err != nil {
			return nil, err
		}
		calls := make(map[string]functions.FunctionOp, len(bindings))
		for _, binding := range bindings {
			calls[binding.Operator] = callOf(binding)
		}
		var overloads []cel.FunctionOpt
		for _, o := range declared.OverloadDecls() {
			overload := cel.Overload
			if o.IsMemberFunction() {
				overload = cel.MemberOverload
			}
			overloads = append(overloads, overload(o.ID(), o.ArgTypes(), o.ResultType(), bind(len(o.ArgTypes()), guard(check, calls[o.ID()]))))
		}
		if env, err = cel.Function(name, overloads...)(env); err != nil {
			return nil, err
		}
	}
	return env, nil
}

// callOf returns a binding as a function of any number of arguments.
func callOf(binding *functions.Overload) functions.FunctionOp {
	switch {
	case binding.Unary != nil:
		return func(args ...ref.Val) ref.Val { return binding.Unary(args[0]) }
	case binding.Binary != nil:
		return func(args ...ref.Val) ref.Val { return binding.Binary(args[0], args[1]) }
	default:
		return binding.Function
	}
}

func guard(check check, call functions.FunctionOp) functions.FunctionOp {
	return func(args ...ref.Val) ref.Val {
		if err := check(args); err != nil {
			return types.WrapErr(err)
		}
		return call(args...)
	}
}

func bind(arguments int, call functions.FunctionOp) cel.OverloadOpt {
	switch arguments {
	case 1:
		return cel.UnaryBinding(func(v ref.Val) ref.Val { return call(v) })
	case 2:
		return cel.BinaryBinding(func(a, b ref.Val) ref.Val { return call(a, b) })
	default:
		return cel.FunctionBinding(call)
	}
}
