package graphql

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
)

// errForeign means that data is not what an operation asks for.
var errForeign = errors.New("it is no answer to the query")

// Check reads the data of an answer to a query that another process has made, and calls each with every object that it
// shows. It returns the data as it has been read: it has the fields of the query, and nothing besides them that
// somebody else may read in another way, such as a field that is there twice. It is an error if there is something
// else, or if it has more bytes than limit.
func (o *Operation) Check(ctx context.Context, data []byte, limit int, each func(object map[string]any) error) (json.RawMessage, error) {
	c := &checking{
		execution: execution{Operation: o, writer: writer{limit: limit}}, decoder: json.NewDecoder(bytes.NewReader(data)), each: each,
	}
	c.decoder.UseNumber()
	c.object(c.fields(o.definition.SelectionSet), func(f *field) {
		if c.fail(ctx.Err()); c.err == nil {
			c.root(f)
		}
	})
	if c.err == nil && c.decoder.More() {
		c.fail(errForeign)
	}
	if c.err != nil {
		return nil, c.err
	}
	return c.Bytes(), nil
}

// checking reads an answer as it is written.
type checking struct {
	execution
	decoder *json.Decoder
	each    func(object map[string]any) error
}

// sign reads a sign of JSON.
func (c *checking) sign(wanted json.Delim) {
	if token, err := c.decoder.Token(); err != nil || token != wanted {
		c.fail(errForeign)
	}
}

// object reads an object with fields, each once.
func (c *checking) object(fields []*field, value func(f *field)) {
	left := make(map[string]*field, len(fields))
	for _, f := range fields {
		left[f.key] = f
	}
	c.sign('{')
	c.raw([]byte("{"))
	for n := range fields {
		token, err := c.decoder.Token()
		key, _ := token.(string)
		f := left[key]
		if err != nil || f == nil {
			c.fail(errForeign)
			return
		}
		delete(left, key)
		if n > 0 {
			c.raw([]byte(","))
		}
		c.value(key)
		c.raw([]byte(":"))
		if value(f); c.err != nil {
			return
		}
	}
	c.sign('}')
	c.raw([]byte("}"))
}

// list reads a list.
func (c *checking) list(element func()) {
	c.sign('[')
	c.raw([]byte("["))
	for n := 0; c.err == nil && c.decoder.More(); n++ {
		if n > 0 {
			c.raw([]byte(","))
		}
		element()
	}
	c.sign(']')
	c.raw([]byte("]"))
}

func (c *checking) root(f *field) {
	switch f.Name {
	case "search":
		selected := c.fieldsOf(f)
		c.list(func() { c.object(selected, c.result) })
	case "searchComplete":
		c.list(func() { scalar[string](c) })
	case "searchSchema":
		var names struct {
			AllProperties []string `json:"allProperties"`
		}
		c.fail(c.decoder.Decode(&names))
		c.value(names)
	case messages:
		selected := c.fieldsOf(f)
		c.list(func() { c.object(selected, func(*field) { scalar[string](c) }) })
	default:
		scalar[string](c) // its type
	}
}

// result reads a field of a result, or of what is related to it.
func (c *checking) result(f *field) {
	switch f.Name {
	case "count":
		scalar[int64](c)
	case "items":
		c.list(c.item)
	case "related":
		selected := c.fieldsOf(f)
		c.list(func() { c.object(selected, c.result) })
	default:
		scalar[string](c)
	}
}

func (c *checking) item() {
	var object map[string]any
	if err := c.decoder.Decode(&object); err != nil || object == nil {
		c.fail(errForeign)
		return
	}
	c.fail(c.each(object))
	c.value(object)
}

// scalar reads a value of a type.
func scalar[T any](c *checking) {
	var v *T
	if err := c.decoder.Decode(&v); err != nil || v == nil {
		c.fail(errForeign)
		return
	}
	c.value(v)
}
