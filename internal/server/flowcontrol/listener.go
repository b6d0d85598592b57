package flowcontrol

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"

	"github.com/tenantry/tenantry/internal/process/keyed"
)

// WithConnections returns a listener whose connections can be closed for one of their requests, of which there are at most
// some at once, zero for usualConnections. net/http passes on no connections, but their addresses.
//
// A new connection has no user yet. At the limit, one from an address with few connections replaces one of the address with the most.
func WithConnections(l net.Listener, most int) net.Listener {
	if most == 0 {
		most = usualConnections()
	}
	return &listener{Listener: l, most: most, from: map[netip.Prefix]map[*connection]struct{}{}}
}

// usualConnections is half of the files that the process may have, for etcd and webhooks need some, too, or what is
// enough for a server.
func usualConnections() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return manyConnections
	}
	return int(min(limit.Cur/2, manyConnections))
}

type listener struct {
	net.Listener
	most int

	mu   sync.Mutex
	open int
	from map[netip.Prefix]map[*connection]struct{}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &connection{Conn: accepted, listener: l, from: network(accepted)}
		closed := l.enter(c)
		if closed == nil {
			return c, nil
		}
		closedConnections.Inc()
		_ = closed.Close() // it is of no use any longer
		if closed != c {
			return c, nil
		}
	}
}

// network returns where a connection comes from. Who has an address of IPv6 has all of its /64.
func network(conn net.Conn) netip.Prefix {
	from, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
	address := from.Addr().Unmap()
	bits := address.BitLen()
	if address.Is6() {
		bits /= 2
	}
	prefix, _ := address.Prefix(bits)
	return prefix
}

// enter counts a connection. It returns one that is to be closed for it, or itself if it has no place.
func (l *listener) enter(c *connection) (closed *connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.most {
		var fullest map[*connection]struct{}
		for _, others := range l.from {
			if len(others) > len(fullest) {
				fullest = others
			}
		}
		if len(l.from[c.from])+1 >= len(fullest) {
			return c
		}
		for closed = range fullest {
			break
		}
		l.leave(closed)
	}
	l.open++
	keyed.Set(l.from, c.from, c, struct{}{})
	return closed
}

// leave is called with the lock.
func (l *listener) leave(c *connection) {
	if _, ok := l.from[c.from][c]; ok {
		l.open--
		keyed.Delete(l.from, c.from, c)
	}
}

type connection struct {
	net.Conn
	listener *listener
	from     netip.Prefix
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.listener.mu.Lock()
	c.listener.leave(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

// LocalAddr implements net.Conn.
func (c *connection) LocalAddr() net.Addr { return address{c.Conn.LocalAddr(), c} }

// address is the local address of a connection.
type address struct {
	net.Addr
	of net.Conn
}

// disconnect closes the connection of a request.
func disconnect(ctx context.Context) {
	if local, ok := ctx.Value(http.LocalAddrContextKey).(address); ok {
		_ = local.of.Close() // it is of no use any longer
	}
}
