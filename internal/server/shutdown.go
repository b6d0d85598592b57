package server

import (
	"context"
	"fmt"
	"time"

	genericapiserver "k8s.io/apiserver/pkg/server"
)

// preShutdownTimeout is how long a server that ends may take to take back its Lease and its
// endpoint of the service "kubernetes". Upstream grants the slowest of its hooks as much,
// 2*EndpointInterval, but no time at all to the one of the Lease: that waits until the
// Lease exists, which it never does if the storage refuses writes from the start. Of the
// half minute that a pod gets to end, this leaves ten seconds for requests to drain.
const preShutdownTimeout = 20 * time.Second

// preShutdown runs the hooks that come before requests are drained.
type preShutdown struct {
	hooks   func() error
	timeout time.Duration
	// late is set if hooks took longer. Read it when the server has ended.
	late bool
}

// boundPreShutdown makes server, which has the hooks of its delegate as well, run these for
// no longer than preShutdownTimeout.
func boundPreShutdown(server, delegate *genericapiserver.GenericAPIServer) (*preShutdown, error) {
	for name := range delegate.PreShutdownHooks() {
		delete(server.PreShutdownHooks(), name)
	}
	p := &preShutdown{hooks: delegate.RunPreShutdownHooks, timeout: preShutdownTimeout}
	return p, server.AddPreShutdownHook("bounded-pre-shutdown-hooks", p.run)
}

// run returns the error of the hooks, or none when time is up: an error would end the
// server before it has drained.
func (p *preShutdown) run() error {
	ended := make(chan error, 1)
	go func() { ended <- p.hooks() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(p.timeout):
		p.late = true
		return nil
	}
}

// err says what was left behind.
func (p *preShutdown) err() error {
	if !p.late {
		return nil
	}
	return fmt.Errorf("the server has ended, but its Lease in kube-system or its endpoint of the service \"kubernetes\" may be left: "+
		"removing them took longer than %s. Does etcd answer? If it has reached its space quota, delete objects or raise its --etcd-quota-backend-bytes", p.timeout)
}

// Run serves until ctx ends and then drains. Its error may be that something of the
// server is left in the storage.
func (s *Server) Run(ctx context.Context) error {
	prepared, err := s.aggregator.PrepareRun()
	if err != nil {
		return err
	}
	if err := prepared.Run(ctx); err != nil {
		return err
	}
	return s.preShutdown.err()
}
