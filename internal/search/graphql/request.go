package graphql

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator"
	"github.com/vektah/gqlparser/v2/validator/rules"
)

//go:embed schema.graphql
var source string

var schema = gqlparser.MustLoadSchema(&ast.Source{Name: "schema.graphql", Input: source})

// What a request may be at most.
const (
	// MaxBytes is of the whole request, in JSON.
	MaxBytes = 256 << 10
	// maxText is how many bytes its query has, and maxTokens how many words and signs.
	maxText   = 32 << 10
	maxTokens = 4000
	// maxFields is how many fields and fragments it has, and maxDepth how many within each other. What is in a fragment
	// counts where it is defined and wherever it is used.
	maxFields = 300
	maxDepth  = 8
	// maxAliases is how many fields have other names than their own, maxRepeated how many the name that one beside them
	// has, and maxInputs how many searches it has.
	maxAliases  = 30
	maxRepeated = 30
	maxInputs   = 30
	// maxValues is how many arguments, values, variables and directives all these have, counted as fields are.
	maxValues = 4000
	// maxErrors is how many errors are told.
	maxErrors = 10
)

// Request is a request as clients send it.
type Request struct {
	Query         string         `json:"query"`
	OperationName string         `json:"operationName"`
	Variables     map[string]any `json:"variables"`
}

// Operation is a request that is valid.
type Operation struct {
	definition *ast.OperationDefinition
	fragments  ast.FragmentDefinitionList
	variables  map[string]any
}

// Errors are what is wrong with a request.
type Errors = gqlerror.List

// Refused returns what is wrong with a request.
func Refused(format string, args ...any) Errors {
	return Errors{{Message: fmt.Sprintf(format, args...)}}
}

// refusal is an error that says what is wrong with a request.
type refusal struct{ error }

// Unwrap returns what is wrong.
func (r refusal) Unwrap() error { return r.error }

// Refuse has a Root say that an input is wrong.
func Refuse(err error) error { return refusal{err} }

// RefusedBy returns what is wrong with the request if that is what an error says, nil if it says something else.
func RefusedBy(err error) Errors {
	if r, is := errors.AsType[refusal](err); is {
		return Refused("%v", r.error)
	}
	return nil
}

// Parse reads a request, and bounds it before it does anything whose cost grows faster than the request.
func Parse(body []byte) (*Operation, Errors) {
	var r Request
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, Refused("the request is no JSON with query, operationName and variables: %v", err)
	}
	if len(r.Query) > maxText {
		return nil, Refused("the query has %d bytes, and may have %d; put values into variables", len(r.Query), maxText)
	}
	document, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: r.Query}, maxTokens)
	if err != nil {
		return nil, listOf(err)
	}
	if err := bound(document); err != nil {
		return nil, Refused("%v", err)
	}
	if errs := validator.ValidateWithRules(schema, document, rules.NewDefaultRules()); len(errs) > 0 {
		return nil, errs[:min(len(errs), maxErrors)] // each may say again what is wrong
	}
	definition := document.Operations.ForName(r.OperationName)
	if definition == nil {
		return nil, Refused("there is no operation %q in the query; name one in operationName", r.OperationName)
	}
	o := &Operation{definition: definition, fragments: document.Fragments}
	if o.variables, err = validator.VariableValues(schema, definition, r.Variables); err != nil {
		return nil, listOf(err)
	}
	return o, nil
}

func listOf(err error) Errors {
	if one, is := errors.AsType[*gqlerror.Error](err); is {
		return Errors{one}
	}
	return Refused("%v", err)
}

// IsSubscription reports whether the operation goes on.
func (o *Operation) IsSubscription() bool { return o.definition.Operation == ast.Subscription }

// size is that of a selection, with all fragments in it.
type size struct{ fields, depth, aliases, values int }

// sizes measures a document whose fragments are not known to be valid.
type sizes struct {
	fragments ast.FragmentDefinitionList
	known     map[string]size
	open      map[string]bool
}

var errCycle = errors.New("fragments use each other in a circle")

// bound returns an error if a document is too large. Validation compares each pair of fields of one name, walks anew
// what fragments reach for each definition of one and each pair of braces, keeps an error for each pair that differs,
// and nothing ends it: all that it multiplies is bounded here, fields and what they have, whether an operation uses it
// or not. A name has one fragment, because what is measured of it is found by its name.
func bound(document *ast.QueryDocument) error {
	s := &sizes{fragments: document.Fragments, known: map[string]size{}, open: map[string]bool{}}
	var all size
	var sets []ast.SelectionSet
	for _, operation := range document.Operations {
		of, err := s.of(operation.SelectionSet)
		if err != nil {
			return err
		}
		all.add(of, 0)
		all.add(size{values: valuesOfDirectives(operation.Directives)}, 0)
		for _, variable := range operation.VariableDefinitions {
			all.add(size{values: 1 + valuesOf(variable.DefaultValue) + valuesOfDirectives(variable.Directives)}, 0)
		}
		sets = append(sets, operation.SelectionSet)
	}
	for _, fragment := range document.Fragments {
		if document.Fragments.ForName(fragment.Name) != fragment {
			return fmt.Errorf("the query has two fragments named %.40q; give each a name of its own", fragment.Name)
		}
		of, err := s.fragment(fragment.Name)
		if err != nil {
			return err
		}
		of.fields++
		of.values += valuesOfDirectives(fragment.Directives)
		all.add(of, 0)
		sets = append(sets, fragment.SelectionSet)
	}
	switch {
	case all.fields > maxFields:
		return fmt.Errorf("the query has more than %d fields and fragments; ask for less at once", maxFields)
	case all.depth > maxDepth:
		return fmt.Errorf("the query has fields or fragments more than %d deep; no answer has", maxDepth)
	case all.aliases > maxAliases:
		return fmt.Errorf("the query has more than %d aliases; ask for less at once", maxAliases)
	case all.values > maxValues:
		return fmt.Errorf("the query has more than %d arguments, values and directives, wherever its fragments are used; put values into variables", maxValues)
	}
	repeated := 0
	for _, set := range sets {
		repeated += s.repeated(set)
	}
	if repeated > maxRepeated {
		return fmt.Errorf("the query has more than %d fields of the same names beside each other; ask once for each", maxRepeated)
	}
	return nil
}

// repeated returns how many fields have the name of one beside them, fragments counted as what is in them. The set is
// one that is not too large.
func (s *sizes) repeated(set ast.SelectionSet) (n int) {
	names := map[string]bool{}
	var flat func(ast.SelectionSet)
	flat = func(set ast.SelectionSet) {
		for _, selection := range set {
			switch selection := selection.(type) {
			case *ast.Field:
				if names[selection.Alias] {
					n++
				}
				names[selection.Alias] = true
				n += s.repeated(selection.SelectionSet)
			case *ast.InlineFragment:
				flat(selection.SelectionSet)
			case *ast.FragmentSpread:
				if definition := s.fragments.ForName(selection.Name); definition != nil {
					flat(definition.SelectionSet)
				}
			}
		}
	}
	flat(set)
	return n
}

// add adds what is deeper by some levels. Numbers beyond all bounds stay there.
func (s *size) add(other size, deeper int) {
	s.fields = min(s.fields+other.fields, maxFields+1)
	s.aliases = min(s.aliases+other.aliases, maxAliases+1)
	s.values = min(s.values+other.values, maxValues+1)
	s.depth = max(s.depth, min(other.depth+deeper, maxDepth+1))
}

func (s *sizes) of(selections ast.SelectionSet) (size, error) {
	var all size
	for _, selection := range selections {
		var below size
		var err error
		own, deeper := size{fields: 1, depth: 1}, 1
		switch selection := selection.(type) {
		case *ast.Field:
			below, err = s.of(selection.SelectionSet)
			own.values = valuesOfArguments(selection.Arguments) + valuesOfDirectives(selection.Directives)
			if selection.Alias != selection.Name {
				own.aliases = 1
			}
		case *ast.InlineFragment:
			below, err = s.of(selection.SelectionSet)
			own.values = valuesOfDirectives(selection.Directives)
		case *ast.FragmentSpread:
			own.values = valuesOfDirectives(selection.Directives)
			below, err = s.fragment(selection.Name)
			own.depth, deeper = 0, 0 // its chain is as long as definitions are many, which count
		}
		if err != nil {
			return all, err
		}
		all.add(own, 0)
		all.add(below, deeper)
	}
	return all, nil
}

// valuesOf returns how many values a value has, with itself. It is as deep as the parser has been.
func valuesOf(value *ast.Value) int {
	if value == nil {
		return 0
	}
	n := 1
	for _, child := range value.Children {
		n += valuesOf(child.Value)
	}
	return n
}

func valuesOfArguments(arguments ast.ArgumentList) (n int) {
	for _, argument := range arguments {
		n += 1 + valuesOf(argument.Value)
	}
	return n
}

func valuesOfDirectives(directives ast.DirectiveList) (n int) {
	for _, directive := range directives {
		n += 1 + valuesOfArguments(directive.Arguments)
	}
	return n
}

func (s *sizes) fragment(name string) (size, error) {
	if known, ok := s.known[name]; ok {
		return known, nil
	}
	if s.open[name] {
		return size{}, errCycle
	}
	definition := s.fragments.ForName(name)
	if definition == nil {
		return size{}, nil // validation says so
	}
	s.open[name] = true
	of, err := s.of(definition.SelectionSet)
	s.known[name] = of
	delete(s.open, name)
	return of, err
}
