package flowcontrol

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/process/files"
	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/process/ratelimit"
	"github.com/tenantry/tenantry/internal/tenant"
)

// WithConnections returns a listener whose connections can be closed for one of their requests, of which there are at
// most some at once, zero for usualConnections. net/http passes on no connections, but their addresses.
//
// A new connection has no user yet. At the limit, one from an address with few connections replaces one of the address
// with the most: of those without a user, unless more than three quarters of all have one.
func WithConnections(l net.Listener, most int) net.Listener {
	if most == 0 {
		most = usualConnections()
	}
	return &listener{Listener: l, most: most, unauthenticated: newCrowd(), users: newCrowd()}
}

// usualConnections is half of the files that the process may have, for etcd and webhooks need some, too, or what is
// enough for a server.
func usualConnections() int { return min(files.Most()/2, manyConnections) }

type listener struct {
	net.Listener
	most int

	mu sync.Mutex
	// users are the connections of which a user has had a request authorized, unauthenticated all others. Those of this
	// process are neither.
	users, unauthenticated crowd
}

// crowd are connections by where they come from.
type crowd struct {
	size int
	from map[netip.Prefix]map[*connection]struct{}
}

func newCrowd() crowd { return crowd{from: map[netip.Prefix]map[*connection]struct{}{}} }

// fullest are the connections of the network that has the most.
func (c *crowd) fullest() (fullest map[*connection]struct{}) {
	for _, others := range c.from {
		if len(others) > len(fullest) {
			fullest = others
		}
	}
	return fullest
}

func (c *crowd) enter(one *connection) {
	c.size++
	keyed.Set(c.from, one.from, one, struct{}{})
}

func (c *crowd) leave(one *connection) (was bool) {
	if _, was = c.from[one.from][one]; was {
		c.size--
		keyed.Delete(c.from, one.from, one)
	}
	return was
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &connection{Conn: accepted, listener: l, from: ratelimit.Network(accepted.RemoteAddr().String())}
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

// enter counts a connection. It returns one that is to be closed for it, or itself if it has no place.
func (l *listener) enter(c *connection) (closed *connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users.size+l.unauthenticated.size >= l.most {
		among := &l.unauthenticated
		if l.users.size > l.most*3/4 {
			among = &l.users
		}
		fullest := among.fullest()
		if len(among.from[c.from])+1 >= len(fullest) {
			return c
		}
		for closed = range fullest {
			break
		}
		among.leave(closed)
	}
	l.unauthenticated.enter(c)
	return closed
}

// leave no longer counts a connection.
func (l *listener) leave(c *connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.unauthenticated.leave(c) {
		l.users.leave(c)
	}
}

// recognize notes that the connection of a request is a user's. That of this process to itself has its place whatever
// others do: its own informers have no other way. It is recognized by its tokens, because another user may have its
// name.
func recognize(ctx context.Context) {
	local, ok := ctx.Value(http.LocalAddrContextKey).(address)
	if !ok || local.of.recognized.Load() {
		return
	}
	u, ok := request.UserFrom(ctx)
	if !ok || slices.Contains(u.GetGroups(), user.AllUnauthenticated) || local.of.recognized.Swap(true) {
		return
	}
	l := local.of.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	r := tenant.RequestFrom(ctx)
	if l.unauthenticated.leave(local.of) && (r == nil || !r.Own) {
		l.users.enter(local.of)
	}
}

type connection struct {
	net.Conn
	listener   *listener
	from       netip.Prefix
	recognized atomic.Bool
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.listener.leave(c)
	return c.Conn.Close()
}

// LocalAddr implements net.Conn.
func (c *connection) LocalAddr() net.Addr { return address{c.Conn.LocalAddr(), c} }

// address is the local address of a connection.
type address struct {
	net.Addr
	of *connection
}

// disconnect closes the connection of a request.
func disconnect(ctx context.Context) {
	if local, ok := ctx.Value(http.LocalAddrContextKey).(address); ok {
		_ = local.of.Close() // it is of no use any longer
	}
}
