package expression

import (
	"crypto/sha256"
	"slices"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/utils/lru"
)

// patternFunctions are those of which upstream compiles constant patterns with the expression, and keeps them as long
// as it.
var patternFunctions = []string{overloads.Matches, "find", "findAll"}

// Size says what an expression takes when it is compiled. One that does not parse takes nothing: upstream refuses it.
type Size struct {
	// Nodes are those of its tree, when macros are written out: types are checked by the square of them.
	Nodes int
	// Instructions are those of the patterns in it, which are kept compiled.
	Instructions int
}

// parsed has the sizes of the expressions that were asked for last, by their hashes.
var parsed = lru.New(20_000)

// SizeOf returns the size of an expression.
func SizeOf(expression string) Size {
	hash := sha256.Sum256([]byte(expression))
	if known, ok := parsed.Get(hash); ok {
		return known.(Size)
	}
	size := parse(expression)
	parsed.Add(hash, size)
	return size
}

func parse(expression string) (size Size) {
	env := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).StoredExpressionsEnv()
	tree, issues := env.Parse(expression)
	if issues.Err() != nil {
		return Size{}
	}
	ast.PreOrderVisit(tree.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		size.Nodes++
		if e.Kind() != ast.CallKind || !slices.Contains(patternFunctions, e.AsCall().FunctionName()) {
			return
		}
		for _, arg := range e.AsCall().Args() {
			if pattern, ok := constantText(arg); ok {
				size.Instructions += instructionsOf(pattern)
			}
		}
	}))
	return size
}

// constantText returns the text of a constant, also of one that is converted, such as string("a"): upstream does that
// when it plans.
func constantText(e ast.Expr) (string, bool) {
	for e.Kind() == ast.CallKind && len(e.AsCall().Args()) == 1 && !e.AsCall().IsMemberFunction() {
		e = e.AsCall().Args()[0]
	}
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	switch value := e.AsLiteral().(type) {
	case types.String:
		return string(value), true
	case types.Bytes:
		return string(value), true
	default:
		return "", false
	}
}
