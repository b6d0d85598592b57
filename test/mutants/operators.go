package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// All mutants of a package are built into one test binary, which is told by the
// environment (variable) which of them to be. The operators:
//
//	negate  a condition is its opposite
//	never   a condition that leads to a return, or to a case, is never true
//	and/or  && is ||, and || is &&
//	fold    strings.EqualFold compares as == does
//
// They put calls of the functions of helpers around what is there.

const variable = "TENANTRY_MUTANT"

// helpers are added to the package.
const helpers = `

import "os"

var mutantID = os.Getenv("` + variable + `")

func mutantIs(id string) bool { return mutantID == id }

func mutantAnd(id string, a bool, b func() bool) bool {
	if mutantIs(id) {
		return a || b()
	}
	return a && b()
}

func mutantOr(id string, a bool, b func() bool) bool {
	if mutantIs(id) {
		return a && b()
	}
	return a || b()
}

func mutantFold(id string, fold func(a, b string) bool) func(a, b string) bool {
	if mutantIs(id) {
		return func(a, b string) bool { return a == b }
	}
	return fold
}
`

// site is a mutant of a source file.
type site struct {
	id       string // file:line:column and operator
	file     string
	function string
	operator string
	text     string // what is changed
	nth      int    // of this text in the function, from 0
}

// edit puts text into a source file, in place of what is there up to end.
type edit struct {
	at, end int
	text    string
	// closing edits stand behind what they close, the innermost first.
	closing bool
}

type rewriter struct {
	file   string
	source string
	set    *token.FileSet
	// function is the one that is being visited.
	function string
	edits    []edit
	sites    []site
}

// instrument returns a source file that can be each of its mutants.
func instrument(file string, source []byte) (string, []site, error) {
	r := &rewriter{file: file, source: string(source), set: token.NewFileSet()}
	parsed, err := parser.ParseFile(r.set, file, source, parser.SkipObjectResolution)
	if err != nil {
		return "", nil, fmt.Errorf("parsing %s: %w", file, err)
	}
	ast.Inspect(parsed, r.visit)
	return r.result(), r.sites, nil
}

func (r *rewriter) offset(p token.Pos) int { return r.set.Position(p).Offset }

// add adds a mutant, which is named by a position that no other of the operator has.
func (r *rewriter) add(n ast.Node, pos token.Pos, operator string) string {
	at := r.set.Position(pos)
	s := site{
		id: fmt.Sprintf("%s:%d:%d %s", r.file, at.Line, at.Column, operator), file: r.file, function: r.function, operator: operator,
		text: r.source[r.offset(n.Pos()):r.offset(n.End())],
	}
	for _, earlier := range r.sites {
		if earlier.function == s.function && earlier.operator == s.operator && earlier.text == s.text {
			s.nth++
		}
	}
	r.sites = append(r.sites, s)
	return s.id
}

// around puts text before and behind a node.
func (r *rewriter) around(n ast.Node, before, behind string) {
	at, end := r.offset(n.Pos()), r.offset(n.End())
	r.edits = append(r.edits, edit{at: at, end: at, text: before}, edit{at: end, end: end, text: behind, closing: true})
}

func (r *rewriter) condition(n ast.Expr, guards bool) {
	r.around(n, fmt.Sprintf("mutantIs(%q) != (", r.add(n, n.Pos(), "negate")), ")")
	if guards {
		r.around(n, fmt.Sprintf("!mutantIs(%q) && (", r.add(n, n.Pos(), "never")), ")")
	}
}

func (r *rewriter) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncDecl:
		r.function = n.Name.Name
	case *ast.IfStmt:
		r.condition(n.Cond, n.Else == nil && endsInReturn(n.Body))
	case *ast.SwitchStmt:
		if n.Tag == nil {
			for _, clause := range n.Body.List {
				for _, expression := range clause.(*ast.CaseClause).List {
					r.condition(expression, true)
				}
			}
		}
	case *ast.BinaryExpr:
		function, operator := "mutantAnd", "and/or"
		if n.Op == token.LOR {
			function = "mutantOr"
		}
		if n.Op == token.LAND || n.Op == token.LOR {
			r.around(n, fmt.Sprintf("%s(%q, ", function, r.add(n, n.OpPos, operator)), ") })")
			at := r.offset(n.OpPos)
			r.edits = append(r.edits, edit{at: at, end: at + len("&&"), text: ", func() bool { return ("})
		}
	case *ast.CallExpr:
		if r.source[r.offset(n.Fun.Pos()):r.offset(n.Fun.End())] == "strings.EqualFold" {
			r.around(n.Fun, fmt.Sprintf("mutantFold(%q, ", r.add(n, n.Pos(), "fold")), ")")
		}
	}
	return true
}

func endsInReturn(body *ast.BlockStmt) bool {
	if len(body.List) == 0 {
		return false
	}
	_, ok := body.List[len(body.List)-1].(*ast.ReturnStmt)
	return ok
}

// result applies the edits. Those of outer nodes come first in r.edits.
func (r *rewriter) result() string {
	order := make([]int, len(r.edits))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		first, second := r.edits[a], r.edits[b]
		if first.at != second.at || !first.closing || !second.closing {
			return first.at - second.at
		}
		return b - a
	})
	var out strings.Builder
	at := 0
	for _, i := range order {
		e := r.edits[i]
		out.WriteString(r.source[at:e.at])
		out.WriteString(e.text)
		at = e.end
	}
	out.WriteString(r.source[at:])
	return out.String()
}
