package keystone

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	// maxLookups is how many tokens Keystone is asked about at once; it takes 50 to 120 ms of
	// its processor for each. maxOfClient is how many of these are for requests of one
	// address, and maxWaiting how many more of these wait, for up to maxWait.
	maxLookups  = 16
	maxOfClient = maxLookups / 2
	maxWaiting  = 256
	maxWait     = 3 * time.Second
)

type clientKey struct{}

// WithClient returns the request with its address in the context, for tokens.
func WithClient(req *http.Request) *http.Request {
	return req.WithContext(context.WithValue(req.Context(), clientKey{}, clientOf(req.RemoteAddr)))
}

// clientOf returns the address without its port. A host has a whole /64 of IPv6.
func clientOf(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return ""
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return ""
	}
	if address = address.Unmap(); address.Is4() {
		return address.String()
	}
	network, err := address.WithZone("").Prefix(64)
	if err != nil {
		return ""
	}
	return network.String()
}

// places share look-ups among clients: who sends tokens that nobody knows has a part of
// them, and waits for itself.
type places struct {
	all chan struct{}

	mu      sync.Mutex
	clients map[string]*client
}

type client struct {
	places chan struct{}
	// present is how many look-ups are done or wait.
	present int
}

func newPlaces() *places {
	return &places{all: make(chan struct{}, maxLookups), clients: make(map[string]*client)}
}

// acquire takes a place and reports whether there was one in time.
func (p *places) acquire(name string) (release func(), ok bool) {
	c := p.enter(name)
	if c == nil {
		return nil, false
	}
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	select {
	case c.places <- struct{}{}:
	case <-timer.C:
		p.leave(name, c)
		return nil, false
	}
	select {
	case p.all <- struct{}{}:
	case <-timer.C:
		<-c.places
		p.leave(name, c)
		return nil, false
	}
	return func() {
		<-p.all
		<-c.places
		p.leave(name, c)
	}, true
}

func (p *places) enter(name string) *client {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.clients[name]
	if c == nil {
		c = &client{places: make(chan struct{}, maxOfClient)}
		p.clients[name] = c
	}
	if c.present >= maxOfClient+maxWaiting {
		return nil
	}
	c.present++
	return c
}

func (p *places) leave(name string, c *client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.present--; c.present == 0 {
		delete(p.clients, name)
	}
}

// addressOf returns the client's address in the context of its request, empty if it is not known.
func addressOf(ctx context.Context) string {
	client, _ := ctx.Value(clientKey{}).(string)
	return client
}
