package bounds

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// Upstream reads quantities as decimal numbers of any size: 1e-1000000000 takes hours while
// it is decoded, and 1e1000000000 when it is compared. Which type a body has is not always known
// before it is decoded, so numbers that take long to decode are refused wherever the name of a
// field is that of a quantity in some type.
const (
	// maxDigits is how many digits a number in a string has at most.
	maxDigits = 2000
	// maxExponent is the largest exponent of a quantity, which has exponentDigits.
	maxExponent, exponentDigits = 999, 3
	// longInteger is the length of numbers that upstream writes out while it reads them.
	longInteger = 18
)

// number is a decimal number with an exponent.
type number struct {
	// digits has the point, too.
	digits   int
	negative bool
	exponent uint64
}

// numberIn returns what a string is if it is a number as a whole.
func numberIn(text string) number {
	text = strings.TrimLeft(strings.TrimSpace(text), "+-")
	rest := strings.TrimLeft(text, "0123456789.")
	n := number{digits: len(text) - len(rest)}
	if n.digits == 0 || strings.Trim(rest, "eEinumkKMGTP+-0123456789") != "" { // of all suffixes
		return number{}
	}
	if exponent := strings.TrimLeft(rest, "eE"); len(exponent) < len(rest) {
		n.negative = strings.HasPrefix(exponent, "-")
		n.exponent, _ = strconv.ParseUint(strings.TrimLeft(exponent, "+-"), 10, 64) // the largest if it is larger
	}
	return n
}

// slow reports whether it takes long to read a number as a quantity.
func (n number) slow() bool {
	return n.digits > maxDigits ||
		n.exponent > maxExponent && (n.negative || n.digits >= longInteger) ||
		n.exponent > math.MaxInt32 // of which upstream takes 32 bits: it may become negative
}

// incomparable reports whether it takes long to read a number as a quantity, or to compare it then.
func (n number) incomparable() bool { return n.digits > maxDigits || n.exponent > maxExponent }

func tooLong(kind, text string) error {
	if len(text) > 40 {
		text = text[:40] + "..."
	}
	return fmt.Errorf("%s, %q, has an exponent of more than %d digits, or more than %d digits; write it with fewer", kind, text, exponentDigits, maxDigits)
}

// Text returns an error if a string is a number that takes long to read as a quantity, or is
// JSON with such numbers: upstream reads some annotations and extensions as JSON.
func Text(text string) error {
	if numberIn(text).slow() {
		return tooLong("the number", text)
	}
	return embedded(text)
}

// embedded checks a string that may be JSON. Upstream does not read strings in it as JSON again.
func embedded(text string) error {
	if !mayBeJSON(text) {
		return nil
	}
	data := []byte(text)
	if !HasNumbers(data) {
		return nil
	}
	return numbersInJSON(data, checkSlow, nil)
}

func mayBeJSON(text string) bool {
	text = strings.TrimLeft(text, " \t\r\n")
	return strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[")
}

// Texts returns an error if a decoded object has a string that Text refuses. It is for what
// may become a quantity later.
func Texts(v any) error {
	return (&walk{left: math.MaxInt, rules: numbersOnly, texts: true}).value(v)
}

// Quantity returns an error if a quantity takes long to read or to compare.
func Quantity(text string) error {
	if numberIn(text).incomparable() {
		return tooLong("a quantity", text)
	}
	return nil
}

// Quantities returns an error if a decoded object has quantities that take long to compare.
func Quantities(v any) error { return (&walk{left: math.MaxInt, rules: numbersOnly}).value(v) }

// Numbers returns an error if data has numbers that take long to decode as quantities. It
// reports whether there may be numbers with exponents, so that quantities of the decoded
// object are to be checked. In most data there are none, and it is read once. What is no
// valid JSON, YAML or protobuf is left to upstream, which refuses it.
func Numbers(mediaType string, data []byte) (found bool, err error) {
	switch mediaType {
	case runtime.ContentTypeYAML:
		// Other ways to write characters, tags and UTF-16 are YAML's own.
		if !HasNumbers(data) && !bytes.ContainsAny(data, "\\!\x00") {
			return false, nil
		}
		asJSON, err := yaml.YAMLToJSON(data)
		if err != nil {
			return true, nil
		}
		return true, numbersInJSON(asJSON, checkSlow, embedded)
	case runtime.ContentTypeProtobuf:
		if !HasNumbers(data) {
			return false, nil
		}
		return true, numbersInMessage(bytes.TrimPrefix(data, protobufMagic), Text)
	default:
		if !HasNumbers(data) {
			return false, nil
		}
		return true, numbersInJSON(data, checkSlow, embedded)
	}
}

// Metrics returns an error if any string in JSON takes long to read or to compare as a quantity.
func Metrics(data []byte) error {
	if !HasNumbers(data) {
		return nil
	}
	return numbersInJSON(data, checkSlow, Quantity)
}

// Answer returns an error if what a server has answered, in JSON or protobuf, may have more than so many
// quantities, or one that takes long to decode or to compare.
func Answer(data []byte, most int) error {
	quantities := 0
	check := func(key, text string) error {
		if quantities++; quantities > most {
			return fmt.Errorf("it has more than %d quantities", most)
		}
		if numberIn(text).incomparable() {
			return tooLong(fmt.Sprintf("the number of %q", key), text)
		}
		return nil
	}
	if !bytes.HasPrefix(data, protobufMagic) {
		return numbersInJSON(data, check, nil)
	}
	return numbersInMessage(data[len(protobufMagic):], func(text string) error {
		if numberIn(text).digits == 0 {
			return nil
		}
		return check("", text)
	})
}

// protobufMagic begins each object in protobuf.
var protobufMagic = []byte("k8s\x00")

// HasNumbers reports whether JSON or protobuf may have numbers with long exponents, or long numbers, or
// characters of them that are escaped in JSON.
func HasNumbers(data []byte) bool {
	digits := 0
	for i, c := range data {
		switch {
		case isDigit(c) || c == '.':
			if digits++; digits > maxDigits {
				return true
			}
			continue
		case c|0x20 == 'e' && digits > 0 && startsExponent(data[i+1:]),
			c == '\\' && isEscapedNumber(data[i+1:]):
			return true
		}
		digits = 0
	}
	return false
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// startsExponent reports whether data begins with a long exponent.
func startsExponent(data []byte) bool {
	if len(data) > 0 && (data[0] == '+' || data[0] == '-') {
		data = data[1:]
	}
	return len(data) > exponentDigits && !slices.ContainsFunc(data[:exponentDigits+1], func(c byte) bool { return !isDigit(c) })
}

// isEscapedNumber reports whether data is what follows a backslash before a character of a
// number.
func isEscapedNumber(data []byte) bool {
	if len(data) < 5 || data[0] != 'u' {
		return false
	}
	c, err := strconv.ParseUint(string(data[1:5]), 16, 16)
	return err == nil && c < 0x80 && strings.ContainsRune("+-.0123456789eE", rune(c))
}

// checkSlow refuses a quantity that takes long to read.
func checkSlow(key, text string) error {
	if numberIn(text).slow() {
		return tooLong(fmt.Sprintf("the number of %q", key), text)
	}
	return nil
}

// numbersInJSON checks what may be quantities in JSON: the values of fields that have the name of
// one, and in an object that has. checkQuantity is called for each of them, and checkText, if not nil, for each string.
func numbersInJSON(data []byte, checkQuantity func(key, text string) error, checkText func(string) error) error {
	var (
		around []bool // whether the collections around have quantities
		inside bool   // whether the innermost has
		key    string // of the next value, empty in lists
	)
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			end := endOfString(data, i+1)
			text := unescaped(data[i+1 : end])
			i = end
			if bytes.HasPrefix(bytes.TrimLeft(data[min(i+1, len(data)):], " \t\r\n"), []byte(":")) {
				key = text
				continue
			}
			if inside || isQuantity(key) {
				if err := checkQuantity(key, text); err != nil {
					return err
				}
			}
			if checkText != nil {
				if err := checkText(text); err != nil {
					return err
				}
			}
		case c == '-' || isDigit(c):
			rest := bytes.TrimLeft(data[i:], "0123456789.+-eE")
			end := len(data) - len(rest)
			if inside || isQuantity(key) {
				if err := checkQuantity(key, string(data[i:end])); err != nil {
					return err
				}
			}
			i = end - 1
		case c == 'n' && (inside || isQuantity(key)): // null, which is 0
			if err := checkQuantity(key, ""); err != nil {
				return err
			}
		case c == '{' || c == '[':
			around, inside = append(around, inside), isQuantity(key) || c == '[' && inside
			key = ""
		case c == '}' || c == ']':
			if len(around) > 0 {
				inside, around = around[len(around)-1], around[:len(around)-1]
			}
		case c == ',':
			key = ""
		}
	}
	return nil
}

// unescaped returns a string of JSON, empty if it is none.
func unescaped(text []byte) string {
	if bytes.IndexByte(text, '\\') < 0 {
		return string(text)
	}
	var s string
	_ = json.Unmarshal(append(append([]byte{'"'}, text...), '"'), &s)
	return s
}

// maxVisits is how often each byte of a message is looked at, at most: strings in messages in
// messages may all begin as a number does.
const maxVisits = 64

// numbersInMessage calls checkText for what may be quantities in a message, which have a field with the
// number 1, and checks everything that may be JSON if it has annotations that upstream reads as such.
func numbersInMessage(message []byte, checkText func(string) error) error {
	left, annotated := maxVisits*len(message), bytes.Contains(message, []byte("autoscaling.alpha.kubernetes.io/"))
	return payloads(message, 2*maxDepth, func(field uint64, payload []byte) error {
		if len(payload) == 0 || field != 1 && !annotated || !strings.ContainsRune(" \t\r\n+-.0123456789{[", rune(payload[0])) {
			return nil
		}
		if left -= len(payload); left < 0 {
			return errors.New("the body has strings in strings that are not told from messages of protobuf; send JSON")
		}
		if field != 1 {
			return embedded(string(payload))
		}
		return checkText(string(payload))
	})
}
