package canary

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"
)

func TestDial(t *testing.T) {
	serve := func() string {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		go func() { _ = accept(listener) }()
		return listener.Addr().String()
	}
	open, other := serve(), serve()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nothing := closed.Addr().String()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		allowed string
		denied  []string
		want    error
	}{
		"what is denied is not reached": {allowed: open, denied: []string{nothing, nothing}},
		"the first is reached":          {allowed: open, denied: []string{other, nothing}, want: ErrUnenforced},
		"the last is reached":           {allowed: open, denied: []string{nothing, other}, want: ErrUnenforced},
		"nothing is reached":            {allowed: nothing, denied: []string{nothing, nothing}, want: ErrUnconnected},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if err := dial(ctx, tc.allowed, tc.denied, time.Millisecond); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

func TestListen(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	address := "127.0.0.1:0"
	free, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	address = free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	go func() { ended <- Listen(ctx, []string{address}) }()
	for !Connects(ctx, address) {
		select {
		case err := <-ended:
			t.Fatalf("it has ended: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
