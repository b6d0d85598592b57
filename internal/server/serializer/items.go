package serializer

import (
	"bytes"
	"encoding/json"
	"io"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tenantry/tenantry/internal/objects"
)

// noItems ends what a list without items is in JSON.
var noItems = []byte("[]}\n")

// encodeList encodes a list of items as encoder does. In JSON the items are put between
// the brackets of a list that has none: encoding/json then writes them from memory that
// it uses again, while upstream takes as much anew as the list is long.
func encodeList(encoder runtime.Encoder, list runtime.Object, items []runtime.Object, w io.Writer) error {
	empty := objects.ShallowCopy(list)
	if len(items) == 0 || meta.SetList(empty, []runtime.Object{}) != nil {
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
	_, err := w.Write(noItems[1:])
	return err
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
