package server

import (
	"context"
	"fmt"
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
		return client.RESTClient().Get().AbsPath("/readyz").MaxRetries(0).Do(ctx).Error() == nil, nil
	})
}
