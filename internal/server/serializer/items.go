package serializer

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
)

// noItems ends what a list without items is in JSON.
var noItems = []byte("[]}\n")

// encodeItems encodes a list as encoder does. In JSON the items are put between the
// brackets of a list that has none: encoding/json then writes them from memory that
// it uses again, while upstream takes as much anew as the list is long.
func encodeItems(encoder runtime.Encoder, list runtime.Object, w io.Writer) error {
	items, err := meta.ExtractList(list)
	if err != nil || len(items) == 0 {
		return encoder.Encode(list, w)
	}
	empty, ok := withoutItems(list)
	if !ok {
		return encoder.Encode(list, w)
	}
	var envelope bytes.Buffer
	if err := encoder.Encode(empty, &envelope); err != nil {
		return err
	}
	begin, ok := bytes.CutSuffix(envelope.Bytes(), noItems)
	if !ok { // another format, or a list of another form
		return encoder.Encode(list, w)
	}
	separated := &separatedWriter{delegate: w, separator: append(begin, '[')}
	each := json.NewEncoder(separated)
	for _, item := range items {
		if err := each.Encode(item); err != nil {
			return err
		}
	}
	_, err = w.Write(noItems[1:])
	return err
}

// withoutItems returns a copy of a list whose items are another, empty slice.
func withoutItems(list runtime.Object) (runtime.Object, bool) {
	value := reflect.ValueOf(list)
	if value.Kind() != reflect.Pointer || value.Elem().Kind() != reflect.Struct {
		return nil, false
	}
	shallow := reflect.New(value.Elem().Type())
	shallow.Elem().Set(value.Elem())
	items := shallow.Elem().FieldByName("Items")
	if items.Kind() != reflect.Slice {
		return nil, false
	}
	items.Set(reflect.MakeSlice(items.Type(), 0, 0))
	empty, ok := shallow.Interface().(runtime.Object)
	return empty, ok
}

// separatedWriter writes a separator before each value of a json.Encoder, which
// writes one value at a time and ends it with a line. The first is another one.
type separatedWriter struct {
	delegate  io.Writer
	separator []byte
}

// Write implements io.Writer.
func (w *separatedWriter) Write(value []byte) (int, error) {
	if _, err := w.delegate.Write(w.separator); err != nil {
		return 0, err
	}
	w.separator = comma
	if _, err := w.delegate.Write(bytes.TrimSuffix(value, line)); err != nil {
		return 0, err
	}
	return len(value), nil
}

var (
	comma = []byte(",")
	line  = []byte("\n")
)
