package main

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync"
)

// service passes connections on to servers in turn, and to the next one if a server takes none. What
// is connected stays so.
type service struct {
	listener net.Listener

	mu      sync.Mutex
	servers []string
	next    int
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
	s.mu.Lock()
	defer s.mu.Unlock()
	s.servers = nil
	for _, server := range servers {
		s.servers = append(s.servers, server.address)
	}
}

func (s *service) dial() (net.Conn, error) {
	s.mu.Lock()
	servers := slices.Clone(s.servers)
	s.next++
	first := s.next
	s.mu.Unlock()
	err := errors.New("there is no server")
	for i := range servers {
		var connection net.Conn
		if connection, err = net.Dial("tcp", servers[(first+i)%len(servers)]); err == nil {
			return connection, nil
		}
	}
	return nil, err
}

func (s *service) pass(here net.Conn) {
	there, err := s.dial()
	if err != nil {
		_ = here.Close()
		return
	}
	for from, to := range map[net.Conn]net.Conn{here: there, there: here} {
		go func() {
			_, _ = io.Copy(to, from)
			_ = to.Close()
			_ = from.Close()
		}()
	}
}
