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
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/search/graphql"
	"github.com/tenantry/tenantry/internal/tenant"
)

// connection is one web socket.
type connection struct {
	handler http.Handler
	conn    *websocket.Conn
	// request is what all requests by the connection are made of.
	request *http.Request
	// who its user is, nil before that is known.
	who *caller

	out chan message
	// room is that of its tenant, and held what it holds of that of all tenants.
	room *socketRoom
	held *holder
	// expelled ends when it is to end because all hold too much.
	expelled context.Context
	expel    context.CancelFunc
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
	c := &connection{handler: handler, request: own, out: make(chan message, maxMessages), operations: map[string]context.CancelFunc{}, patience: patience}
	c.expelled, c.expel = context.WithCancel(context.WithoutCancel(req.Context()))
	return c
}

// serve has the handler serve a request of the connection's user.
func (c *connection) serve(ctx context.Context, op *operation) (answer *reply) {
	fresh := *tenant.RequestFrom(c.request.Context()) // it notes what is decided about one request
	ctx = withOperation(tenant.WithRequest(ctx, &fresh), op)
	defer func() {
		if cause := recover(); cause != nil { // as the server of a connection would do
			klog.ErrorS(nil, "Search: a request by web socket has ended in a panic", "cause", cause)
			answer = &reply{status: http.StatusInternalServerError}
		}
	}()
	return replyOf(c.handler, c.request.Clone(ctx))
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
		if answer := c.look(ctx); answer.status != http.StatusOK {
			if answer.refuses() {
				c.close(closeForbidden, "the credentials are not accepted")
			} else {
				c.close(websocket.StatusTryAgainLater, answer.message())
			}
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

// run reads messages until the connection ends, or its credentials do.
func (c *connection) run(ctx context.Context, cancel context.CancelFunc, s *sockets) {
	defer c.forget()
	defer c.running.Wait()
	defer cancel()
	defer context.AfterFunc(c.expelled, func() {
		c.endAll()
		c.close(closeTooMany, tooMuch)
		cancel()
	})()
	c.running.Go(func() { c.writeAll(ctx) })
	c.running.Go(func() { c.renew(ctx, cancel, s) })
	for {
		m, err := c.read(ctx)
		if err != nil || c.room.messages.Wait(ctx) != nil {
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
	op := &operation{body: m.Payload, hold: c.held.add}
	var err error
	if op.request, op.errors, err = c.room.parse(ctx, op.body); err != nil {
		return // the client has ended it
	}
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

// endAll ends all operations, so that what they know is free before the client is told.
func (c *connection) endAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cancel := range c.operations {
		cancel()
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
	bytes, release := int64(len(m.Payload)), m.release
	c.held.add(bytes)
	m.release = func() {
		c.held.add(-bytes)
		release()
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
