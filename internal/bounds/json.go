package bounds

import (
	"bytes"
	"encoding/json"
)

// JSON returns an error if JSON has longer lists, maps or paths than a space takes. It reads
// data once and decodes nothing. It counts what comes before a mistake, and returns nil for the
// rest: upstream refuses it.
func JSON(data []byte) error { return objects.check(data) }

// StrategicMergePatch is like JSON, for a strategic merge patch.
func StrategicMergePatch(data []byte) error { return strategicMergePatches.check(data) }

// JSONPatch is like JSON, for a JSON patch, whose values get where its paths say. How many values
// it copies or moves is not known here, so the paths of these operations have a bound of their own.
func JSONPatch(data []byte) error {
	if err := objects.check(data); err != nil {
		return err
	}
	var operations []map[string]json.RawMessage // as upstream reads it: the case of keys counts
	if json.Unmarshal(data, &operations) != nil {
		return nil // as it is for upstream
	}
	s := scan{rules: objects}
	copied := 0 // bytes
	for _, o := range operations {
		path := len(o["path"])
		if err := s.at(path); err != nil {
			return err
		}
		if _, ok := o["from"]; ok { // copied or moved
			if copied += path; copied > copies.most {
				return copies.exceeded()
			}
		}
		if err := s.read(o["value"], path); err != nil {
			return err
		}
	}
	return nil
}

func (r rules) check(data []byte) error {
	s := scan{rules: r}
	return s.read(data, 0)
}

// Count returns how many values there are in the lists and maps of JSON, how many of them
// are maps, and how many of these are empty.
func Count(data []byte) (values, maps, empty int) {
	opened, quoted := false, false
	for i := 0; i < len(data); i++ {
		c := data[i]
		switch {
		case quoted && c == '\\':
			i++
			continue
		case quoted:
			quoted = c != '"'
			continue
		case c == ' ', c == '\n', c == '\t', c == '\r':
			continue
		case c == ',', opened && c != ']' && c != '}':
			values++
		}
		switch {
		case c == '{':
			maps++
		case c == '}' && opened:
			empty++
		}
		opened = c == '{' || c == '['
		quoted = c == '"'
	}
	return values, maps, empty
}

// collection is a list or an object whose end is not read yet.
type collection struct {
	rule   *rule
	isList bool
	count  int
	// path is the length of the path to it.
	path int
}

// structural are the characters that are looked at, outside of strings.
var structural = [256]bool{'"': true, ':': true, '[': true, '{': true, ']': true, '}': true, ',': true}

// scan is what has been counted.
type scan struct {
	rules
	elements, bytes int
}

// at counts the path to a value.
func (s *scan) at(path int) error {
	if path > s.path.most {
		return s.path.exceeded()
	}
	if s.bytes += path; s.bytes > s.paths.most {
		return s.paths.exceeded()
	}
	return nil
}

// read counts what is in data, to which a path of some bytes leads.
func (s *scan) read(data []byte, path int) error {
	var (
		buffer [32]collection
		around = buffer[:0]
		inner  = collection{rule: unbounded, path: path}
		text   []byte // the last string, without its quotes
		isKey  bool   // a colon is behind it
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
			if err := s.at(inner.path + len(text)); err != nil {
				return err
			}
			continue
		case '[', '{':
			if len(around) >= s.levels.most {
				return s.levels.exceeded()
			}
			around = append(around, inner)
			inner = s.opened(c, inner, text, isKey)
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
		if err := s.element(&inner); err != nil {
			return err
		}
	}
	return nil
}

// opened returns the collection that begins with c in another one, behind a text that is its
// key or is not.
func (s *scan) opened(c byte, in collection, text []byte, isKey bool) collection {
	opened := collection{rule: s.maps, isList: c == '[', path: in.path}
	if isKey {
		opened.path += len(text)
	} else if in.isList {
		opened.path += indexSize
	}
	if opened.isList {
		opened.rule = s.lists
		if isKey && isOwnerReferences(text) {
			opened.rule = s.owners
		}
	}
	return opened
}

// element counts an element or member of a collection.
func (s *scan) element(of *collection) error {
	if of.count++; of.count > of.rule.most {
		return of.rule.exceeded()
	}
	if !of.isList {
		return nil // its path ends with its name
	}
	if s.elements++; s.elements > s.together.most {
		return s.together.exceeded()
	}
	return s.at(of.path + indexSize)
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
