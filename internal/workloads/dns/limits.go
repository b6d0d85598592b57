package dns

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const (
	// window is the time in which questions of a tenant are counted.
	window = 100 * time.Millisecond
	// maxConnections is how many connections by TCP there are, and maxConnectionsOne how many of one tenant, or of all
	// unidentified clients together.
	maxConnections    = 1024
	maxConnectionsOne = 64
	// writeTimeout is how long a client may take to read an answer by TCP.
	writeTimeout = 2 * time.Second
)

// party is who shares a limit: a tenant or, if the client is not identified, its address.
type party struct {
	tenant  tenantID
	address netip.Addr
}

func (s *server) partyOf(address netip.Addr) party {
	if n, ok := s.host.clientAt(address); ok {
		return party{tenant: idOf(n)}
	}
	return party{address: address}
}

// isUnknown reports whether the client is not identified.
func (p party) isUnknown() bool { return p.address.IsValid() }

// rates counts what each party asks within a window. Beyond its limit, questions are dropped before they are decoded,
// which costs less than to answer them: who floods the server fills nobody's queue.
type rates struct {
	most int

	mu    sync.Mutex
	ends  time.Time
	asked map[party]int
}

// newRates returns the limits for so many questions a second.
func newRates(perSecond int) *rates {
	return &rates{most: max(1, int(time.Duration(perSecond)*window/time.Second)), asked: map[party]int{}}
}

// allow counts one more question, and reports whether it is within the limit.
func (r *rates) allow(p party, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !now.Before(r.ends) {
		r.ends = now.Add(window)
		clear(r.asked)
	}
	r.asked[p]++
	return r.asked[p] <= r.most
}

// admits reports whether a question of a client is accepted. One that may be in another's name does not count as that
// one's.
func (s *server) admits(remote net.Addr) bool {
	address, tcp := addressOf(remote)
	p := party{address: address}
	if s.trusts(address, tcp) {
		p = s.partyOf(address)
	}
	if s.rates.allow(p, time.Now()) {
		return true
	}
	countDropped()
	return false
}

// errTooMany is that a client asks more than it may.
var errTooMany = errors.New("too many questions")

// reader accepts the questions that are within the limits.
type reader struct {
	dns.Reader
	server *server
}

// ReadUDP implements dns.Reader.
func (r reader) ReadUDP(conn *net.UDPConn, timeout time.Duration) ([]byte, *dns.SessionUDP, error) {
	for {
		m, session, err := r.Reader.ReadUDP(conn, timeout)
		if err != nil || r.server.admits(session.RemoteAddr()) {
			return m, session, err
		}
	}
}

// ReadTCP implements dns.Reader. A client that asks more than it may has to connect again.
func (r reader) ReadTCP(conn net.Conn, timeout time.Duration) ([]byte, error) {
	m, err := r.Reader.ReadTCP(conn, timeout)
	if err != nil {
		return m, err
	}
	if c, ok := conn.(*connection); ok && !c.listener.settle(c) || !r.server.admits(conn.RemoteAddr()) {
		return nil, errTooMany
	}
	return m, nil
}

// listener accepts a number of connections of each tenant, and the same number of all unidentified clients together.
// When there are none left, the party with the most loses its oldest to one with fewer.
type listener struct {
	net.Listener
	server *server

	mu sync.Mutex
	// all is how many there are, and unknown how many of unidentified clients.
	all, unknown int
	// open are those of each party, the oldest first.
	open map[party][]*connection
	// begun is how many there have been.
	begun uint64
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		address, _ := addressOf(conn.RemoteAddr())
		c := &connection{Conn: conn, listener: l, address: address}
		displaced, ok := l.begin(c)
		if displaced != nil {
			countDropped()
			_ = displaced.Conn.Close()
		}
		if ok {
			return c, nil
		}
		countDropped()
		_ = conn.Close()
	}
}

// begin counts a connection, if there is a place for it. Another one may have lost its own.
func (l *listener) begin(c *connection) (displaced *connection, ok bool) {
	p := l.server.partyOf(c.address)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open[p]) >= maxConnectionsOne {
		return nil, false
	}
	amongUnknown := p.isUnknown() && l.unknown >= maxConnectionsOne
	if amongUnknown || l.all >= maxConnections {
		if displaced = l.oldestOfMost(amongUnknown); displaced == nil || len(l.open[displaced.party]) <= len(l.open[p]) {
			return nil, false
		}
		l.remove(displaced)
	}
	l.begun++
	c.party, c.number = p, l.begun
	l.add(c)
	return displaced, true
}

// oldestOfMost returns the oldest connection of the party with the most, among those that are unknown or all.
func (l *listener) oldestOfMost(amongUnknown bool) *connection {
	var found *connection
	most := 0
	for p, of := range l.open {
		if amongUnknown && !p.isUnknown() || len(of) < most || len(of) == most && found.number < of[0].number {
			continue
		}
		found, most = of[0], len(of)
	}
	return found
}

// settle counts a connection for whose it is by now, and reports whether it may stay. A pod may have connected before
// the host has told of its address.
func (l *listener) settle(c *connection) bool {
	p := l.server.partyOf(c.address)
	l.mu.Lock()
	defer l.mu.Unlock()
	if p == c.party {
		return true
	}
	if !l.remove(c) || len(l.open[p]) >= maxConnectionsOne || p.isUnknown() && l.unknown >= maxConnectionsOne {
		return false
	}
	c.party = p
	l.add(c)
	return true
}

func (l *listener) add(c *connection) {
	l.open[c.party] = append(l.open[c.party], c)
	l.count(c.party, 1)
}

// remove takes a connection out, and reports whether it was there.
func (l *listener) remove(c *connection) bool {
	i := slices.Index(l.open[c.party], c)
	if i < 0 {
		return false
	}
	if l.open[c.party] = slices.Delete(l.open[c.party], i, i+1); len(l.open[c.party]) == 0 {
		delete(l.open, c.party)
	}
	l.count(c.party, -1)
	return true
}

func (l *listener) count(p party, n int) {
	l.all += n
	if p.isUnknown() {
		l.unknown += n
	}
}

// connection is one whose client has to read what it is sent.
type connection struct {
	net.Conn
	listener *listener
	address  netip.Addr

	// These are the listener's.
	party  party
	number uint64
}

// Write implements net.Conn.
func (c *connection) Write(b []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.listener.mu.Lock()
	c.listener.remove(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}
