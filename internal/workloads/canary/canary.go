package canary

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/tenantry/tenantry/internal/process/signal"
)

const (
	// dialTimeout is how long a connection may take. What a policy denies is often answered by nothing at all.
	dialTimeout = 2 * time.Second
	// rounds is how often in a row the policies must have been enforced.
	rounds = 3
	// Patience is how long a host may take until its network and its policies are what they are to be.
	Patience = time.Minute
	// seenTimeout is how long DNS may take to answer.
	seenTimeout = 5 * time.Second
	// pause is between two rounds.
	pause = 500 * time.Millisecond
)

var (
	// ErrUnenforced is that a connection was made that must not be.
	ErrUnenforced = errors.New("the host cluster does not enforce network policies")
	// ErrUnconnected is that the connection was not made that must be.
	ErrUnconnected = errors.New("the canaries do not reach each other")
	// errSeldom is that nothing was wrong in the last round, and something in those before it, or that there were few.
	errSeldom = fmt.Errorf("%w often enough in a row", ErrUnconnected)
	// ErrHidden is that the host hides the addresses of pods on the way to Services.
	ErrHidden = errors.New("the host cluster hides the addresses of pods from DNS")
)

// ClientName is the name whose TXT record is the address from which it is asked for, for everybody who asks "tenantry
// dns".
const ClientName = "client-address.cluster.local."

// The exit codes of the process that connects.
const (
	Enforced    = 0
	Unenforced  = 3
	Unconnected = 4
	Hidden      = 5
	Unchecked   = 6
)

// ExitCode returns the exit code of a process that ends with an error, 1 for those that are not of this package.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return Enforced
	case errors.Is(err, ErrUnenforced):
		return Unenforced
	case errors.Is(err, ErrUnconnected):
		return Unconnected
	case errors.Is(err, ErrHidden):
		return Hidden
	case errors.Is(err, ErrUnchecked):
		return Unchecked
	default:
		return 1
	}
}

// Listen accepts connections on all addresses until ctx ends, says what packets with a word have arrived at one more,
// if that is not empty, and closes them.
func Listen(ctx context.Context, addresses []string, packets, word string) error {
	var config net.ListenConfig
	r := received{word: word}
	failed := make(chan error, len(addresses)+1)
	if packets != "" {
		conn, err := config.ListenPacket(ctx, "udp", packets)
		if err != nil {
			return fmt.Errorf("listening on %s: %w", packets, err)
		}
		defer func() { _ = conn.Close() }()
		go func() { failed <- r.listen(conn) }()
	}
	for _, address := range addresses {
		listener, err := config.Listen(ctx, "tcp", address)
		if err != nil {
			return fmt.Errorf("listening on %s: %w", address, err)
		}
		defer func() { _ = listener.Close() }()
		go func() { failed <- accept(listener, &r) }()
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

func accept(listener net.Listener, r *received) error {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return fmt.Errorf("accepting connections: %w", err)
		}
		_, _ = conn.Write([]byte{r.report()}) // an empty buffer takes it
		_ = conn.Close()
	}
}

// connects reports whether a connection can be made.
func connects(ctx context.Context, address string) bool {
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// Dial returns nil once a connection to the first address can be made, and none to the others, some times in a row. If
// that is not so before ctx ends, it returns what the last round has shown: ErrUnenforced if a connection was made that
// must not be, and else ErrUnconnected, by which nothing is known.
func Dial(ctx context.Context, allowed string, denied []string) error {
	// A round comes to its end: one that was interrupted would look as if nothing could be reached.
	whole := context.WithoutCancel(ctx)
	return dial(ctx, func(address string) bool { return connects(whole, address) }, allowed, denied, pause)
}

func dial(ctx context.Context, connects func(address string) bool, allowed string, denied []string, pause time.Duration) error {
	enforced := 0
	for {
		err := round(connects, allowed, denied)
		if err == nil {
			if enforced++; enforced == rounds {
				return nil
			}
			err = errSeldom
		} else {
			enforced = 0
		}
		if _ = signal.Pause(ctx, pause); ctx.Err() != nil { // it may have ended at the same time
			return err
		}
	}
}

// Seen returns ErrHidden if DNS at an address sees this pod by an address that is none of its own, as where the network
// has it in the name of its node: then it cannot be known whose pod it is. What does not answer has not been seen.
func Seen(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, seenTimeout)
	defer cancel()
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	told, err := resolver.LookupTXT(ctx, ClientName)
	if err != nil || len(told) != 1 {
		return nil
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("looking for the addresses of this pod: %w", err)
	}
	for _, a := range own {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr().String() == told[0] {
			return nil
		}
	}
	return ErrHidden
}

// round reaches the allowed address before and after the others: that one of these is not reached says something only
// while the network carries connections.
func round(connects func(address string) bool, allowed string, denied []string) error {
	if !connects(allowed) {
		return ErrUnconnected
	}
	if slices.ContainsFunc(denied, connects) {
		return ErrUnenforced
	}
	if !connects(allowed) {
		return ErrUnconnected
	}
	return nil
}
