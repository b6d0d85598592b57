package planeclient

import (
	"bytes"
	"fmt"
	"io"

	"github.com/tenantry/tenantry/internal/bounds"
	"github.com/tenantry/tenantry/internal/roundtrip"
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

// checkedEvents returns the body of a watch in JSON whose events are checked, one by one, before anybody has them.
// Each takes tenantBytes at most.
func checkedEvents(of string, body io.ReadCloser) io.ReadCloser {
	from := bounded(of, body, tenantBytes)
	return roundtrip.Events(from, func(event []byte) ([]byte, error) {
		from.Left = tenantBytes
		return event, checkAnswer(of, event, ObjectQuantities)
	})
}
