package expression

import (
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

const (
	// maxWork bounds a product of two sizes. With it a regular expression is searched for
	// some tenths of a second, and some seconds if it repeats its parts.
	maxWork = 16 << 20
	// maxRange is the maximum length of lists.range.
	maxRange = 10_000
	// maxRepetition is by how much a pattern can grow when its repetitions are written out.
	maxRepetition = 100
	// perPiece is what a piece of a split text takes in memory, in bytes.
	perPiece = 64
	// maxVerb is the length of what a verb of string.format makes of a number. The precision
	// of a verb has at most precisionDigits digits.
	maxVerb, precisionDigits = 512, 2
)

// check reports whether a function may be called with some arguments.
type check func(args []ref.Val) bool

// checks are those of functions that take more than their arguments have elements.
var checks = map[string]check{
	"replace":         replaced,
	"join":            joined,
	"split":           split,
	"format":          formatted,
	"lists.range":     func(args []ref.Val) bool { return number(args[0]) <= maxRange },
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
}

func written(args []ref.Val) bool { return fits(args...) }

// compared is for functions that may compare each element of one argument with each of
// another, or of the same.
func compared(args []ref.Val) bool {
	other := args[0]
	if len(args) > 1 {
		other = args[1]
	}
	return product(sizeOf(args[0]), length(other)) && product(sizeOf(other), length(args[0])) && fits(args...)
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
func replaced(args []ref.Val) bool {
	s, old, replacement := text(args[0]), text(args[1]), text(args[2])
	count := strings.Count(s, old)
	if len(args) > 3 && number(args[3]) >= 0 {
		count = min(count, number(args[3]))
	}
	return len(s)+count*max(0, len(replacement)-len(old)) <= MaxBytes
}

// joined is for list.join(separator).
func joined(args []ref.Val) bool {
	size := sizeOf(args[0])
	if len(args) > 1 {
		size += length(args[0]) * length(args[1])
	}
	return size <= MaxBytes
}

// split is for text.split(separator, most).
func split(args []ref.Val) bool {
	pieces := strings.Count(text(args[0]), text(args[1])) + 1
	if len(args) > 2 && number(args[2]) >= 0 {
		pieces = min(pieces, number(args[2]))
	}
	return pieces*perPiece <= MaxBytes
}

// formatted is for text.format(arguments).
func formatted(args []ref.Val) bool {
	verbs := strings.Split(text(args[0]), "%")
	for _, verb := range verbs[1:] {
		if precision, ok := strings.CutPrefix(verb, "."); ok && len(precision)-len(strings.TrimLeft(precision, "0123456789")) > precisionDigits {
			return false
		}
	}
	return len(verbs)*maxVerb <= MaxBytes && fits(args...)
}

// searched is for text.matches(pattern) and its like.
func searched(args []ref.Val) bool {
	return length(args[0])*weight(text(args[1])) <= maxWork
}

// weight returns about how long a pattern is with its repetitions written out.
func weight(pattern string) int {
	if strings.Contains(pattern, "{") {
		return len(pattern) * maxRepetition
	}
	return len(pattern)
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
		if !check(args) {
			return errTooLarge()
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
