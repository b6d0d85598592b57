package canary

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tenantry/tenantry/internal/process/signal"
)

// ErrUnchecked is that a packet has arrived in the name of an address that is not its sender's.
var ErrUnchecked = errors.New("the host cluster does not check in whose name pods send by UDP over IPv6")

// forgedNames is in the names of how many addresses beside its own a canary sends. Chosen: a plugin may know one of
// them for another pod's.
const forgedNames = 3

// The listener reports the packets that have arrived to everybody who connects.
const (
	receivedOwn byte = 1 << iota
	receivedForged
)

// received is which packets have arrived: in the sender's own name, and in another's. Each of them says both, behind a
// word that nobody else knows: whoever reaches the port would have the host look unchecked otherwise.
type received struct {
	word        string
	own, forged atomic.Bool
}

// note notes a packet, and from where it has come.
func (r *received) note(packet string, from netip.Addr) {
	word, names, _ := strings.Cut(packet, " ")
	name, sender, _ := strings.Cut(names, " ")
	switch {
	case word != r.word: // a stranger's
	case name != from.WithZone("").String(): // somebody has changed it on its way
	case name == sender:
		r.own.Store(true)
	default:
		r.forged.Store(true)
	}
}

// report returns what those who connect are told.
func (r *received) report() (all byte) {
	if r.own.Load() {
		all |= receivedOwn
	}
	if r.forged.Load() {
		all |= receivedForged
	}
	return all
}

// listen notes packets until conn is closed.
func (r *received) listen(conn net.PacketConn) error {
	buffer := make([]byte, 256)
	for {
		n, from, err := conn.ReadFrom(buffer)
		if err != nil {
			return fmt.Errorf("reading packets: %w", err)
		}
		if from, ok := from.(*net.UDPAddr); ok {
			r.note(string(buffer[:n]), from.AddrPort().Addr())
		}
	}
}

// ask asks the canary at an address what has arrived there.
func ask(ctx context.Context, address string) (byte, error) {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", address)
	if err != nil {
		return 0, fmt.Errorf("asking the other canary: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetReadDeadline(time.Now().Add(dialTimeout)); err != nil {
		return 0, fmt.Errorf("asking the other canary: %w", err)
	}
	report := []byte{0}
	if _, err := io.ReadFull(conn, report); err != nil {
		return 0, fmt.Errorf("asking the other canary: %w", err)
	}
	return report[0], nil
}

// Sources returns nil once packets of this pod have arrived some times in a row at an address of IPv6, and none in the
// name of another pod; ErrUnchecked if one of these has, and ErrUnconnected if nothing is known before ctx ends. The
// canary that listens there, by the same word, is asked at another address what has arrived.
func Sources(ctx context.Context, packets, answers, word string) error {
	return sources(ctx, sendWith(word), packets, answers, pause)
}

func sources(ctx context.Context, send func(ctx context.Context, name, sender netip.Addr, to string) error, packets, answers string, pause time.Duration) error {
	own, others, err := sendersOf(packets)
	if err != nil {
		return err
	}
	for arrived := 0; ; {
		for _, name := range others {
			_ = send(ctx, name, own, packets) // a kernel that refuses checks, too
		}
		err := send(ctx, own, own, packets)
		var report byte
		_ = signal.Pause(ctx, pause) // until they are there
		if err == nil {
			report, err = ask(context.WithoutCancel(ctx), answers)
		}
		switch {
		case report&receivedForged != 0:
			return ErrUnchecked
		case err == nil && report&receivedOwn != 0:
			if arrived++; arrived == rounds {
				return nil
			}
		default:
			arrived = 0
		}
		if ctx.Err() != nil {
			return errors.Join(fmt.Errorf("%w by UDP over IPv6", ErrUnconnected), err)
		}
	}
}

// sendersOf returns the address from which this pod sends to another one, and addresses beside it that may be those of
// others, but not of that one.
func sendersOf(to string) (own netip.Addr, others []netip.Addr, err error) {
	conn, err := net.Dial("udp6", to) // nothing is sent
	if err != nil {
		return own, nil, fmt.Errorf("looking for this pod's address of IPv6: %w", err)
	}
	defer func() { _ = conn.Close() }()
	addressOf := func(a net.Addr) netip.Addr {
		parsed, _ := netip.ParseAddrPort(a.String())
		return parsed.Addr().WithZone("")
	}
	own = addressOf(conn.LocalAddr())
	for i := byte(1); len(others) < forgedNames; i++ {
		bytes := own.As16()
		bytes[15] ^= i
		if other := netip.AddrFrom16(bytes); other != addressOf(conn.RemoteAddr()) {
			others = append(others, other)
		}
	}
	return own, others, nil
}

// sendWith returns what sends packets with a word.
func sendWith(word string) func(ctx context.Context, name, sender netip.Addr, to string) error {
	return func(ctx context.Context, name, sender netip.Addr, to string) error {
		return send(ctx, name, word+" "+name.String()+" "+sender.String(), to)
	}
}

// send sends a packet in the name of an address.
func send(ctx context.Context, name netip.Addr, packet, to string) error {
	conn, err := listenAs(ctx, name)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	address, err := net.ResolveUDPAddr("udp6", to)
	if err != nil {
		return fmt.Errorf("reading the address of the other canary: %w", err)
	}
	if _, err := conn.WriteTo([]byte(packet), address); err != nil {
		return fmt.Errorf("sending in the name of %s: %w", name, err)
	}
	return nil
}
