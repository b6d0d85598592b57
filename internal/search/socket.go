package search

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/process/ratelimit"
	"github.com/tenantry/tenantry/internal/search/graphql"
	"github.com/tenantry/tenantry/internal/tenant"
)

// protocol is that of subscriptions by web socket.
const protocol = "graphql-transport-ws"

// What a web socket may take.
const (
	// initTimeout is for how long a client without credentials in its request may be before it sends some, and
	// maxUnknown how many such clients there are at once. Of one address there are no more than there is room for others.
	initTimeout = 10 * time.Second
	maxUnknown  = 200
	// maxFirst is how many bytes the first message has at most, which is read before anybody is known.
	maxFirst = 64 << 10
	// maxOperations is how many operations a connection has at once, and maxConnections how many connections
	// a tenant has on a server.
	maxOperations  = 10
	maxConnections = 20
	// maxMessages is how many messages wait to be written, and patience for how long a message waits for room. Who
	// does not read for that long is told to begin anew.
	maxMessages = 64
	patience    = 10 * time.Second
	// writeTimeout is for how long one message is written before the connection is closed.
	writeTimeout = 30 * time.Second
	// messagesPerSecond is how many messages of all connections of a tenant are read in a second, after the first
	// messageBurst.
	messagesPerSecond = 20
	messageBurst      = 100
)

// The codes with which the protocol closes connections.
const (
	closeBadRequest   websocket.StatusCode = 4400
	closeUnauthorized websocket.StatusCode = 4401
	closeForbidden    websocket.StatusCode = 4403
	closeNoProtocol   websocket.StatusCode = 4406
	closeTimeout      websocket.StatusCode = 4408
	closeDuplicate    websocket.StatusCode = 4409
	closeTooMany      websocket.StatusCode = 4429
)

// message is one of the protocol.
type message struct {
	ID      string          `json:"id,omitempty"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload,omitempty"`
	// release gives back the room that it takes while it waits to be written, nil if it takes none yet.
	release func()
}

// WithSockets serves web sockets on the path of GraphQL. What a client asks for by one is a request to handler, as
// if it had come alone: so it is authenticated, authorized, limited and audited as every other. It
// stands around authentication, because browsers send credentials in the first message.
func (s *Service) WithSockets(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path != GraphQLPath || !strings.EqualFold(req.Header.Get("Upgrade"), "websocket") {
			handler.ServeHTTP(w, req)
			return
		}
		s.sockets.serve(handler, w, req)
	})
}

// sockets are the web sockets of a server.
type sockets struct {
	unknown unauthenticated
	// renewal is between two looks at credentials.
	renewal time.Duration
	// ended is closed when the server ends.
	ended chan struct{}
	// open are the connections of each tenant, and what they have room for.
	open keyed.Map[tenant.Name, *socketRoom]
	// held is what those of all tenants hold.
	held held
}

// unauthenticated are clients that have not sent credentials yet.
type unauthenticated struct {
	all atomic.Int64
	of  keyed.Map[netip.Prefix, struct{}]
}

// enter counts one more until known is called, once or more often. There is no known if it has no room.
func (u *unauthenticated) enter(network netip.Prefix) (known func()) {
	_, own, leave := u.of.Use(network, func() struct{} { return struct{}{} })
	all := int(u.all.Add(1))
	known = sync.OnceFunc(func() {
		u.all.Add(-1)
		leave()
	})
	if room := maxUnknown - all; room < 0 || own > room+1 {
		known()
		return nil
	}
	return known
}

// parsing is held by those of all tenants who look what a message asks for: half of the cores, so that others have the
// rest.
var parsing = sync.OnceValue(func() *semaphore.Weighted { return semaphore.NewWeighted(parsers()) })

func parsers() int64 { return int64(max(1, runtime.GOMAXPROCS(0)/2)) }

// parse reads what a message asks for. The server gives it a seat later. It returns an error if ctx ends before its
// turn.
func (r *socketRoom) parse(ctx context.Context, body []byte) (operation *graphql.Operation, errs graphql.Errors, err error) {
	for _, turn := range []*semaphore.Weighted{r.parsing, parsing()} {
		if err := turn.Acquire(ctx, 1); err != nil {
			return nil, nil, err
		}
		defer turn.Release(1)
	}
	operation, errs = graphql.Parse(body)
	return operation, errs, nil
}

// socketRoom is what all connections of a tenant have together.
type socketRoom struct {
	// answers and others are how many bytes wait to be written to clients, who may not read: of answers to queries, for
	// which there is room before they are made, and of everything else.
	answers, others *semaphore.Weighted
	// messages is how many are read. Others wait where their sender notices it.
	messages *rate.Limiter
	// parsing is held by who looks what a message asks for, or waits for others' turn to do so.
	parsing *semaphore.Weighted
}

func newSocketRoom() *socketRoom {
	return &socketRoom{
		answers: semaphore.NewWeighted(2 * maxAnswer), others: semaphore.NewWeighted(maxAnswer), messages: rate.NewLimiter(messagesPerSecond, messageBurst),
		parsing: semaphore.NewWeighted(1),
	}
}

// tooMany is what the next client of a tenant is told.
var tooMany = fmt.Sprintf("the tenant has %d connections, and may not have more", maxConnections)

func (s *sockets) serve(handler http.Handler, w http.ResponseWriter, req *http.Request) {
	c := newConnection(handler, req)
	waits := req.Header.Get("Authorization") == "" && (req.TLS == nil || len(req.TLS.PeerCertificates) == 0)
	if !waits {
		if answer := c.look(req.Context()); answer.status != http.StatusOK {
			answer.copyTo(w)
			return
		}
		leave, refused := s.admit(c)
		if leave == nil {
			http.Error(w, refused, http.StatusTooManyRequests)
			return
		}
		defer leave()
	}
	known := func() {}
	if waits {
		if known = s.unknown.enter(ratelimit.Network(req.RemoteAddr)); known == nil {
			http.Error(w, "too many clients have not sent credentials yet; try again, or send them with the request", http.StatusServiceUnavailable)
			return
		}
		defer known()
	}
	var err error
	if c.conn, err = websocket.Accept(w, req, &websocket.AcceptOptions{Subprotocols: []string{protocol}}); err != nil {
		klog.V(4).InfoS("Search: no web socket", "err", err)
		return // the answer says why
	}
	defer c.conn.CloseNow() //nolint:errcheck // whoever has closed it knows why
	c.conn.SetReadLimit(maxFirst)
	if c.conn.Subprotocol() == "" {
		c.close(closeNoProtocol, "the subprotocol must be "+protocol)
		return
	}
	ctx, cancel := context.WithCancel(req.Context())
	defer cancel()
	if !c.begin(ctx) {
		return
	}
	c.conn.SetReadLimit(graphql.MaxBytes)
	if waits {
		known()
		leave, refused := s.admit(c)
		if leave == nil {
			c.close(closeTooMany, refused)
			return
		}
		defer leave()
	}
	c.run(ctx, cancel, s)
}

// admit gives a connection room until leave is called. Without leave, it returns why there is none.
func (s *sockets) admit(c *connection) (leave func(), refused string) {
	own, left := s.enter(c.who.tenant)
	if left == nil {
		return nil, tooMany
	}
	held := s.held.enter(c.who.tenant, c.expel)
	if held == nil {
		left()
		return nil, tooMuch
	}
	c.room, c.held = own, held
	return func() {
		held.leave()
		left()
	}, ""
}

// enter counts a connection of a tenant until leave is called, which is nil if there are too many.
func (s *sockets) enter(n tenant.Name) (own *socketRoom, leave func()) {
	own, connections, leave := s.open.Use(n, newSocketRoom)
	if connections > maxConnections {
		leave()
		return nil, nil
	}
	return own, leave
}
