package keystone

import (
	"context"
	"net/http"
	"time"

	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/process/ratelimit"
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

// WithClient returns the request with its address in the context, for tokens. A host has a whole /64 of IPv6.
func WithClient(req *http.Request) *http.Request {
	return req.WithContext(context.WithValue(req.Context(), clientKey{}, ratelimit.Network(req.RemoteAddr).String()))
}

// places share look-ups among clients: who sends tokens that nobody knows has a part of
// them, and waits for itself.
type places struct {
	all     chan struct{}
	clients keyed.Turns[string]
}

func newPlaces() *places {
	return &places{all: make(chan struct{}, maxLookups), clients: keyed.Turns[string]{Each: maxOfClient, Waiting: maxWaiting}}
}

// acquire takes a place. Its error is that there was none in time, or that too many wait.
func (p *places) acquire(client string) (release func(), err error) {
	ctx, cancel := context.WithTimeout(context.Background(), maxWait)
	defer cancel()
	return p.clients.Take(ctx, client, p.all)
}

// addressOf returns the client's address in the context of its request, empty if it is not known.
func addressOf(ctx context.Context) string {
	client, _ := ctx.Value(clientKey{}).(string)
	return client
}
