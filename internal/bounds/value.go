package bounds

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Value returns an error if a decoded object has longer lists or maps than a space takes, or
// would become very large when it is written.
func Value(v any) error {
	return (&walk{left: written.most, rules: objects}).value(v)
}

// walk goes through a value until a rule is broken.
type walk struct {
	// left is how many bytes may still be written.
	left  int
	level int
	rules rules
	// path is the length of the path to what is visited, and paths those of all values.
	path, paths int
	// texts is whether strings are read as numbers.
	texts bool
}

var (
	ownersType = reflect.TypeFor[[]metav1.OwnerReference]()
	timeType   = reflect.TypeFor[time.Time]()
)

// value visits what formats without types are decoded into, and everything else by
// reflection.
func (w *walk) value(v any) error {
	switch v := v.(type) {
	case string:
		return w.text(v)
	case []any:
		return w.list(v, w.rules.lists)
	case map[string]any:
		return members(w, v)
	case map[any]any:
		return members(w, v)
	case nil:
		return nil
	default:
		return w.reflected(reflect.ValueOf(v))
	}
}

func members[K comparable](w *walk, m map[K]any) error {
	return w.within(len(m), w.rules.maps, func() error {
		for key, item := range m {
			name, _ := any(key).(string)
			if err := w.member(name, item); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *walk) member(key string, item any) error {
	if err := w.size(len(key)); err != nil {
		return err
	}
	return w.at(len(key), func() error {
		if list, ok := item.([]any); ok && key == ownerReferences {
			return w.list(list, w.rules.owners)
		}
		return w.value(item)
	})
}

// at visits a value to which some bytes more lead.
func (w *walk) at(bytes int, visit func() error) error {
	w.path += bytes
	if w.path > w.rules.path.most {
		return w.rules.path.exceeded()
	}
	if w.paths += w.path; w.paths > w.rules.paths.most {
		return w.rules.paths.exceeded()
	}
	err := visit()
	w.path -= bytes
	return err
}

func (w *walk) list(items []any, rule *rule) error {
	return w.within(len(items), rule, func() error {
		for _, item := range items {
			if err := w.at(indexSize, func() error { return w.value(item) }); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *walk) reflected(v reflect.Value) error {
	switch v.Kind() {
	case reflect.String:
		return w.text(v.String())
	case reflect.Pointer, reflect.Interface:
		if v.Kind() == reflect.Interface && v.CanInterface() {
			return w.value(v.Interface())
		}
		return w.within(0, w.rules.levels, func() error { return w.reflected(v.Elem()) })
	case reflect.Struct:
		return w.fields(v)
	case reflect.Slice:
		return w.slice(v)
	case reflect.Map:
		if v.CanInterface() && v.Type() == reflect.TypeFor[map[string]any]() {
			return w.value(v.Interface())
		}
		return w.within(v.Len(), w.rules.maps, func() error {
			for entries := v.MapRange(); entries.Next(); {
				if err := w.reflected(entries.Key()); err != nil {
					return err
				}
				if err := w.at(lengthOf(entries.Key()), func() error { return w.reflected(entries.Value()) }); err != nil {
					return err
				}
			}
			return nil
		})
	default:
		return nil
	}
}

func (w *walk) fields(v reflect.Value) error {
	switch v.Type() {
	case timeType: // with the history of its time zone
		if v.CanInterface() {
			return moment(v.Interface().(time.Time))
		}
		return nil
	case quantityType:
		if v.CanInterface() { // what is decoded is
			q := v.Interface().(resource.Quantity)
			return Quantity(q.String())
		}
	}
	for i := range v.NumField() {
		field := v.Field(i)
		if isBytes(field) && v.Type().Field(i).Name == "Raw" {
			if err := w.raw(field.Bytes()); err != nil {
				return err
			}
		}
		if err := w.reflected(field); err != nil {
			return err
		}
	}
	return nil
}

// maxYear is the last year of a time. Controllers subtract times, and add what is left to another: of
// times further away the differences overflow, and what is to be looked at then is looked at
// again and again without a pause.
const maxYear = 2200

func moment(t time.Time) error {
	if t.Year() > maxYear {
		return fmt.Errorf("it has a time after the year %d, which is not taken; use an earlier one", maxYear)
	}
	return nil
}

func (w *walk) slice(v reflect.Value) error {
	if isBytes(v) {
		return w.size(v.Len())
	}
	rule := w.rules.lists
	if v.Type() == ownersType {
		rule = w.rules.owners
	}
	return w.within(v.Len(), rule, func() error {
		for i := range v.Len() {
			if err := w.at(indexSize, func() error { return w.reflected(v.Index(i)) }); err != nil {
				return err
			}
		}
		return nil
	})
}

func isBytes(v reflect.Value) bool {
	return v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8
}

// raw checks the JSON that is decoded later: managed fields, extensions, values in schemas.
func (w *walk) raw(data []byte) error {
	if bytes.HasPrefix(data, []byte{0xd9, 0xd9, 0xf7}) {
		return errors.New("it has data in CBOR, which is not taken; send JSON")
	}
	if _, err := Numbers(runtime.ContentTypeJSON, data); err != nil {
		return err
	}
	s := scan{rules: w.rules, bytes: w.paths}
	err := s.read(data, w.path)
	w.paths = s.bytes
	return err
}

// within visits the elements of a list or map, or what a pointer points to.
func (w *walk) within(length int, rule *rule, visit func() error) error {
	if length > rule.most {
		return rule.exceeded()
	}
	if w.level++; w.level > 2*w.rules.levels.most { // of which one may be a pointer
		return w.rules.levels.exceeded()
	}
	err := w.size(length * elementSize)
	if err == nil {
		err = visit()
	}
	w.level--
	return err
}

// lengthOf returns the length of a key.
func lengthOf(key reflect.Value) int {
	if key.Kind() == reflect.String {
		return key.Len()
	}
	return indexSize
}

// text visits a string.
func (w *walk) text(s string) error {
	if w.texts {
		if err := Text(s); err != nil {
			return err
		}
	}
	return w.size(len(s))
}

// size counts bytes that are written.
func (w *walk) size(bytes int) error {
	if w.left -= bytes; w.left < 0 {
		return written.exceeded()
	}
	return nil
}
