package expression

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apiserver/pkg/cel/mutation"
)

// sortFunction is upstream's name of what sort and sortBy expand to.
const sortFunction = "@sortByAssociatedKeys"

// planner plans expressions with their checks.
type planner struct{ sort functions.FunctionOp }

// newPlanner returns a planner for the functions of an environment.
func newPlanner(env *cel.Env) (planner, error) {
	declared, ok := env.Functions()[sortFunction]
	if !ok {
		return planner{}, nil
	}
	bindings, err := declared.Bindings()
	if err != nil || len(bindings) == 0 {
		return planner{}, fmt.Errorf("no implementation of %s: %w", sortFunction, err)
	}
	return planner{sort: callOf(bindings[0])}, nil
}

// node plans a node of an expression. Nodes keep the interfaces by which upstream optimizes
// them and counts their cost.
func (p planner) node(node interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	switch node := node.(type) {
	case interpreter.InterpretableCall:
		return p.call(node)
	case interpreter.InterpretableConstructor:
		switch node.Type() {
		case types.ListType, types.MapType: // whatever uses them is checked
			return node, nil
		default:
			return constructor{node}, nil
		}
	default:
		return node, nil
	}
}

func (p planner) call(call interpreter.InterpretableCall) (interpreter.InterpretableV2, error) {
	args := call.Args()
	if len(args) != 2 {
		return call, nil
	}
	var operation functions.FunctionOp
	switch call.Function() {
	case operators.Equals:
		operation = guard(written, func(args ...ref.Val) ref.Val { return types.Equal(args[0], args[1]) })
	case operators.NotEquals:
		operation = guard(written, func(args ...ref.Val) ref.Val { return types.Bool(types.Equal(args[0], args[1]) != types.True) })
	case operators.In:
		operation = guard(compared, contains)
	case operators.Add:
		operation = add
	case overloads.Matches:
		operation = guard(searched, matches)
		if err := checkPattern(args[1]); err != nil {
			return nil, err
		}
		args = searchable(args)
	case sortFunction:
		operation = guard(written, p.sort)
	case "find", "findAll": // dynamic patterns have their checks as functions
		return search{call, searchable(args)}, checkPattern(args[1])
	default:
		return call, nil
	}
	return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), args, operation), nil
}

func contains(args ...ref.Val) ref.Val {
	if container, ok := args[1].(traits.Container); ok {
		return container.Contains(args[0])
	}
	return types.MaybeNoSuchOverloadErr(args[1])
}

func matches(args ...ref.Val) ref.Val {
	if matcher, ok := args[0].(traits.Matcher); ok {
		return matcher.Match(args[1])
	}
	return types.MaybeNoSuchOverloadErr(args[0])
}

// add adds values. Upstream's sum of two lists refers to both, so that sums of sums have any
// number of elements, which nothing counts: here it has them.
func add(args ...ref.Val) ref.Val {
	adder, ok := args[0].(traits.Adder)
	if !ok {
		return types.MaybeNoSuchOverloadErr(args[0])
	}
	first, isList := args[0].(traits.Lister)
	second, bothLists := args[1].(traits.Lister)
	if _, result := args[0].(traits.MutableLister); !isList || !bothLists || result {
		return adder.Add(args[1])
	}
	if (length(first)+length(second))*perElement > maxBytes {
		return types.WrapErr(errTooLarge)
	}
	sum := adder.Add(args[1])
	if reflect.Indirect(reflect.ValueOf(sum)).Type().PkgPath() != celTypes {
		return sum // of lists that are sets or maps by their schema
	}
	elements := make([]ref.Val, 0, length(first)+length(second))
	for _, list := range []traits.Lister{first, second} {
		for i := list.Iterator(); i.HasNext() == types.True; {
			elements = append(elements, i.Next())
		}
	}
	return types.NewRefValList(types.DefaultTypeAdapter, elements)
}

// celTypes is the package of lists without a schema.
var celTypes = reflect.TypeFor[types.Int]().PkgPath()

// checkPattern refuses a constant pattern before it is compiled.
func checkPattern(pattern interpreter.InterpretableV2) error {
	if constant, ok := pattern.(interpreter.InterpretableConst); ok && instructionsOf(text(constant.Value())) > maxPattern {
		return errPattern
	}
	return nil
}

// search is a call with a pattern that upstream plans anew with its arguments, if the
// pattern is constant.
type search struct {
	interpreter.InterpretableCall
	args []interpreter.InterpretableV2
}

// Args implements interpreter.InterpretableCall.
func (s search) Args() []interpreter.InterpretableV2 { return s.args }

// searchable checks the text that a constant pattern is searched in.
func searchable(args []interpreter.InterpretableV2) []interpreter.InterpretableV2 {
	constant, ok := args[1].(interpreter.InterpretableConst)
	if !ok {
		return args
	}
	return []interpreter.InterpretableV2{searchedText{args[0], constant.Value()}, args[1]}
}

// searchedText is a text that a pattern is searched in.
type searchedText struct {
	interpreter.InterpretableV2
	pattern ref.Val
}

// Exec implements interpreter.InterpretableV2.
func (t searchedText) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	v := t.InterpretableV2.Exec(frame)
	if err := searched([]ref.Val{v, t.pattern}); err != nil {
		return types.WrapErr(err)
	}
	return v
}

// Eval implements interpreter.Interpretable.
func (t searchedText) Eval(vars interpreter.Activation) ref.Val {
	return t.Exec(interpreter.AsFrame(vars))
}

// constructor makes objects of policies that mutate. They are what upstream writes out.
type constructor struct {
	interpreter.InterpretableConstructor
}

// Exec implements interpreter.InterpretableV2.
func (c constructor) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	v := c.InterpretableConstructor.Exec(frame)
	if p, ok := v.(*mutation.JSONPatchVal); ok {
		v = &patch{JSONPatchVal: p}
	}
	if types.IsUnknownOrError(v) {
		return v
	}
	if err := writable(v); err != nil {
		return types.WrapErr(err)
	}
	return v
}

// Eval implements interpreter.Interpretable.
func (c constructor) Eval(vars interpreter.Activation) ref.Val {
	return c.Exec(interpreter.AsFrame(vars))
}

// Function, OverloadID and Args make a call of a constructor, for its cost.
func (c constructor) Function() string                    { return constructed }
func (c constructor) OverloadID() string                  { return constructed }
func (c constructor) Args() []interpreter.InterpretableV2 { return c.InitVals() }

// maxPatches is how often a list may have the same patch.
const maxPatches = 16

// patch is an operation of a JSON patch. A list may have it many times, and each time it is
// written out.
type patch struct {
	*mutation.JSONPatchVal
	written int
}

var errRepeated = errors.New("the same operation is in a JSON patch too often; make each anew")

// ConvertToNative implements ref.Val.
func (p *patch) ConvertToNative(to reflect.Type) (any, error) {
	if p.written++; p.written > maxPatches {
		return nil, errRepeated
	}
	return p.JSONPatchVal.ConvertToNative(to)
}
