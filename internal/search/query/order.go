package query

import (
	"errors"
	"fmt"
	"strings"
)

// Order is what rows are ordered by before their place, which makes the order total. The zero value is
// their place alone.
type Order struct {
	Property   string
	Descending bool
}

var errOrder = errors.New("write PROPERTY, PROPERTY asc or PROPERTY desc")

// ParseOrder reads "", PROPERTY, "PROPERTY asc" or "PROPERTY desc".
func ParseOrder(text string) (Order, error) {
	words := strings.Fields(text)
	switch {
	case len(text) > maxBytes:
		return Order{}, fmt.Errorf("the order has %d bytes; %w", len(text), errOrder)
	case len(words) == 0:
		return Order{}, nil
	case len(words) > 2:
		return Order{}, fmt.Errorf("%q is no order; %w", text, errOrder)
	}
	o := Order{Property: PropertyNamed(words[0])}
	if len(words) == 2 {
		switch strings.ToLower(words[1]) {
		case "asc":
		case "desc":
			o.Descending = true
		default:
			return Order{}, fmt.Errorf("%q is no order; %w", text, errOrder)
		}
	}
	return o, nil
}
