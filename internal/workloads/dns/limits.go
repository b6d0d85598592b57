package dns

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const (
	// window is the time in which questions of a tenant are counted.
	window = 100 * time.Millisecond
	// maxConnections is how many connections by TCP there are, and maxConnectionsOne how many of one tenant.
	maxConnections    = 1024
	maxConnectionsOne = 64
	// writeTimeout is how long a client may take to read an answer by TCP.
	writeTimeout = 2 * time.Second
)

// party is who shares a limit: a tenant or, if it is not known whose an address is, the address.
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

// rates counts what each party asks within a window. Beyond its limit, questions are dropped as soon as they are read, which
// costs less than to answer them: who floods the server fills nobody's queue.
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

// admits reports whether a question of a client is read.
func (s *server) admits(remote net.Addr) bool {
	address, _ := addressOf(remote)
	if s.rates.allow(s.partyOf(address), time.Now()) {
		return true
	}
	countDropped()
	return false
}

// errTooMany is that a client asks more than it may.
var errTooMany = errors.New("too many questions")

// reader reads the questions that are within the limits.
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
	if err == nil && !r.server.admits(conn.RemoteAddr()) {
		return nil, errTooMany
	}
	return m, err
}

// listener accepts so many connections of each tenant.
type listener struct {
	net.Listener
	server *server

	mu   sync.Mutex
	all  int
	open map[party]int
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		address, _ := addressOf(conn.RemoteAddr())
		if end, ok := l.begin(l.server.partyOf(address)); ok {
			return &connection{Conn: conn, end: sync.OnceFunc(end)}, nil
		}
		countDropped()
		_ = conn.Close()
	}
}

func (l *listener) begin(p party) (end func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= maxConnections || l.open[p] >= maxConnectionsOne {
		return nil, false
	}
	l.all++
	l.open[p]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all--
		if l.open[p]--; l.open[p] == 0 {
			delete(l.open, p)
		}
	}, true
}

// connection is one whose client has to read what it is sent.
type connection struct {
	net.Conn
	end func()
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
	c.end()
	return c.Conn.Close()
}
