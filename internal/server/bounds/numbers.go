package bounds

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	goyaml "sigs.k8s.io/yaml/goyaml.v2"
)

// Upstream reads quantities as decimal numbers of any size: 1e-1000000000 takes hours while
// it is decoded, and 1e1000000000 when it is compared. Where quantities are in a body is not
// known before it is decoded, so numbers that take long to decode are refused in all
// strings.
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
		return tooLong("a number in it", text)
	}
	if trimmed := strings.TrimSpace(text); strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[") {
		_, err := Numbers(runtime.ContentTypeJSON, []byte(trimmed))
		return err
	}
	return nil
}

// Quantity returns an error if a quantity takes long to read or to compare.
func Quantity(text string) error {
	if n := numberIn(text); n.digits > maxDigits || n.exponent > maxExponent {
		return tooLong("a quantity", text)
	}
	return nil
}

// Quantities returns an error if a decoded object has quantities that take long to compare.
func Quantities(v any) error { return (&walk{left: math.MaxInt, rules: numbersOnly}).value(v) }

// Numbers returns an error if data has numbers that take long to decode as quantities. It
// reports whether there may be numbers with exponents, so that quantities of the decoded
// object are to be checked. In most data there are none, and it is read once. What is no
// valid JSON, YAML, CBOR or protobuf is left to upstream, which refuses it.
func Numbers(mediaType string, data []byte) (found bool, err error) {
	switch mediaType {
	case runtime.ContentTypeYAML:
		// Other ways to write characters, tags and UTF-16 are YAML's own.
		if !hasNumbers(data) && !bytes.ContainsAny(data, "\\!\x00") {
			return false, nil
		}
		var v any
		if goyaml.Unmarshal(data, &v) != nil {
			return true, nil
		}
		return true, Quantities(v)
	case runtime.ContentTypeCBOR: // strings may be in pieces
		var v any
		if direct.Unmarshal(data, &v) != nil {
			return true, nil
		}
		return true, Quantities(v)
	case runtime.ContentTypeProtobuf:
		if !hasNumbers(data) {
			return false, nil
		}
		return true, numbersInMessage(bytes.TrimPrefix(data, []byte("k8s\x00")))
	default:
		if !hasNumbers(data) {
			return false, nil
		}
		return true, numbersInJSON(data)
	}
}

// hasNumbers reports whether data may have numbers with long exponents, or long numbers, or
// characters of them that are escaped in JSON.
func hasNumbers(data []byte) bool {
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

func numbersInJSON(data []byte) error {
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			end := endOfString(data, i+1)
			if err := Text(unescaped(data[i+1 : end])); err != nil {
				return err
			}
			i = end
		case c == '-' || isDigit(c):
			rest := bytes.TrimLeft(data[i:], "0123456789.+-eE")
			end := len(data) - len(rest)
			if err := Text(string(data[i:end])); err != nil {
				return err
			}
			i = end - 1
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

// numbersInMessage checks everything in a message that may be a string.
func numbersInMessage(message []byte) error {
	left := maxVisits * len(message)
	return payloads(message, 2*maxDepth, func(payload []byte) error {
		if len(payload) == 0 || !strings.ContainsRune(" \t\r\n+-.0123456789{[", rune(payload[0])) {
			return nil
		}
		if left -= len(payload); left < 0 {
			return errors.New("the body has strings in strings that are not told from messages of protobuf; send JSON")
		}
		return Text(string(payload))
	})
}

var quantityType = reflect.TypeFor[resource.Quantity]()
