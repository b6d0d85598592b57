package expression

import (
	"crypto/sha256"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/utils/lru"
)

// patternFunctions are those of which upstream compiles constant patterns with the expression, and keeps them as long as it.
var patternFunctions = []string{overloads.Matches, "find", "findAll"}

// parsed has the instructions of the expressions that were asked for last, by their hashes.
var parsed = lru.New(20_000)

// Instructions returns how many instructions the patterns in an expression have when they are compiled. One that does not parse has none: upstream refuses it.
func Instructions(expression string) int {
	var searches bool
	for _, function := range patternFunctions {
		searches = searches || strings.Contains(expression, function)
	}
	if !searches {
		return 0
	}
	hash := sha256.Sum256([]byte(expression))
	if known, ok := parsed.Get(hash); ok {
		return known.(int)
	}
	n := parseInstructions(expression)
	parsed.Add(hash, n)
	return n
}

func parseInstructions(expression string) (sum int) {
	env := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).StoredExpressionsEnv()
	tree, issues := env.Parse(expression)
	if issues.Err() != nil {
		return 0
	}
	ast.PreOrderVisit(tree.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || !slices.Contains(patternFunctions, e.AsCall().FunctionName()) {
			return
		}
		for _, arg := range e.AsCall().Args() {
			if pattern, ok := constantText(arg); ok {
				sum += instructionsOf(pattern)
			}
		}
	}))
	return sum
}

// constantText returns the text of a constant, also of one that is converted, such as string("a"): upstream does that when it plans.
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
