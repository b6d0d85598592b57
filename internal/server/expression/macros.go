package expression

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/parser"
)

// maxCopied is how many nodes a macro may copy. A chain of macros that each copy what is before
// them doubles with each.
const maxCopied = 64

// guardMacros makes macros that copy their target refuse large ones.
func guardMacros(env *cel.Env) (*cel.Env, error) {
	var guarded []cel.Macro
	for _, m := range env.Macros() {
		if m.Function() == "optMap" || m.Function() == "optFlatMap" {
			guarded = append(guarded, parser.NewReceiverMacro(m.Function(), m.ArgCount(), guardExpander(m)))
		}
	}
	return cel.Macros(guarded...)(env)
}

func guardExpander(m cel.Macro) parser.MacroExpander {
	return func(helper parser.ExprHelper, target ast.Expr, args []ast.Expr) (ast.Expr, *common.Error) {
		nodes := 0
		ast.PostOrderVisit(target, ast.NewExprVisitor(func(ast.Expr) { nodes++ }))
		if nodes > maxCopied {
			return nil, helper.NewError(target.ID(), fmt.Sprintf("%s copies what it is called of, which has %d nodes, at most %d; use fewer in a row", m.Function(), nodes, maxCopied))
		}
		return m.Expander()(helper, target, args)
	}
}
