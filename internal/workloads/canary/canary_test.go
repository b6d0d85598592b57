package canary

import (
	"context"
	"errors"
	"net"
	"net/netip"
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
		go func() { _ = accept(listener, &received{}) }()
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
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			tried := 0
			connects := func(address string) bool {
				if tried++; tried == 100 { // more than it takes to know
					cancel()
				}
				return connects(context.WithoutCancel(ctx), address)
			}
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
	go func() { ended <- Listen(ctx, []string{address}, "", "") }()
	for !connects(ctx, address) {
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

// TestSources checks that a packet in another's name is noticed, and that nothing is known where none arrives at all.
func TestSources(t *testing.T) {
	free, err := net.ListenPacket("udp6", "[::1]:0")
	if err != nil {
		t.Skipf("this machine has no IPv6: %v", err)
	}
	address := free.LocalAddr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	forged := 0
	honest := func(ctx context.Context, name, sender netip.Addr, to string) error {
		if name != sender {
			forged++
			return errors.New("this network checks")
		}
		return sendWith("word")(ctx, name, sender, to)
	}
	for name, tc := range map[string]struct {
		send func(ctx context.Context, name, sender netip.Addr, to string) error
		// times is how often something is sent before ctx ends, 0 if it does not end.
		times int
		want  error
	}{
		"a network that does not check": {send: sendWith("word"), want: ErrUnchecked},
		"one in which strangers send": {send: func(ctx context.Context, name, sender netip.Addr, to string) error {
			return errors.Join(sendWith("stranger")(ctx, name, netip.MustParseAddr("2001:db8::1"), to), honest(ctx, name, sender, to))
		}},
		"one that does":            {send: honest},
		"one that carries nothing": {send: func(context.Context, netip.Addr, netip.Addr, string) error { return nil }, times: 20, want: ErrUnconnected},
		"one that carries little":  {send: honest, times: 2 * (1 + forgedNames), want: ErrUnconnected},
		"one that refuses":         {send: func(context.Context, netip.Addr, netip.Addr, string) error { return errors.New("no") }, times: 20, want: ErrUnconnected},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			listening, end := context.WithCancel(t.Context())
			go func() { ended <- Listen(listening, []string{address}, address, "word") }()
			for !connects(ctx, address) {
				select {
				case err := <-ended:
					t.Fatalf("it has ended: %v", err)
				case <-time.After(time.Millisecond):
				}
			}
			sent := 0
			err := sources(ctx, func(ctx context.Context, name, sender netip.Addr, to string) error {
				if sent++; sent == tc.times {
					cancel()
				}
				return tc.send(ctx, name, sender, to)
			}, address, address, 10*time.Millisecond)
			if !errors.Is(err, tc.want) || tc.want != nil && ExitCode(err) != ExitCode(tc.want) || tc.want == nil && err != nil {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			end()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
	if forged < forgedNames {
		t.Errorf("it was sent in the names of %d others", forged)
	}
}
