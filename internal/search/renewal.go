package search

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"
)

const (
	// renewEvery is between two looks at whether the credentials of a connection still hold, and maxUnconfirmed how
	// many times as long it lasts when nobody can say that.
	renewEvery     = 10 * time.Second
	maxUnconfirmed = 6
)

// look asks who the user of the connection is, and whether the user may still ask.
func (c *connection) look(ctx context.Context) *reply {
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

// renew looks at the credentials from time to time, and ends the connection when they do not hold any more, when nobody
// can say whether they do, when the client has gone, or when the server ends.
func (c *connection) renew(ctx context.Context, cancel context.CancelFunc, s *sockets) {
	defer cancel()
	confirmed, next := time.Now(), s.renewal
	for {
		select {
		case <-time.After(next):
		case <-s.ended:
			c.close(websocket.StatusGoingAway, "the server ends")
			return
		case <-ctx.Done():
			return
		}
		answer := c.look(ctx)
		left := maxUnconfirmed*s.renewal - time.Since(confirmed)
		switch {
		case answer.status == http.StatusOK:
			confirmed, next = time.Now(), s.renewal
		case answer.refuses():
			c.close(closeForbidden, "the credentials do not hold any more")
			return
		case left <= 0:
			c.close(websocket.StatusTryAgainLater, "it cannot be known whether the credentials still hold: "+answer.message())
			return
		default: // the server has too much to do, or something fails, which says nothing about them
			next = min(max(2*next, answer.retryAfter()), left)
		}
		alive, stop := context.WithTimeout(ctx, writeTimeout)
		err := c.conn.Ping(alive)
		stop()
		if err != nil {
			return
		}
	}
}

// credentialIn returns what the payload of connection_init has for the header Authorization, by whatever case, or what
// it has below a key. It is read before anybody is known, so no deeper.
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
