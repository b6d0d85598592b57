package planeclient

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/internal/roundtrip"
)

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
		"others wait already":   {ErrBusy, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				b := &breaker{next: roundtrip.Func(func(*http.Request) (*http.Response, error) {
					asked++
					return &http.Response{}, tc.err
				})}
				if err := ask(t, b); !errors.Is(err, tc.err) {
					t.Errorf("got error %v", err)
				}
				if err := ask(t, b); errors.Is(err, ErrNoAnswer) != tc.pause || (asked == 1) != tc.pause {
					t.Errorf("asked %d times, then %v", asked, err)
				}
				time.Sleep(minPause)
				if _ = ask(t, b); (asked == 2) != tc.pause {
					t.Errorf("asked %d times after the pause", asked)
				}
			})
		})
	}
}

func ask(t *testing.T, by http.RoundTripper) error {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://x", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = by.RoundTrip(request)
	return err
}

// TestProbes checks that one request at a time finds out whether there is an answer again, after
// longer and longer pauses, and that everybody asks again once there is.
func TestProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		answer := errors.New("none")
		b := &breaker{next: roundtrip.Func(func(*http.Request) (*http.Response, error) {
			asked.Add(1)
			time.Sleep(AnswerTimeout)
			return &http.Response{}, answer
		})}
		const many = 20
		askAll := func(want int) {
			t.Helper()
			before := asked.Load()
			for range many {
				go func() { _ = ask(t, b) }()
			}
			synctest.Wait()
			if got := int(asked.Load() - before); got != want {
				t.Errorf("%d requests were sent at once, want %d", got, want)
			}
			time.Sleep(AnswerTimeout)
			synctest.Wait()
		}
		askAll(many)
		for _, pause := range []time.Duration{minPause, 2 * minPause, 4 * minPause, maxPause, maxPause} {
			time.Sleep(pause - time.Nanosecond)
			askAll(0)
			b.mu.Lock()
			b.until = time.Now() // and not after what askAll has taken
			b.mu.Unlock()
			askAll(1)
		}
		time.Sleep(maxPause)
		answer = nil
		askAll(1)
		askAll(many)
	})
}
