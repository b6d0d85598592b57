package planeclient

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/internal/process/shares"
	"github.com/tenantry/tenantry/internal/roundtrip"
)

// slow is a body that ends after a time, or with a request.
type slow struct {
	ctx   context.Context
	takes time.Duration
}

func (s slow) Read([]byte) (int, error) {
	select {
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	case <-time.After(s.takes):
		return 0, io.EOF
	}
}

// concurrency is how many workers there are.
const concurrency = 64

// TestShareOfWorkers checks that a ControlPlane whose servers take their time, for all of an answer
// or for the end of it, has a share of the workers, and that one that answers quickly has as many
// as there are.
func TestShareOfWorkers(t *testing.T) {
	key := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "own", Name: name} }
	for name, body := range map[string]bool{"the answer": false, "its body": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				workers := NewShares(concurrency)
				to := func(of string, takes time.Duration) http.RoundTripper {
					return &sharing{shares: workers, of: key(of), next: roundtrip.Func(func(request *http.Request) (*http.Response, error) {
						answer := slow{request.Context(), takes}
						if body {
							return &http.Response{Body: io.NopCloser(answer)}, nil
						}
						if _, err := answer.Read(nil); !errors.Is(err, io.EOF) {
							return nil, err
						}
						return &http.Response{Body: http.NoBody}, nil
					})}
				}
				failed := make(chan error, concurrency)
				for range concurrency {
					go func() { failed <- ask(t, to("slow", AnswerTimeout)) }()
				}
				time.Sleep(shares.WaitThreshold + time.Millisecond)
				synctest.Wait()
				if got, want := len(failed), concurrency-concurrency/shares.Divisor; got != want {
					t.Errorf("after a second %d workers are free, want %d", got, want)
				}
				for range len(failed) {
					if err := <-failed; !errors.Is(err, ErrBusy) {
						t.Errorf("got error %v", err)
					}
				}
				for range concurrency {
					if err := ask(t, to("quick", time.Millisecond)); err != nil {
						t.Errorf("another ControlPlane: %v", err)
					}
				}
				time.Sleep(AnswerTimeout)
				synctest.Wait()
				if err := ask(t, to("slow", time.Millisecond)); err != nil {
					t.Errorf("in time again: %v", err)
				}
			})
		})
	}
}

// TestTenantsAreBounded checks that an answer about a Tenant is not read without an end.
func TestTenantsAreBounded(t *testing.T) {
	s := &sharing{shares: NewShares(concurrency), next: roundtrip.Func(func(*http.Request) (*http.Response, error) {
		return &http.Response{Body: io.NopCloser(io.LimitReader(zeros{}, tenantBytes+1))}, nil
	})}
	if err := ask(t, s); err == nil || !strings.Contains(err.Error(), "more than 4 MiB") {
		t.Errorf("got error %v", err)
	}
}

type zeros struct{}

func (zeros) Read(into []byte) (int, error) { return len(into), nil }
