package graphql

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// writer writes an answer in JSON, up to a limit, so that what a query repeats costs no more than what it asks for
// once. Behind its first error nothing is written any more.
type writer struct {
	bytes.Buffer
	limit int
	err   error
}

func (w *writer) raw(text []byte) {
	switch {
	case w.err != nil:
	case w.Len()+len(text) > w.limit:
		w.err = Refuse(fmt.Errorf("the answer has more than %d bytes; ask for less at once, by filters, a limit, or fewer fields", w.limit))
	default:
		w.Write(text)
	}
}

// value writes what is in JSON already as it is.
func (w *writer) value(v any) {
	encoded, ok := v.(json.RawMessage)
	if !ok {
		var err error
		if encoded, err = json.Marshal(v); err != nil && w.err == nil {
			w.err = fmt.Errorf("encoding an answer: %w", err)
		}
	}
	w.raw(encoded)
}

// object writes what value writes of each field, by their keys.
func (w *writer) object(fields []*field, value func(f *field)) {
	w.raw([]byte("{"))
	for i, f := range fields {
		if i > 0 {
			w.raw([]byte(","))
		}
		w.value(f.key)
		w.raw([]byte(":"))
		value(f)
		if w.err != nil {
			return
		}
	}
	w.raw([]byte("}"))
}

// list writes what element writes of each of n.
func (w *writer) list(n int, element func(i int)) {
	w.raw([]byte("["))
	for i := range n {
		if i > 0 {
			w.raw([]byte(","))
		}
		element(i)
		if w.err != nil {
			return
		}
	}
	w.raw([]byte("]"))
}
