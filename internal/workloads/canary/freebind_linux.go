package canary

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// listenAs returns a socket that sends in the name of an address. Linux lets everybody do that, for which no capability
// is needed.
func listenAs(ctx context.Context, name netip.Addr) (net.PacketConn, error) {
	config := net.ListenConfig{Control: func(_, _ string, conn syscall.RawConn) error {
		var set error
		err := conn.Control(func(fd uintptr) {
			set = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1) // a descriptor
		})
		if err != nil {
			return err
		}
		return set
	}}
	conn, err := config.ListenPacket(ctx, "udp6", netip.AddrPortFrom(name, 0).String())
	if err != nil {
		return nil, fmt.Errorf("taking the name of %s: %w", name, err)
	}
	return conn, nil
}
