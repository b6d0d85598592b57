package hosttenant

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"
)

const (
	// answerTimeout is how long a server of a ControlPlane may take to answer.
	answerTimeout = 10 * time.Second
	// breakPeriod is for how long a ControlPlane is not asked that did not answer.
	breakPeriod = 10 * time.Second
)

var errNoAnswer = errors.New("its servers have not answered lately")

// breaker refuses requests for a while after one that has had no answer: otherwise the workers
// would wait for one ControlPlane, and the Tenants of others for the workers.
type breaker struct {
	next  http.RoundTripper
	until atomic.Int64 // in nanoseconds since 1970
}

// RoundTrip implements http.RoundTripper.
func (b *breaker) RoundTrip(request *http.Request) (*http.Response, error) {
	if time.Now().UnixNano() < b.until.Load() {
		return nil, errNoAnswer
	}
	response, err := b.next.RoundTrip(request)
	if err != nil && !errors.Is(err, context.Canceled) {
		b.until.Store(time.Now().Add(breakPeriod).UnixNano())
	}
	return response, err
}

// unreachable reports whether a request has had no answer.
func unreachable(err error) bool {
	_, is := errors.AsType[*url.Error](err)
	return is
}
