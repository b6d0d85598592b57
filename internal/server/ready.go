package server

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// readyPoll is how often a starting server is asked whether it is ready.
const readyPoll = 20 * time.Millisecond

// WaitUntilReady returns when the running server answers /readyz, or the error
// of ctx.
func (s *Server) WaitUntilReady(ctx context.Context) error {
	config := s.LoopbackConfig()
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a client of the server itself: %w", err)
	}
	return wait.PollUntilContextCancel(ctx, readyPoll, true, func(ctx context.Context) (bool, error) {
		// Early answers say when to come back, in seconds; the poll is quicker.
		ready := client.RESTClient().Get().AbsPath("/readyz").MaxRetries(0).Do(ctx).Error() == nil
		if ready {
			s.start.over.Store(true)
		}
		return ready, nil
	})
}

// start is the time before a server is ready. Requests wait then for what the server reads, as
// admission plugins do, for ten seconds each. If the server is ended meanwhile, its informers
// end at once, so that the requests would wait in vain, and the server for them.
type start struct {
	over      atomic.Bool
	abandoned context.Context
	abandon   context.CancelFunc
}

func newStart() *start {
	s := &start{}
	s.abandoned, s.abandon = context.WithCancel(context.Background())
	return s
}

// end ends the requests of a server that was never ready.
func (s *start) end() {
	if !s.over.Load() {
		s.abandon()
	}
}

// withEnd ends requests that come before the server is ready when it is ended.
func (s *start) withEnd(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !s.over.Load() {
			ctx, cancel := context.WithCancel(req.Context())
			defer cancel()
			defer context.AfterFunc(s.abandoned, cancel)()
			req = req.WithContext(ctx)
		}
		handler.ServeHTTP(w, req)
	})
}
