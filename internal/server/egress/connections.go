package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/tenantry/tenantry/internal/process/files"
	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// maxConnections is how many connections the webhooks of a tenant have at once, and maxDials how many more requests
	// wait for one.
	maxConnections, maxDials = 64, 1024
	// maxIdle is with how many connections of a tenant each that is not used is closed at once: idle ones of one
	// webhook leave others room.
	maxIdle = maxConnections / 2
	// dialTimeout is how long a request waits for a connection, its turn included. Requests that have ended do not end
	// what they wait for.
	dialTimeout = 30 * time.Second
)

// connections are those of tenants' webhooks. They are files of the process, which clients and etcd need as well, so
// together they are a quarter of these at most.
var connections, allConnections = keyed.Turns[tenant.Name]{Each: maxConnections, Waiting: maxDials}, make(chan struct{}, files.Most()/4)

type dial = func(ctx context.Context, network, address string) (net.Conn, error)

// bounded connects by next for requests of handshakes.
func bounded(next dial) dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		h, ok := ctx.Value(handshakeKey{}).(*handshake)
		if !ok {
			return nil, errors.New("connecting to a tenant's webhook without the tenant")
		}
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		release, err := connections.Take(ctx, h.of, allConnections)
		if err != nil {
			return nil, err
		}
		conn, err := next(ctx, network, address)
		if err != nil {
			release()
			return nil, err
		}
		open, closed := context.WithCancel(context.WithoutCancel(ctx))
		return &connection{Conn: conn, handshake: h, open: open, close: sync.OnceFunc(func() { closed(); release() })}, nil
	}
}

// connection waits for the tenant's turn of handshakes when the webhook has answered, and not before: webhooks that do
// not answer keep no other waiting.
type connection struct {
	net.Conn
	handshake *handshake
	open      context.Context // until it is closed
	close     func()
}

// reached is a connection to an address that may be denied later.
type reached struct {
	net.Conn
	check func(ctx context.Context) error
}

// closeIfDenied closes a connection that is used again, as far as it has been made by dial, where webhooks of its
// tenant may not be at its address any more. What is asked then is asked by another connection, if there may be one.
func closeIfDenied(ctx context.Context, conn net.Conn) {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	if c, ok := conn.(*connection); ok {
		if r, ok := c.Conn.(*reached); ok && r.check(ctx) != nil {
			_ = c.Close()
		}
	}
}

// Read implements net.Conn.
func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		if err := c.handshake.answered(c.open); err != nil {
			return 0, err
		}
	}
	return n, err
}

// Close implements net.Conn.
func (c *connection) Close() error {
	defer c.close()
	return c.Conn.Close()
}
