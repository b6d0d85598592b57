package bounds

import (
	"bytes"
	"encoding/json"
)

// JSON returns an error if JSON has longer lists or maps than a space takes. It reads data
// once and decodes nothing. It counts what comes before a mistake, and returns nil for the
// rest, as for what is nested too deep: upstream refuses both.
func JSON(data []byte) error { return objects.check(data) }

// StrategicMergePatch is like JSON, for a strategic merge patch.
func StrategicMergePatch(data []byte) error { return strategicMergePatches.check(data) }

// collection is a list or an object whose end is not read yet.
type collection struct {
	rule   *rule
	isList bool
	count  int
}

// structural are the characters that are looked at, outside of strings.
var structural = [256]bool{'"': true, ':': true, '[': true, '{': true, ']': true, '}': true, ',': true}

func (r rules) check(data []byte) error {
	var (
		buffer   [32]collection
		around   = buffer[:0]
		inner    = collection{rule: unbounded}
		text     []byte // the last string, without its quotes
		isKey    bool   // a colon is behind it
		together int
	)
	for i := 0; i < len(data); i++ {
		c := data[i]
		if !structural[c] {
			continue
		}
		switch c {
		case '"':
			end := endOfString(data, i+1)
			text, isKey, i = data[i+1:end], false, end
			continue
		case ':':
			isKey = true
			continue
		case '[', '{':
			if len(around) > maxDepth {
				return nil
			}
			around = append(around, inner)
			inner = collection{rule: r.maps, isList: c == '['}
			if inner.isList {
				inner.rule = r.lists
				if isKey && isOwnerReferences(text) {
					inner.rule = r.owners
				}
			}
			isKey = false
			if isEmpty(data[i+1:]) {
				continue
			}
		case ']', '}':
			if len(around) == 0 {
				return nil
			}
			inner, around = around[len(around)-1], around[:len(around)-1]
			continue
		case ',':
			isKey = false
		}
		if inner.count++; inner.count > inner.rule.most {
			return inner.rule.exceeded()
		}
		if inner.isList {
			if together++; together > r.together.most {
				return r.together.exceeded()
			}
		}
	}
	return nil
}

// endOfString returns the index of the quote that ends a string, which begins at from. All
// backslashes are looked at once: between those before two quotes there is the first quote.
func endOfString(data []byte, from int) int {
	for i := from; ; i++ {
		next := bytes.IndexByte(data[i:], '"')
		if next < 0 {
			return len(data)
		}
		i += next
		escapes := 0
		for i-escapes > from && data[i-escapes-1] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i
		}
	}
}

// isEmpty reports whether a collection ends where rest begins.
func isEmpty(rest []byte) bool {
	for _, c := range rest {
		switch c {
		case ' ', '\t', '\r', '\n':
		default:
			return c == ']' || c == '}'
		}
	}
	return true
}

// isOwnerReferences reports whether a string, in which characters may be escaped, is that
// key.
func isOwnerReferences(text []byte) bool {
	if bytes.IndexByte(text, '\\') < 0 {
		return string(text) == ownerReferences
	}
	var key string
	return len(text) <= len(ownerReferences)*len(`\u0000`) &&
		json.Unmarshal(append(append([]byte{'"'}, text...), '"'), &key) == nil && key == ownerReferences
}
