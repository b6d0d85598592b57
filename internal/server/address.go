package server

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// CheckBindAddress returns an error if an address is another machine's. Who listens at a port there would be told so of
// the port.
func CheckBindAddress(ip net.IP) error {
	listener, err := net.Listen("tcp", net.JoinHostPort(ip.String(), "0"))
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		return fmt.Errorf("--bind-address: %s is no address of this machine: name one that it has, or 0.0.0.0 or :: for all", ip)
	}
	if err == nil {
		return listener.Close()
	}
	return nil // the port may say more
}
