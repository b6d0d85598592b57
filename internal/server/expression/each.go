package expression

import (
	"reflect"
	"strings"
)

// Each calls do with the expressions in an object, such as a policy or a webhook configuration: the texts of fields of
// that name, or whose names end in it.
func Each(obj any, do func(text string)) { each(reflect.ValueOf(obj), do) }

func each(v reflect.Value, do func(text string)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			each(v.Elem(), do)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return // bytes, such as a bundle of authorities
		}
		for i := range v.Len() {
			each(v.Index(i), do)
		}
	case reflect.Struct:
		for of, field := range v.Fields() {
			if field.Kind() != reflect.String || !strings.HasSuffix(of.Name, "Expression") {
				each(field, do)
			} else if field.Len() > 0 {
				do(field.String())
			}
		}
	}
}
