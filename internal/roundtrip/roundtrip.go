package roundtrip

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
)

// Func is a function as a transport.
type Func func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f Func) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// Ending sends a request. It calls end when the body of the answer is closed, or at once if there is
// no answer.
func Ending(next http.RoundTripper, req *http.Request, end func()) (*http.Response, error) {
	response, err := next.RoundTrip(req)
	if err != nil {
		end()
		return nil, err
	}
	response.Body = &ending{response.Body, end}
	return response, nil
}

// ending is a body with which something ends.
type ending struct {
	io.ReadCloser
	end func()
}

// Close implements io.Closer.
func (e *ending) Close() error {
	defer e.end()
	return e.ReadCloser.Close()
}

// Restored returns a body that begins again with what has been read of it, or with what takes its place.
func Restored(begin []byte, rest io.ReadCloser) io.ReadCloser {
	return &restored{io.MultiReader(bytes.NewReader(begin), rest), rest}
}

type restored struct {
	io.Reader
	io.Closer
}

// Bounded is a body of which a number of bytes can be read. One more is read to see that there
// are more.
type Bounded struct {
	io.ReadCloser
	// Left is how many bytes can still be read. It may be set again, for what follows.
	Left int64
	// TooLarge returns the error of a body that has more.
	TooLarge func() error
}

// Read implements io.Reader.
func (b *Bounded) Read(p []byte) (int, error) {
	if b.Left < 0 {
		return 0, b.TooLarge()
	}
	if int64(len(p)) > b.Left+1 {
		p = p[:b.Left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if b.Left -= int64(n); b.Left < 0 {
		return n - 1, b.TooLarge()
	}
	return n, err
}

// Events returns the body of a watch in JSON, in which each event is what a function makes of it. An
// error of that ends the watch.
func Events(body io.ReadCloser, each func(event []byte) ([]byte, error)) io.ReadCloser {
	return &events{ReadCloser: body, decoder: json.NewDecoder(body), each: each}
}

type events struct {
	io.ReadCloser
	decoder *json.Decoder
	each    func([]byte) ([]byte, error)
	// event is what is left of one.
	event []byte
}

// Read implements io.Reader.
func (e *events) Read(p []byte) (int, error) {
	for len(e.event) == 0 {
		var event json.RawMessage
		err := e.decoder.Decode(&event)
		if err == nil {
			e.event, err = e.each(event)
		}
		if err != nil {
			return 0, err
		}
	}
	n := copy(p, e.event)
	e.event = e.event[n:]
	return n, nil
}
