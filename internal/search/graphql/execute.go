package graphql

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
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

// Result is what was found. Its objects are in JSON.
type Result struct {
	Count   int64
	Items   []json.RawMessage
	Related []Related
}

// Related are the related objects of a kind.
type Related struct {
	Kind  string
	Count int64
	Items []json.RawMessage
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

// maxItems is how many items an answer has in all.
const maxItems = 30_000

var (
	errIntrospection = Refuse(errors.New("the schema is not served; it is in the documentation of the search"))
	errOneWatch      = Refuse(errors.New("a subscription has one watch, and nothing else"))
	errTooManyItems  = Refuse(fmt.Errorf("the answer has more than %d items in all; ask for less at once", maxItems))
	errTooManyInputs = Refuse(fmt.Errorf("the query has more than %d searches; ask for less at once", maxInputs))
)

// execution makes one answer.
type execution struct {
	*Operation
	writer
	root          Root
	inputs, items int
}

// field is a field of an answer, with what is selected of it by all who select it.
type field struct {
	*ast.Field
	key        string
	selections []ast.SelectionSet
}

// Answer returns the data of the answer to a query, in JSON. It is an error if that has more bytes than limit: what a
// query asks for several times counts as often.
func (o *Operation) Answer(ctx context.Context, root Root, limit int) (json.RawMessage, error) {
	e := &execution{Operation: o, writer: writer{limit: limit}, root: root}
	fields := e.fields(o.definition.SelectionSet)
	isLast := func(f *field) bool { return f.Name == messages } // they are about all others
	last := slices.DeleteFunc(slices.Clone(fields), func(f *field) bool { return !isLast(f) })
	fields = append(slices.DeleteFunc(fields, isLast), last...)
	e.object(fields, func(f *field) { e.resolve(ctx, f) })
	if e.err != nil {
		return nil, e.err
	}
	return e.Bytes(), nil
}

// messages is the field whose value is known last.
const messages = "messages"

func (e *execution) resolve(ctx context.Context, f *field) {
	arguments := f.ArgumentMap(e.variables)
	switch f.Name {
	case "__typename":
		e.typeName(f)
	case "search":
		e.search(ctx, f, listed(arguments["input"]))
	case "searchComplete":
		property, _ := arguments["property"].(string)
		if e.count(1) {
			values, err := e.root.Complete(ctx, property, inputOf(arguments["query"]), intOf(arguments["limit"]))
			e.fail(err)
			e.texts(values)
		}
	case "searchSchema":
		if e.count(1) {
			names, err := e.root.Properties(ctx, inputOf(arguments["query"]))
			e.fail(err)
			e.raw([]byte(`{"allProperties":`))
			e.texts(names)
			e.raw([]byte(`}`))
		}
	case messages:
		e.messages(f)
	default:
		e.fail(errIntrospection)
	}
}

// fail notes the first error.
func (e *execution) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

// count counts searches, and reports whether there may be as many.
func (e *execution) count(inputs int) bool {
	if e.inputs += inputs; e.inputs > maxInputs {
		e.fail(errTooManyInputs)
	}
	return e.err == nil
}

func (e *execution) texts(all []string) {
	e.list(len(all), func(i int) { e.value(all[i]) })
}

func (e *execution) search(ctx context.Context, f *field, inputs []any) {
	if !e.count(len(inputs)) {
		return
	}
	selected := e.fieldsOf(f)
	var wants Wants
	for _, s := range selected {
		wants.Count = wants.Count || s.Name == "count"
		wants.Items = wants.Items || s.Name == "items"
		wants.Related = wants.Related || s.Name == "related"
	}
	e.list(len(inputs), func(i int) {
		found, err := e.root.Search(ctx, inputOf(inputs[i]), wants)
		if e.fail(err); e.err != nil {
			return
		}
		e.object(selected, func(s *field) {
			switch s.Name {
			case "count":
				e.value(found.Count)
			case "items":
				e.show(found.Items)
			case "related":
				e.related(s, found.Related)
			default:
				e.typeName(s)
			}
		})
	})
}

func (e *execution) related(f *field, all []Related) {
	selected := e.fieldsOf(f)
	e.list(len(all), func(i int) {
		e.object(selected, func(s *field) {
			switch s.Name {
			case "kind":
				e.value(all[i].Kind)
			case "count":
				e.value(all[i].Count)
			case "items":
				e.show(all[i].Items)
			default:
				e.typeName(s)
			}
		})
	})
}

func (e *execution) messages(f *field) {
	selected, all := e.fieldsOf(f), e.root.Messages()
	e.list(len(all), func(i int) {
		e.object(selected, func(s *field) {
			switch s.Name {
			case "id":
				e.value(all[i].ID)
			case "kind":
				e.value(all[i].Kind)
			case "description":
				e.value(all[i].Description)
			default:
				e.typeName(s)
			}
		})
	})
}

// typeName shows what every object has beside the fields of its type. Validation lets no other field pass.
func (e *execution) typeName(f *field) {
	if f.Name != "__typename" {
		e.fail(fmt.Errorf("the field %s of %s has no value", f.Name, f.ObjectDefinition.Name))
	}
	e.value(f.ObjectDefinition.Name)
}

// show counts items, however often a query shows them.
func (e *execution) show(items []json.RawMessage) {
	if e.items += len(items); e.items > maxItems {
		e.fail(errTooManyItems)
		return
	}
	e.list(len(items), func(i int) { e.raw(items[i]) })
}

// Event is what has become of an object, by the names of the fields of the schema. What is in JSON already is shown so.
type Event = map[string]any

// Watch returns what a subscription is about, and what its events are in JSON. It is an error if that has more bytes
// than limit.
func (o *Operation) Watch(limit int) (Input, func(event Event) (json.RawMessage, error), error) {
	e := &execution{Operation: o}
	fields := e.fields(o.definition.SelectionSet)
	if len(fields) != 1 || fields[0].Name != "watch" {
		return Input{}, nil, errOneWatch
	}
	selected := e.fieldsOf(fields[0])
	return inputOf(fields[0].ArgumentMap(o.variables)["input"]), func(event Event) (json.RawMessage, error) {
		w := &writer{limit: limit}
		w.object(fields, func(*field) {
			w.object(selected, func(s *field) {
				if s.Name == "__typename" {
					w.value(s.ObjectDefinition.Name)
				} else {
					w.value(event[s.Name])
				}
			})
		})
		return w.Bytes(), w.err
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
