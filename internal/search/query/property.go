package query

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Type is how values of a property are ordered.
type Type string

// The types.
const (
	String Type = ""
	Number Type = "number"
	Time   Type = "time"
)

// Property is a value of an object by which it is found. An object may have several of a name.
type Property struct {
	// Name is in lower case.
	Name string `json:"n"`
	// Value is as Text makes it. Times are in RFC 3339.
	Value string `json:"v"`
	Type  Type   `json:"t,omitempty"`
}

// Ordered returns the text by which databases order the value, by bytes, and false if it has no other
// order than that of text.
func (p *Property) Ordered() (string, bool) {
	switch p.Type {
	case Number:
		if number, ok := parseNumber(p.Value); ok {
			return orderedNumber(number), true
		}
	case Time:
		if t, err := time.Parse(time.RFC3339, p.Value); err == nil {
			return orderedTime(t), true
		}
	}
	return "", false
}

// The forms of numbers and of times begin with another letter, so that neither is compared with the other.
const (
	numbers = "n"
	times   = "t"
)

// orderedNumber turns the bits of a number so that they are ordered as it is.
func orderedNumber(number float64) string {
	bits := math.Float64bits(number + 0) // there is one zero
	if bits>>63 == 0 {
		bits |= 1 << 63
	} else {
		bits = ^bits
	}
	return fmt.Sprintf("%s%016x", numbers, bits)
}

func orderedTime(t time.Time) string {
	return fmt.Sprintf("%s%016x", times, uint64(t.Unix())^1<<63)
}

// Between returns what the ordered form that compares so with another one begins with. Forms of
// another type do not.
func Between(ordered string) (first, last string) {
	return ordered[:1], ordered[:1] + "~"
}

// suffixes are those of numbers of bytes, and of processors.
var suffixes = map[string]float64{
	"m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
	"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50,
}

// maxDigits is how long a number may be.
const maxDigits = 40

// parseNumber reads a decimal number, with a suffix such as Gi.
func parseNumber(text string) (float64, bool) {
	if len(text) > maxDigits {
		return 0, false
	}
	digits := strings.TrimRight(text, "kmKMGTPi")
	factor := 1.0
	if suffix := text[len(digits):]; suffix != "" {
		var ok bool
		if factor, ok = suffixes[suffix]; !ok {
			return 0, false
		}
	}
	if strings.Trim(digits, "+-.0123456789eE") != "" { // nor in another base, nor infinite
		return 0, false
	}
	number, err := strconv.ParseFloat(digits, 64)
	number *= factor
	return number, err == nil && !math.IsInf(number, 0)
}
