package expression

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"

	"github.com/tenantry/tenantry/internal/bounds"
)

const (
	// maxBytes is the maximum size of a value, written out: about five times that of the
	// largest object.
	maxBytes = 16 << 20
	// perElement is the size of an element of a list, or of an entry of a map, beside what it
	// is made of.
	perElement = 8
)

var errTooLarge = fmt.Errorf("a value of this expression has more than %d bytes when it is written out; make it smaller, or of fewer parts", maxBytes)

// sizeOf returns the size of values, written out, but not more than a little over maxBytes.
func sizeOf(values ...ref.Val) int {
	m := meter{left: maxBytes}
	for _, v := range values {
		m.value(v)
	}
	return maxBytes - m.left
}

// writable returns an error for a value that is too large to be written out, or has numbers
// that upstream takes long to read when it makes an object of it.
func writable(v ref.Val) error {
	m := meter{left: maxBytes, read: true}
	m.value(v)
	switch {
	case m.err != nil:
		return fmt.Errorf("a value of this expression is not taken: %w", m.err)
	case m.left < 0:
		return errTooLarge
	default:
		return nil
	}
}

// meter adds up sizes until nothing is left. Values may share their parts, so that written
// out they are far larger than in memory.
type meter struct {
	left int
	// read is whether strings are read as numbers, and err the first that takes long.
	read bool
	err  error
}

// text takes the size of a string.
func (m *meter) text(s string) bool {
	if m.read {
		if m.err = bounds.Text(s); m.err != nil {
			return false
		}
	}
	return m.take(len(s))
}

func (m *meter) take(bytes int) (more bool) {
	m.left -= bytes
	return m.left >= 0
}

// value takes the size of a value and reports whether something is left.
func (m *meter) value(v ref.Val) bool {
	switch v := v.(type) {
	case nil:
		return m.left >= 0
	case types.String:
		return m.text(string(v))
	case types.Bytes:
		return m.take(len(v))
	case apiservercel.Quantity:
		if _, small := v.AsInt64(); small {
			return m.take(perElement)
		}
		return m.take(v.AsDec().UnscaledBig().BitLen() / 8)
	case apiservercel.URL:
		return m.take(len(v.RawQuery) + len(v.Path))
	case *types.Optional:
		return !v.HasValue() || m.value(v.GetValue())
	case *dynamic.ObjectVal:
		for name, field := range fieldsOf(v) {
			if !m.take(perElement+len(name)) || !m.value(field) {
				return false
			}
		}
		return true
	case *patch:
		return m.take(len(v.Path)+len(v.From)) && m.value(v.Val)
	case traits.Lister:
		return m.list(v)
	case traits.Mapper:
		return m.entries(v)
	default:
		return m.take(perElement)
	}
}

// fieldsOf returns the fields of an object that a policy makes. Upstream shows them converted
// only, which writes out what they share.
func fieldsOf(v *dynamic.ObjectVal) map[string]ref.Val {
	return *(*map[string]ref.Val)(reflect.ValueOf(v).Elem().FieldByName("fields").Addr().UnsafePointer())
}

func (m *meter) list(v traits.Lister) bool {
	if native, ok := v.Value().([]any); ok { // of an object
		return m.native(native)
	}
	for i := v.Iterator(); i.HasNext() == types.True; {
		if !m.take(perElement) || !m.value(i.Next()) {
			return false
		}
	}
	return true
}

func (m *meter) entries(v traits.Mapper) bool {
	if native, ok := v.Value().(map[string]any); ok {
		return m.native(native)
	}
	for i := v.Iterator(); i.HasNext() == types.True; {
		key := i.Next()
		if !m.take(perElement) || !m.value(key) || !m.value(v.Get(key)) {
			return false
		}
	}
	return true
}

// native is value for what objects are made of.
func (m *meter) native(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case ref.Val:
		return m.value(v)
	case string:
		return m.text(v)
	case []any:
		for _, element := range v {
			if !m.take(perElement) || !m.native(element) {
				return false
			}
		}
		return true
	case map[string]any:
		for key, value := range v {
			if !m.take(perElement+len(key)) || !m.native(value) {
				return false
			}
		}
		return true
	case bool, int64, float64:
		return m.take(perElement)
	default:
		return m.reflected(reflect.ValueOf(v))
	}
}

// reflected is native for the fields of Go structures.
func (m *meter) reflected(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		return m.text(v.String())
	case reflect.Pointer, reflect.Interface:
		return v.IsNil() || m.reflected(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if !m.reflected(v.Field(i)) {
				return false
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if !m.take(perElement) || !m.reflected(v.Index(i)) {
				return false
			}
		}
	case reflect.Map:
		for i := v.MapRange(); i.Next(); {
			if !m.take(perElement) || !m.reflected(i.Key()) || !m.reflected(i.Value()) {
				return false
			}
		}
	default:
		return m.take(perElement)
	}
	return true
}
