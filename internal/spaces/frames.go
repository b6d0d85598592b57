package spaces

import (
	"encoding/json"
	"fmt"
	"io"
)

// frames is the body of a watch, rewritten frame by frame.
type frames struct {
	body    io.ReadCloser
	decoder *json.Decoder
	rewrite *rewriter
	ready   []byte
}

func newFrames(body io.ReadCloser, w *rewriter) *frames {
	return &frames{body: body, decoder: json.NewDecoder(body), rewrite: w}
}

// Read implements io.Reader.
func (f *frames) Read(p []byte) (int, error) {
	if len(f.ready) == 0 {
		var frame json.RawMessage
		if err := f.decoder.Decode(&frame); err != nil {
			return 0, err
		}
		flattened, err := f.rewrite.rewrite(frame, eventPlace)
		if err != nil {
			return 0, fmt.Errorf("flattening a watch event: %w", err)
		}
		f.ready = append(flattened, '\n')
	}
	n := copy(p, f.ready)
	f.ready = f.ready[n:]
	return n, nil
}

// Close implements io.Closer.
func (f *frames) Close() error { return f.body.Close() }
