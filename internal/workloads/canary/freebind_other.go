//go:build !linux

package canary

import (
	"context"
	"errors"
	"net"
	"net/netip"
)

// listenAs returns an error: pods of hosts are on Linux.
func listenAs(context.Context, netip.Addr) (net.PacketConn, error) {
	return nil, errors.New("canaries run on Linux alone")
}
