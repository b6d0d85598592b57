package server

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// What waits for a server that is ended before it is ready ends, and nothing else does.
func TestStart(t *testing.T) {
	for name, ready := range map[string]bool{"before it is ready": false, "when it is ready": true} {
		t.Run(name, func(t *testing.T) {
			s := newStart()
			ended := make(chan bool)
			handler := s.withEnd(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
				s.over.Store(ready)
				s.end()
				select {
				case <-req.Context().Done():
					ended <- true
				case <-time.After(100 * time.Millisecond):
					ended <- false
				}
			}))
			for range 2 { // one that came before the end, one after it
				go handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
				if got := <-ended; got == ready {
					t.Errorf("the request has ended: %v, want %v", got, !ready)
				}
			}
		})
	}
}
