package spaces

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/tenantry/tenantry/internal/roundtrip"
)

// limits bound the requests of the shared clients, except watches: no answer may block a
// worker, or fill the memory, without end.
type limits struct {
	// timeout is how long a request may take until its answer is read.
	timeout time.Duration
	// object and list are the most bytes in an answer about one object, and in a list.
	object, list int64
}

// defaultLimits are beyond the server's own limit of a minute. An object has at most some
// three megabytes in etcd, which JSON may inflate sixfold.
var defaultLimits = limits{timeout: 65 * time.Second, object: 32 << 20, list: 1 << 30}

// roundTrip sends a request that is no watch, with a limit of time and one of bytes
// for its whole answer.
func (l limits) roundTrip(next http.RoundTripper, req *http.Request, maxBytes int64) (*http.Response, error) {
	ctx, cancel := context.WithTimeoutCause(req.Context(), l.timeout, fmt.Errorf("no answer within %v", l.timeout))
	var ended error // before it is ended here
	response, err := roundtrip.Ending(next, req.WithContext(ctx), func() { ended = context.Cause(ctx); cancel() })
	if err != nil {
		return nil, cmp.Or(ended, err)
	}
	response.Body = &roundtrip.Bounded{ReadCloser: timedBody{response.Body, ctx}, Left: maxBytes, TooLarge: func() error { return errTooLarge }}
	return response, nil
}

var errTooLarge = errors.New("the answer is too large")

// timedBody is a body that says so when it is cut short because its context has ended: its own error may be io.EOF.
type timedBody struct {
	io.ReadCloser
	ctx context.Context
}

// Read implements io.Reader.
func (b timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && b.ctx.Err() != nil {
		err = context.Cause(b.ctx)
	}
	return n, err
}
