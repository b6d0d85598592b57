package harness

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync"
)

// Service is what a Service of a cluster is: it leads connections to servers in turn, and to the next one if
// a server takes none. What is connected stays so.
type Service struct {
	mu      sync.Mutex
	servers []string
	next    int
}

// Set says to which servers new connections lead.
func (s *Service) Set(addresses ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.servers = addresses
}

// Dial connects to the next server that takes connections.
func (s *Service) Dial() (net.Conn, error) {
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

// Join passes what comes from either connection to the other, until one ends.
func Join(here, there net.Conn) {
	for from, to := range map[net.Conn]net.Conn{here: there, there: here} {
		go func() {
			_, _ = io.Copy(to, from)
			_ = to.Close()
			_ = from.Close()
		}()
	}
}
