package graphql

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"

	"github.com/vektah/gqlparser/v2/ast"
)

// Input is what somebody searches for.
type Input struct {
	Keywords, RelatedKinds []string
	Filters                []Filter
	// Limit is zero if there is none.
	Limit, Offset int
	OrderBy       string
}

// Filter is about one property.
type Filter struct {
	Property string
	Values   []string
}

// Wants says which parts of a result somebody asks for.
type Wants struct{ Count, Items, Related bool }

// Map is an object.
type Map = map[string]any

// Result is what was found.
type Result struct {
	Count   int64
	Items   []Map
	Related []Related
}

// Related are the related objects of a kind.
type Related struct {
	Kind  string
	Count int64
	Items []Map
}

// Message is for people.
type Message struct{ ID, Kind, Description string }

// Root resolves the fields of queries. They are asked for one after the other, messages last.
type Root interface {
	Search(ctx context.Context, input Input, wants Wants) (*Result, error)
	Complete(ctx context.Context, property string, input Input, limit int) ([]string, error)
	Properties(ctx context.Context, input Input) ([]string, error)
	Messages() []Message
}

// MaxItems is how many items an answer has in all.
const MaxItems = 30_000

var (
	errIntrospection = Refuse(errors.New("the schema is not served; it is in the documentation of the search"))
	errOneWatch      = Refuse(errors.New("a subscription has one watch, and nothing else"))
	errTooManyItems  = Refuse(fmt.Errorf("the answer has more than %d items in all; ask for less at once", MaxItems))
	errTooManyInputs = Refuse(fmt.Errorf("the query has more than %d searches; ask for less at once", maxInputs))
)

// execution makes one answer.
type execution struct {
	*Operation
	root           Root
	inputs, items  int
	messagesWanted []*field
}

// field is a field of an answer, with what is selected of it by all who select it.
type field struct {
	*ast.Field
	key        string
	selections []ast.SelectionSet
}

// Answer returns the data of the answer to a query.
func (o *Operation) Answer(ctx context.Context, root Root) (Map, error) {
	e := &execution{Operation: o, root: root}
	data := Map{}
	for _, f := range e.fields(o.definition.SelectionSet) {
		if err := e.resolve(ctx, f, data); err != nil {
			return nil, err
		}
	}
	for _, f := range e.messagesWanted {
		data[f.key] = e.messages(f)
	}
	return data, nil
}

func (e *execution) resolve(ctx context.Context, f *field, into Map) error {
	arguments := f.ArgumentMap(e.variables)
	var err error
	switch f.Name {
	case "__typename":
		into[f.key] = f.ObjectDefinition.Name
	case "search":
		into[f.key], err = e.search(ctx, f, arguments["input"])
	case "searchComplete":
		property, _ := arguments["property"].(string)
		if err = e.count(1); err == nil {
			into[f.key], err = e.root.Complete(ctx, property, inputOf(arguments["query"]), intOf(arguments["limit"]))
		}
	case "searchSchema":
		var names []string
		if err = e.count(1); err == nil {
			names, err = e.root.Properties(ctx, inputOf(arguments["query"]))
			into[f.key] = Map{"allProperties": names}
		}
	case "messages":
		e.messagesWanted = append(e.messagesWanted, f)
	default:
		err = errIntrospection
	}
	return err
}

func (e *execution) count(inputs int) error {
	if e.inputs += inputs; e.inputs > maxInputs {
		return errTooManyInputs
	}
	return nil
}

func (e *execution) search(ctx context.Context, f *field, argument any) ([]any, error) {
	inputs := listed(argument)
	if err := e.count(len(inputs)); err != nil {
		return nil, err
	}
	selected := e.fieldsOf(f)
	var wants Wants
	for _, s := range selected {
		wants.Count = wants.Count || s.Name == "count"
		wants.Items = wants.Items || s.Name == "items"
		wants.Related = wants.Related || s.Name == "related"
	}
	results := make([]any, 0, len(inputs))
	for _, input := range inputs {
		found, err := e.root.Search(ctx, inputOf(input), wants)
		if err != nil {
			return nil, err
		}
		result := Map{}
		for _, s := range selected {
			switch s.Name {
			case "count":
				result[s.key] = found.Count
			case "items":
				result[s.key], err = e.maps(found.Items)
			case "related":
				result[s.key], err = e.related(s, found.Related)
			default:
				result[s.key] = s.ObjectDefinition.Name
			}
			if err != nil {
				return nil, err
			}
		}
		results = append(results, result)
	}
	return results, nil
}

func (e *execution) related(f *field, all []Related) ([]Map, error) {
	results := make([]Map, 0, len(all))
	for i := range all {
		result := Map{}
		for _, s := range e.fieldsOf(f) {
			var err error
			switch s.Name {
			case "kind":
				result[s.key] = all[i].Kind
			case "count":
				result[s.key] = all[i].Count
			case "items":
				result[s.key], err = e.maps(all[i].Items)
			default:
				result[s.key] = s.ObjectDefinition.Name
			}
			if err != nil {
				return nil, err
			}
		}
		results = append(results, result)
	}
	return results, nil
}

// maps counts items, however often a query shows them.
func (e *execution) maps(items []Map) ([]Map, error) {
	if e.items += len(items); e.items > MaxItems {
		return nil, errTooManyItems
	}
	if items == nil {
		items = []Map{}
	}
	return items, nil
}

func (e *execution) messages(f *field) []Map {
	results := []Map{}
	for _, m := range e.root.Messages() {
		result := Map{}
		for _, s := range e.fieldsOf(f) {
			switch s.Name {
			case "id":
				result[s.key] = m.ID
			case "kind":
				result[s.key] = m.Kind
			case "description":
				result[s.key] = m.Description
			default:
				result[s.key] = s.ObjectDefinition.Name
			}
		}
		results = append(results, result)
	}
	return results
}

// Watch returns what a subscription is about, and what its events have.
func (o *Operation) Watch() (Input, func(event Map) Map, error) {
	e := &execution{Operation: o}
	fields := e.fields(o.definition.SelectionSet)
	if len(fields) != 1 || fields[0].Name != "watch" {
		return Input{}, nil, errOneWatch
	}
	f := fields[0]
	selected := e.fieldsOf(f)
	return inputOf(f.ArgumentMap(o.variables)["input"]), func(event Map) Map {
		shown := Map{}
		for _, s := range selected {
			shown[s.key] = event[s.Name]
			if s.Name == "__typename" {
				shown[s.key] = s.ObjectDefinition.Name
			}
		}
		return Map{f.key: shown}
	}, nil
}

func (e *execution) fields(selections ast.SelectionSet) []*field {
	return e.collect(nil, selections)
}

// fieldsOf returns what is selected of a field.
func (e *execution) fieldsOf(f *field) []*field {
	var fields []*field
	for _, selections := range f.selections {
		fields = e.collect(fields, selections)
	}
	return fields
}

// collect adds the fields of selections, those of fragments among them, each response key once. Validation has
// seen to it that fields of one key are the same field.
func (e *execution) collect(fields []*field, selections ast.SelectionSet) []*field {
	for _, selection := range selections {
		switch selection := selection.(type) {
		case *ast.Field:
			if !e.included(selection.Directives) {
				continue
			}
			found := false
			for _, f := range fields {
				if found = f.key == selection.Alias; found {
					f.selections = append(f.selections, selection.SelectionSet)
					break
				}
			}
			if !found {
				fields = append(fields, &field{Field: selection, key: selection.Alias, selections: []ast.SelectionSet{selection.SelectionSet}})
			}
		case *ast.InlineFragment:
			if e.included(selection.Directives) {
				fields = e.collect(fields, selection.SelectionSet)
			}
		case *ast.FragmentSpread:
			if e.included(selection.Directives) {
				fields = e.collect(fields, e.fragments.ForName(selection.Name).SelectionSet)
			}
		}
	}
	return fields
}

// included reports what the directives skip and include say.
func (e *execution) included(directives ast.DirectiveList) bool {
	for _, d := range directives {
		if condition, ok := d.ArgumentMap(e.variables)["if"].(bool); ok {
			if d.Name == "skip" && condition || d.Name == "include" && !condition {
				return false
			}
		}
	}
	return true
}

// inputOf reads a SearchInput, whose types have been validated.
func inputOf(value any) Input {
	m, _ := value.(map[string]any)
	input := Input{
		Keywords: textsOf(m["keywords"]), RelatedKinds: textsOf(m["relatedKinds"]),
		Limit: intOf(m["limit"]), Offset: intOf(m["offset"]),
	}
	input.OrderBy, _ = m["orderBy"].(string)
	for _, one := range listed(m["filters"]) {
		filter, _ := one.(map[string]any)
		property, _ := filter["property"].(string)
		if property != "" {
			input.Filters = append(input.Filters, Filter{Property: property, Values: textsOf(filter["values"])})
		}
	}
	return input
}

// listed returns the elements of a list. A single value stands for a list of one, which validation may have made
// of it.
func listed(value any) []any {
	switch value := value.(type) {
	case nil:
		return nil
	case []any:
		return value
	}
	v := reflect.ValueOf(value)
	if v.Kind() != reflect.Slice {
		return []any{value}
	}
	list := make([]any, v.Len())
	for i := range list {
		list[i] = v.Index(i).Interface()
	}
	return list
}

func textsOf(value any) []string {
	var texts []string
	for _, one := range listed(value) {
		if text, ok := one.(string); ok {
			texts = append(texts, text)
		}
	}
	return texts
}

// intOf reads a number, which variables have in several types.
func intOf(value any) int {
	switch value := value.(type) {
	case int64:
		return int(max(min(value, math.MaxInt32), math.MinInt32))
	case float64:
		return int(max(min(value, math.MaxInt32), math.MinInt32))
	case string:
		n, _ := strconv.Atoi(value)
		return max(min(n, math.MaxInt32), math.MinInt32)
	default:
		return 0
	}
}
