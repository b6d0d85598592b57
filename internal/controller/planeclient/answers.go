package planeclient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/tenantry/tenantry/internal/bounds"
)

const (
	// ObjectQuantities is how many quantities an object may have, seven times as many as a Tenant has at most, and
	// answerQuantities how many a list may have: 10,000 Tenants, 50 each. Each takes 20 microseconds to decode.
	ObjectQuantities, answerQuantities = 1000, 500_000
)

// checkAnswer refuses quantities that take long to decode or to compare, or too many. Clients decode an answer when
// the request is over: neither its timeout nor the share of its ControlPlane ends that.
func checkAnswer(of string, content []byte, most int) error {
	if err := bounds.Answer(content, most); err != nil {
		return fmt.Errorf("ControlPlane %q answers with what takes too long to decode: %w; check what answers at its address", of, err)
	}
	return nil
}

// checked is the body of an answer that is checked as a whole before anybody has it.
type checked struct {
	io.ReadCloser
	of string
	// content is nil until it is read.
	content *bytes.Reader
}

// Read implements io.Reader.
func (c *checked) Read(into []byte) (int, error) {
	if c.content == nil {
		content, err := io.ReadAll(c.ReadCloser)
		if err == nil {
			err = checkAnswer(c.of, content, answerQuantities)
		}
		if err != nil {
			return 0, err
		}
		c.content = bytes.NewReader(content)
	}
	return c.content.Read(into)
}

// checkedEvents is the body of a watch in JSON whose events are checked, one by one, before anybody has them.
type checkedEvents struct {
	io.ReadCloser
	of string
	// from is the body, of which each event takes tenantBytes at most.
	from   *bounded
	events *json.Decoder
	// event is what is left of one.
	event []byte
}

func newCheckedEvents(of string, body io.ReadCloser) *checkedEvents {
	from := &bounded{ReadCloser: body, of: of, most: tenantBytes}
	return &checkedEvents{ReadCloser: body, of: of, from: from, events: json.NewDecoder(from)}
}

// Read implements io.Reader.
func (c *checkedEvents) Read(into []byte) (int, error) {
	if len(c.event) == 0 {
		c.from.left = c.from.most
		var event json.RawMessage
		err := c.events.Decode(&event)
		if err == nil {
			err = checkAnswer(c.of, event, ObjectQuantities)
		}
		if err != nil {
			return 0, err
		}
		c.event = event
	}
	n := copy(into, c.event)
	c.event = c.event[n:]
	return n, nil
}
