package main

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/test/harness"
)

// system is a running Tenantry, with clients.
type system struct {
	*clients
	*harness.Tenantry
}

func start(ctx context.Context, at harness.Installation) (*system, error) {
	p, err := at.Up(ctx)
	if err != nil {
		return nil, err
	}
	c, err := newClients(p.Config)
	return &system{c, p}, err
}

// usage is what a process takes.
type usage struct {
	cpu        time.Duration
	resident   int64 // bytes that are not of files
	goroutines int64
}

func (s *system) usage(ctx context.Context) (usage, error) {
	var u usage
	var err error
	if u.cpu, err = s.CPU(); err != nil {
		return u, err
	}
	if u.resident, _, err = s.Memory(); err != nil {
		return u, err
	}
	metrics, err := s.typed.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	u.goroutines = harness.Value(metrics, "go_goroutines")
	return u, err
}
