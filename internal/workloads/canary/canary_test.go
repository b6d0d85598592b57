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
			connects := func(address string) bool { return Connects(context.WithoutCancel(ctx), address) }
			if err := dial(ctx, connects, tc.allowed, tc.denied, time.Millisecond); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

// TestLate checks that a network which carries connections only sometimes is not taken for one without policies, nor
// for one with policies.
func TestLate(t *testing.T) {
	for name, tc := range map[string]struct {
		// reached is whether each connection is made, one after the other. Then ctx ends.
		reached []bool
		want    error
	}{
		"one good round":                         {reached: []bool{true, false, true}, want: ErrUnconnected},
		"one after a bad one":                    {reached: []bool{false, true, false, true}, want: ErrUnconnected},
		"nothing after it":                       {reached: []bool{true, false, false}, want: ErrUnconnected},
		"nothing after it, a third time":         {reached: []bool{true, false, true, true, false, true, true, false, false}, want: ErrUnconnected},
		"what must not be after two good rounds": {reached: []bool{true, false, true, true, false, true, true, true}, want: ErrUnenforced},
		"three good rounds":                      {reached: []bool{true, false, true, true, false, true, true, false, true}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			i := 0
			err := dial(ctx, func(string) bool {
				reached := tc.reached[i]
				if i++; i == len(tc.reached) {
					cancel()
				}
				return reached
			}, "allowed", []string{"denied"}, time.Microsecond)
			if !errors.Is(err, tc.want) || tc.want != nil && ExitCode(err) != ExitCode(tc.want) {
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
