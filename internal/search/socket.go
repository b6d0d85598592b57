package search

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"golang.org/x/sync/semaphore"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/search/graphql"
	"github.com/tenantry/tenantry/internal/tenant"
)

// protocol is that of subscriptions by web socket.
const protocol = "graphql-transport-ws"

// What a web socket may take.
const (
	// initTimeout is for how long a client without credentials in its request may be before it sends some, and
	// maxUnknown how many such clients there are at once.
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
	// renewEvery is between two looks at whether the credentials still hold.
	renewEvery = 10 * time.Second
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
	unknown atomic.Int64
	// renewal is between two looks at credentials.
	renewal time.Duration
	// ended is closed when the server ends.
	ended chan struct{}
	// open are the connections of each tenant, and what they have room for.
	open keyed.Map[tenant.Name, *room]
}

// room is how many bytes wait to be written to all connections of a tenant, whose clients may not read: of answers to queries, for which
// there is room before they are made, and of everything else.
type room struct{ answers, others *semaphore.Weighted }

func newRoom() *room {
	return &room{answers: semaphore.NewWeighted(2 * maxAnswer), others: semaphore.NewWeighted(maxAnswer)}
}

func (s *sockets) serve(handler http.Handler, w http.ResponseWriter, req *http.Request) {
	c := newConnection(handler, req)
	waits := req.Header.Get("Authorization") == "" && (req.TLS == nil || len(req.TLS.PeerCertificates) == 0)
	if !waits {
		if answer := c.look(req.Context()); answer.status != http.StatusOK {
			answer.copyTo(w)
			return
		}
	} else {
		if s.unknown.Add(1) > maxUnknown {
			s.unknown.Add(-1)
			http.Error(w, "too many clients have not sent credentials yet; try again, or send them with the request", http.StatusServiceUnavailable)
			return
		}
		defer func() {
			if waits {
				s.unknown.Add(-1)
			}
		}()
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
		s.unknown.Add(-1)
		waits = false
	}
	var leave func()
	if c.room, leave = s.enter(c.who.tenant); leave == nil {
		c.close(closeTooMany, fmt.Sprintf("the tenant has %d connections, and may not have more", maxConnections))
		return
	}
	defer leave()
	c.run(ctx, cancel, s)
}

// enter counts a connection of a tenant until leave is called, which is nil if there are too many.
func (s *sockets) enter(n tenant.Name) (own *room, leave func()) {
	own, connections, leave := s.open.Use(n, newRoom)
	if connections > maxConnections {
		leave()
		return nil, nil
	}
	return own, leave
}

// connection is one web socket.
type connection struct {
	handler http.Handler
	conn    *websocket.Conn
	// request is what all requests by the connection are made of.
	request *http.Request
	// who its user is, nil before that is known.
	who *caller

	out chan message
	// room is that of its tenant.
	room *room
	// patience is for how long a message waits for room.
	patience time.Duration

	mu sync.Mutex
	// operations are what goes on, by their ids. late are those whose client has not read.
	operations map[string]context.CancelFunc
	late       []string
	running    sync.WaitGroup
}

func newConnection(handler http.Handler, req *http.Request) *connection {
	own := req.Clone(req.Context())
	own.Method, own.Body, own.ContentLength = http.MethodGet, http.NoBody, 0
	for name := range own.Header {
		if name == "Upgrade" || name == "Connection" || strings.HasPrefix(name, "Sec-Websocket-") {
			own.Header.Del(name)
		}
	}
	return &connection{handler: handler, request: own, out: make(chan message, maxMessages), operations: map[string]context.CancelFunc{}, patience: patience}
}

// serve has the handler serve a request of the connection's user.
func (c *connection) serve(ctx context.Context, op *operation) (answer *buffered) {
	answer = &buffered{header: http.Header{}, status: http.StatusOK}
	fresh := *tenant.RequestFrom(c.request.Context()) // it notes what is decided about one request
	ctx = withOperation(tenant.WithRequest(ctx, &fresh), op)
	defer func() {
		if cause := recover(); cause != nil { // as the server of a connection would do
			klog.ErrorS(nil, "Search: a request by web socket has ended in a panic", "cause", cause)
			answer.status = http.StatusInternalServerError
		}
	}()
	c.handler.ServeHTTP(answer, c.request.Clone(ctx))
	return answer
}

// look asks who the user of the connection is, and whether the user may still ask.
func (c *connection) look(ctx context.Context) *buffered {
	op := &operation{}
	answer := c.serve(ctx, op)
	if answer.status == http.StatusOK && (op.who == nil || c.who != nil && !c.who.equals(op.who)) {
		answer.status = http.StatusForbidden
	}
	if answer.status == http.StatusOK {
		c.who = op.who
	}
	return answer
}

// begin waits for the first message. It returns false if the connection has been closed.
func (c *connection) begin(ctx context.Context) bool {
	waiting, cancel := context.WithTimeout(ctx, initTimeout)
	defer cancel()
	first, err := c.read(waiting)
	switch {
	case waiting.Err() != nil:
		c.close(closeTimeout, "connection_init has not come")
		return false
	case err != nil:
		return false
	case first.Type != "connection_init":
		c.close(closeUnauthorized, "the first message must be connection_init")
		return false
	}
	if c.who == nil {
		c.request.Header.Set("Authorization", credentialIn(first.Payload, "headers"))
		if c.look(ctx).status != http.StatusOK {
			c.close(closeForbidden, "the credentials are not accepted")
			return false
		}
	}
	return c.write(ctx, message{Type: "connection_ack"}) == nil
}

// read reads a message. After an error the connection is closed.
func (c *connection) read(ctx context.Context) (message, error) {
	var m message
	_, data, err := c.conn.Read(ctx)
	if err == nil {
		if err = json.Unmarshal(data, &m); err != nil {
			c.close(closeBadRequest, "a message is no JSON of the protocol")
		}
	}
	return m, err
}

// credentialIn returns what the payload of connection_init has for the header Authorization, by whatever case, or what it
// has below a key. It is read before anybody is known, so no deeper.
func credentialIn(payload json.RawMessage, below string) string {
	var all map[string]json.RawMessage
	if json.Unmarshal(payload, &all) != nil {
		return ""
	}
	for _, key := range sortedKeys(all) {
		var value string
		switch {
		case strings.EqualFold(key, "authorization") && json.Unmarshal(all[key], &value) == nil:
			return withScheme(value)
		case key == below && below != "":
			if value = credentialIn(all[key], ""); value != "" {
				return value
			}
		}
	}
	return ""
}

// withScheme returns a credential as the header has it. The console sends tokens alone.
func withScheme(credential string) string {
	credential = strings.TrimSpace(credential)
	if credential == "" || strings.Contains(credential, " ") {
		return credential
	}
	return "Bearer " + credential
}

// run reads messages until the connection ends, or its credentials do.
func (c *connection) run(ctx context.Context, cancel context.CancelFunc, s *sockets) {
	defer c.forget()
	defer c.running.Wait()
	defer cancel()
	c.running.Go(func() { c.writeAll(ctx) })
	c.running.Go(func() { c.renew(ctx, cancel, s) })
	for {
		m, err := c.read(ctx)
		if err != nil {
			return
		}
		switch m.Type {
		case "ping":
			if c.send(ctx, message{Type: "pong", Payload: m.Payload}) != nil {
				return
			}
		case "pong":
		case "subscribe":
			if !c.subscribe(ctx, m) {
				return
			}
		case "complete":
			c.end(m.ID)
		default:
			c.close(closeBadRequest, fmt.Sprintf("there is no message of type %.40q", m.Type))
			return
		}
	}
}

// renew looks at the credentials from time to time, and ends the connection when they do not hold any more, when
// the client has gone, or when the server ends.
func (c *connection) renew(ctx context.Context, cancel context.CancelFunc, s *sockets) {
	ticker := time.NewTicker(s.renewal)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-s.ended:
			c.close(websocket.StatusGoingAway, "the server ends")
			cancel()
			return
		case <-ctx.Done():
			return
		}
		if status := c.look(ctx).status; status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusNotFound {
			c.close(closeForbidden, "the credentials do not hold any more")
			cancel()
			return
		}
		alive, stop := context.WithTimeout(ctx, writeTimeout)
		err := c.conn.Ping(alive)
		stop()
		if err != nil {
			cancel()
			return
		}
	}
}

// subscribe begins an operation. It returns false if the connection has been closed.
func (c *connection) subscribe(ctx context.Context, m message) bool {
	c.mu.Lock()
	_, known := c.operations[m.ID]
	many := len(c.operations) >= maxOperations
	own := ctx
	if !known && !many {
		own, c.operations[m.ID] = context.WithCancel(ctx)
	}
	c.mu.Unlock()
	switch {
	case known || m.ID == "":
		c.close(closeDuplicate, fmt.Sprintf("there is a subscriber for %.40q already", m.ID))
		return false
	case many:
		return c.send(ctx, failed(m.ID, graphql.Refused("the connection has %d operations, and may not have more", maxOperations))) == nil
	}
	c.running.Go(func() {
		defer c.end(m.ID)
		c.operate(own, m)
	})
	return true
}

// operate serves an operation, and says how it has ended.
func (c *connection) operate(ctx context.Context, m message) {
	op := &operation{body: m.Payload}
	reserved := int64(0)
	release := func(bytes int64) {
		c.room.answers.Release(bytes)
		reserved -= bytes
	}
	op.reserve = func(ctx context.Context) error {
		err := c.room.answers.Acquire(ctx, maxAnswer)
		if err == nil {
			reserved = maxAnswer
		}
		return err
	}
	op.next = func(ctx context.Context, answer json.RawMessage) error {
		next := message{ID: m.ID, Type: "next", Payload: answer}
		if reserved > 0 {
			release(reserved - min(reserved, int64(len(answer)))) // it seldom needs all of it
			size := reserved
			next.release = func() { c.room.answers.Release(size) }
			reserved = 0
		}
		return c.send(ctx, next)
	}
	answer := c.serve(ctx, op)
	release(reserved)
	switch {
	case errors.Is(op.err, errLate):
		c.mu.Lock()
		c.late = append(c.late, m.ID)
		c.mu.Unlock()
	case ctx.Err() != nil: // the client has ended it
	case op.errors != nil:
		_ = c.send(ctx, failed(m.ID, op.errors))
	case answer.status != http.StatusOK:
		_ = c.send(ctx, failed(m.ID, graphql.Refused("%s", answer.message())))
	default:
		_ = c.send(ctx, message{ID: m.ID, Type: "complete"})
	}
}

func failed(id string, errs graphql.Errors) message {
	encoded, _ := json.Marshal(errs) // text is always encoded
	return message{ID: id, Type: "error", Payload: encoded}
}

func (c *connection) end(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cancel, ok := c.operations[id]; ok {
		cancel()
		delete(c.operations, id)
	}
}

// errLate means that the client has not read for so long that it is to begin anew.
var errLate = errors.New("the client does not read")

// send has a message written, when there is room for it.
func (c *connection) send(ctx context.Context, m message) (err error) {
	if m.release == nil {
		waiting, cancel := context.WithTimeout(ctx, c.patience)
		defer cancel()
		size := int64(min(len(m.Payload), maxAnswer))
		if c.room.others.Acquire(waiting, size) != nil {
			return cmp.Or(ctx.Err(), errLate)
		}
		m.release = func() { c.room.others.Release(size) }
	}
	defer func() {
		if err != nil {
			m.release()
		}
	}()
	select {
	case c.out <- m:
		return nil
	default:
	}
	timer := time.NewTimer(c.patience)
	defer timer.Stop()
	select {
	case c.out <- m:
		return nil
	case <-timer.C:
		return errLate
	case <-ctx.Done():
		return ctx.Err()
	}
}

// writeAll writes messages until ctx ends. To late clients it says so behind all that waits.
func (c *connection) writeAll(ctx context.Context) {
	for {
		select {
		case m := <-c.out:
			err := c.write(ctx, m)
			m.release()
			if err != nil {
				_ = c.conn.CloseNow()
				return
			}
		case <-ctx.Done():
			return
		}
		if len(c.out) > 0 {
			continue
		}
		c.mu.Lock()
		late := c.late
		c.late = nil
		c.mu.Unlock()
		for _, id := range late {
			if c.write(ctx, failed(id, resync())) != nil {
				return
			}
		}
	}
}

// forget gives back the room of what nobody writes any more.
func (c *connection) forget() {
	for len(c.out) > 0 {
		m := <-c.out
		m.release()
	}
}

// resync tells a client that it does not know what has changed meanwhile.
func resync() graphql.Errors {
	errs := graphql.Refused("changes were lost, because the client did not read them for %s; search anew and subscribe again", patience)
	errs[0].Extensions = map[string]any{"code": "RESYNC"}
	return errs
}

func (c *connection) write(ctx context.Context, m message) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return wsjson.Write(ctx, c.conn, m)
}

// close closes the connection with a reason, of which the protocol takes 123 bytes.
func (c *connection) close(code websocket.StatusCode, reason string) {
	_ = c.conn.Close(code, reason[:min(len(reason), 120)])
}
