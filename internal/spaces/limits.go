package spaces

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// limits bound the requests of the shared clients, watches apart: nobody may keep a
// worker of theirs waiting, or their memory filling, for ever.
type limits struct {
	// timeout is until when an answer must have been read.
	timeout time.Duration
	// object and list are the bytes of an answer about one object, and of a list.
	object, list int64
}

// defaultLimits let the server end its requests first, which it does after a minute.
// An object has at most some three megabytes in etcd, of which JSON may make six
// times as much.
var defaultLimits = limits{timeout: 65 * time.Second, object: 32 << 20, list: 1 << 30}

// roundTrip sends a request that is no watch, with a limit of time and one of bytes
// for all of its answer.
func (l limits) roundTrip(next http.RoundTripper, req *http.Request, most int64) (*http.Response, error) {
	ctx, cancel := context.WithTimeoutCause(req.Context(), l.timeout, fmt.Errorf("no answer within %v", l.timeout))
	response, err := next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		cancel()
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, err
	}
	response.Body = &limitedBody{ReadCloser: response.Body, ctx: ctx, cancel: cancel, left: most}
	return response, nil
}

var errTooLarge = errors.New("the answer is too large")

// limitedBody fails instead of being longer than it may be.
type limitedBody struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelFunc
	left   int64
}

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errTooLarge
	}
	if err != nil && b.ctx.Err() != nil { // cut short, even where it looks like an end
		err = context.Cause(b.ctx)
	}
	return n, err
}

// Close implements io.Closer.
func (b *limitedBody) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}
