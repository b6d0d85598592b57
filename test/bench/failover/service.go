package main

import (
	"net"

	"github.com/tenantry/tenantry/test/harness"
)

// service leads connections to servers.
type service struct {
	listener net.Listener
	to       harness.Service
}

func startService() (*service, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return nil, err
	}
	s := &service{listener: listener}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go s.pass(connection)
		}
	}()
	return s, nil
}

func (s *service) address() string { return s.listener.Addr().String() }

// set says which servers new connections go to.
func (s *service) set(servers []*server) {
	var addresses []string
	for _, server := range servers {
		addresses = append(addresses, server.address)
	}
	s.to.Set(addresses...)
}

func (s *service) pass(here net.Conn) {
	there, err := s.to.Dial()
	if err != nil {
		_ = here.Close()
		return
	}
	harness.Join(here, there)
}
