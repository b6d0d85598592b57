package planeclient

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"time"
)

const (
	// AnswerTimeout is how long a server of a ControlPlane may take to answer.
	AnswerTimeout = 10 * time.Second
	// minPause and maxPause bound for how long a ControlPlane is not asked that did not answer.
	minPause = 10 * time.Second
	maxPause = time.Minute
)

// ErrNoAnswer is why a control plane is not asked for a while: its servers did not answer.
var ErrNoAnswer = errors.New("its servers have not answered lately")

// breaker refuses requests for a while after one that has had no answer. Then one request finds
// out whether there is one again, and the others wait for it.
type breaker struct {
	next http.RoundTripper

	mu sync.Mutex
	// pause is 0 while servers answer.
	pause time.Duration
	until time.Time
	// probing says that the request is under way that finds out.
	probing bool
}

// RoundTrip implements http.RoundTripper.
func (b *breaker) RoundTrip(request *http.Request) (*http.Response, error) {
	probes, may := b.begin()
	if !may {
		return nil, refuse(request, ErrNoAnswer)
	}
	response, err := b.next.RoundTrip(request)
	b.end(probes, err)
	return response, err
}

// begin reports whether a request may be sent, and whether it is the one that finds out.
func (b *breaker) begin() (probes, may bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.pause == 0:
		return false, true
	case b.probing || time.Now().Before(b.until):
		return false, false
	default:
		b.probing = true
		return true, true
	}
}

func (b *breaker) end(probes bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if probes {
		b.probing = false
	}
	switch {
	case err == nil:
		b.pause = 0
	case errors.Is(err, context.Canceled), errors.Is(err, ErrBusy): // which says nothing of the servers
	case probes || b.pause == 0: // others were sent before it was known
		b.pause = min(max(2*b.pause, minPause), maxPause)
		b.until = time.Now().Add(b.pause)
	}
}

// refuse is what a RoundTripper does that does not send a request.
func refuse(request *http.Request, err error) error {
	if request.Body != nil {
		_ = request.Body.Close() // nothing of it is read
	}
	return err
}

// IsUnreachable reports whether a request has had no answer.
func IsUnreachable(err error) bool {
	_, is := errors.AsType[*url.Error](err)
	return is
}
