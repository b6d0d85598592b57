package hosttenant

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"
)

type answers func(*http.Request) (*http.Response, error)

func (a answers) RoundTrip(request *http.Request) (*http.Response, error) { return a(request) }

// TestBreaker checks that a ControlPlane that does not answer is not waited for again at once.
func TestBreaker(t *testing.T) {
	for name, tc := range map[string]struct {
		err   error
		pause bool
	}{
		"an answer":             {nil, false},
		"no answer":             {errors.New("connection refused"), true},
		"none in time":          {context.DeadlineExceeded, true},
		"nobody waits any more": {context.Canceled, false},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			b := &breaker{next: answers(func(*http.Request) (*http.Response, error) {
				asked++
				return &http.Response{}, tc.err
			})}
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://x", nil)
			if err != nil {
				t.Fatal(err)
			}
			send := func() error {
				_, err := b.RoundTrip(request)
				return err
			}
			if err := send(); !errors.Is(err, tc.err) {
				t.Errorf("got error %v", err)
			}
			if err := send(); errors.Is(err, errNoAnswer) != tc.pause || (asked == 1) != tc.pause {
				t.Errorf("asked %d times, then %v", asked, err)
			}
			b.until.Store(time.Now().UnixNano())
			if _ = send(); (asked == 2) != tc.pause {
				t.Errorf("asked %d times after the pause", asked)
			}
		})
	}
}
