package flowcontrol

import (
	"context"
	"net"
	"net/http"
)

// WithDisconnect returns a listener whose connections can be closed for one of their requests.
// net/http passes on no connections, but their addresses.
func WithDisconnect(l net.Listener) net.Listener { return listener{l} }

type listener struct{ net.Listener }

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return connection{accepted}, nil
}

type connection struct{ net.Conn }

// LocalAddr implements net.Conn.
func (c connection) LocalAddr() net.Addr { return address{c.Conn.LocalAddr(), c.Conn} }

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
