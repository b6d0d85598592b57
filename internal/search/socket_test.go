package search

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/process/ratelimit"
	"github.com/tenantry/tenantry/internal/search/index"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/until"
)

// socketFixture is a fixture behind a server, which knows one token, that of jane.
type socketFixture struct {
	*fixture
	url string
	// expired is whether the token has, and busy the status that all requests get instead, if it is not zero.
	expired atomic.Bool
	busy    atomic.Int64
	// asked is how often somebody has asked for something.
	asked atomic.Int64
}

func newSocketFixture(t *testing.T) *socketFixture {
	t.Helper()
	f := &socketFixture{fixture: newFixture(t)}
	f.service.watches.pause = time.Millisecond
	f.service.sockets.renewal = 10 * time.Millisecond
	searches := f.service.WithSearch(http.NotFoundHandler())
	authenticated := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		f.asked.Add(1)
		if status := f.busy.Load(); status != 0 {
			w.Header().Set("Retry-After", "0")
			http.Error(w, "busy", int(status))
			return
		}
		if req.Header.Get("Authorization") != "Bearer jane" || f.expired.Load() {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		u := &user.DefaultInfo{Name: "jane", Groups: []string{user.AllAuthenticated}, Extra: map[string][]string{tenant.UserExtraKey: {"acme"}}}
		tenant.RequestFrom(req.Context()).Authenticated = "acme"
		searches.ServeHTTP(w, req.WithContext(tenant.WithUID(request.WithUser(req.Context(), u), "acme", "1")))
	})
	sockets := f.service.WithSockets(authenticated)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		sockets.ServeHTTP(w, req.WithContext(tenant.WithRequest(req.Context(), &tenant.Request{})))
	}))
	t.Cleanup(server.Close)
	f.url = server.URL + GraphQLPath
	return f
}

// dial connects with headers, and returns the status if that fails.
func (f *socketFixture) dial(protocol string, headers ...string) (*websocket.Conn, int) {
	f.Helper()
	options := &websocket.DialOptions{HTTPHeader: http.Header{}}
	if protocol != "" {
		options.Subprotocols = []string{protocol}
	}
	for i := 0; i < len(headers); i += 2 {
		options.HTTPHeader.Set(headers[i], headers[i+1])
	}
	conn, response, err := websocket.Dial(f.Context(), f.url, options)
	if err != nil && response != nil {
		return nil, response.StatusCode
	}
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = conn.CloseNow() })
	return conn, 0
}

// say sends a message, and returns the type of the answer and its payload, or the code of the end of the connection.
func (f *socketFixture) say(conn *websocket.Conn, sent string) (string, string) {
	f.Helper()
	if err := conn.Write(f.Context(), websocket.MessageText, []byte(sent)); err != nil {
		f.Fatal(err)
	}
	return f.hear(conn)
}

func (f *socketFixture) hear(conn *websocket.Conn) (string, string) {
	f.Helper()
	var m message
	if err := wsjson.Read(f.Context(), conn, &m); err != nil {
		var closed websocket.CloseError
		if !errors.As(err, &closed) {
			f.Fatal(err)
		}
		return closed.Code.String(), closed.Reason
	}
	return m.Type, string(m.Payload)
}

const initByToken = `{"type":"connection_init","payload":{"Authorization":"jane"}}`

// begun returns a connection of jane.
func (f *socketFixture) begun() *websocket.Conn {
	f.Helper()
	conn, status := f.dial(protocol)
	if conn == nil {
		f.Fatal(status)
	}
	if typ, payload := f.say(conn, initByToken); typ != "connection_ack" {
		f.Fatal(typ, payload)
	}
	return conn
}

func TestSocketCredentials(t *testing.T) {
	f := newSocketFixture(t)
	for name, tc := range map[string]struct {
		protocol string
		headers  []string
		first    string
		want     string // the first answer, or how the connection ends
		status   int
	}{
		"by the first message":          {protocol: protocol, first: initByToken, want: "connection_ack"},
		"with its scheme":               {protocol: protocol, first: `{"type":"connection_init","payload":{"headers":{"authorization":"Bearer jane"}}}`, want: "connection_ack"},
		"by the header":                 {protocol: protocol, headers: []string{"Authorization", "Bearer jane"}, first: `{"type":"connection_init"}`, want: "connection_ack"},
		"a header that is wrong":        {protocol: protocol, headers: []string{"Authorization", "Bearer joe"}, status: http.StatusUnauthorized},
		"a message that is wrong":       {protocol: protocol, first: `{"type":"connection_init","payload":{"Authorization":"joe"}}`, want: closeForbidden.String()},
		"deeper than they may be":       {protocol: protocol, first: `{"type":"connection_init","payload":{"headers":{"headers":{"authorization":"Bearer jane"}}}}`, want: closeForbidden.String()},
		"more than a first message has": {protocol: protocol, first: `{"type":"connection_init","payload":{"Authorization":"jane","more":"` + strings.Repeat("x", maxFirst) + `"}}`, want: websocket.StatusMessageTooBig.String()},
		"no credentials":                {protocol: protocol, first: `{"type":"connection_init"}`, want: closeForbidden.String()},
		"another first message":         {protocol: protocol, first: `{"type":"subscribe","id":"1","payload":{"query":"{ messages { id } }"}}`, want: closeUnauthorized.String()},
		"no message":                    {protocol: protocol, first: `what`, want: closeBadRequest.String()},
		"another protocol":              {protocol: "graphql-ws", want: closeNoProtocol.String()},
		"a page of this server":         {protocol: protocol, headers: []string{"Origin", strings.TrimSuffix(f.url, GraphQLPath)}, first: initByToken, want: "connection_ack"},
		"a page of another site":        {protocol: protocol, headers: []string{"Origin", "https://example.com"}, status: http.StatusForbidden},
		"another site, and the header":  {protocol: protocol, headers: []string{"Origin", "https://example.com", "Authorization", "Bearer jane"}, status: http.StatusForbidden},
	} {
		conn, status := f.dial(tc.protocol, tc.headers...)
		if status != tc.status {
			t.Errorf("%s: status %d, want %d", name, status, tc.status)
			continue
		}
		if conn == nil {
			continue
		}
		typ := ""
		if tc.first == "" {
			typ, _ = f.hear(conn)
		} else {
			typ, _ = f.say(conn, tc.first)
		}
		if typ != tc.want {
			t.Errorf("%s: %s, want %s", name, typ, tc.want)
		}
	}
}

func TestSocketMessages(t *testing.T) {
	f := newSocketFixture(t)
	conn := f.begun()
	for sent, want := range map[string][2]string{
		`{"type":"ping","payload":{"a":1}}`:                                                                                                                 {"pong", `{"a":1}`},
		`{"type":"subscribe","id":"wrong","payload":{"query":"{ nothing }"}}`:                                                                               {"error", "Cannot query field"},
		`{"type":"subscribe","id":"wide","payload":{"query":"subscription { watch(input: {orderBy: \"a b c\"}) { uid } }"}}`:                                {"error", "is no order"},
		`{"type":"subscribe","id":"filter","payload":{"query":"subscription { watch(input: {filters: {property: \"created\", values: \"x\"}}) { uid } }"}}`: {"error", "is no time"},
	} {
		if typ, payload := f.say(conn, sent); typ != want[0] || !strings.Contains(payload, want[1]) {
			t.Errorf("%s: %s %s", sent, typ, payload)
		}
	}
	// A query by web socket has one answer, and its end.
	if typ, payload := f.say(conn, `{"type":"subscribe","id":"1","payload":{"query":"{ search(input: [{}]) { count } }"}}`); typ != "next" || payload != `{"data":{"search":[{"count":1}]}}` {
		t.Error(typ, payload)
	}
	if typ, payload := f.hear(conn); typ != "complete" {
		t.Error(typ, payload)
	}
	for sent, want := range map[string]websocket.StatusCode{
		`{"type":"connection_init"}`: closeBadRequest,
		`{`:                          closeBadRequest,
	} {
		if typ, _ := f.say(f.begun(), sent); typ != want.String() {
			t.Errorf("%s: %s", sent, typ)
		}
	}
	twice := f.begun()
	const watch = `{"type":"subscribe","id":"1","payload":{"query":"subscription { watch { uid } }"}}`
	if err := twice.Write(t.Context(), websocket.MessageText, []byte(watch)); err != nil {
		t.Fatal(err)
	}
	if typ, _ := f.say(twice, watch); typ != closeDuplicate.String() {
		t.Errorf("two operations of one name: %s", typ)
	}
}

// TestWatchEvents has objects come, change and go, and at last the right to see them.
func TestWatchEvents(t *testing.T) {
	f := newSocketFixture(t)
	conn := f.begun()
	const watch = `{"type":"subscribe","id":"1","payload":{"query":"subscription { watch { uid operation newData oldData } }"}}`
	if err := conn.Write(t.Context(), websocket.MessageText, []byte(watch)); err != nil {
		t.Fatal(err)
	}
	f.watched(1)
	revision := int64(10)
	write := func(row index.Row, key string, rows ...index.Row) {
		revision++
		f.apply(revision, index.Write{Key: key, Rows: append([]index.Row{}, rows...)})
		f.session.watches.changed(spacesOf(row))
	}
	row := index.Row{Space: "acme", Resource: secrets, Namespace: "a", Name: "new", Kind: "Secret", Details: index.Details{UID: "u"}}
	other := row
	other.Labels = map[string]string{"app": "web"}
	hidden := row
	hidden.Namespace = "b"
	write(hidden, "hidden", hidden)
	for _, step := range []struct {
		rows []index.Row
		want []string // what the event has
	}{
		{[]index.Row{row}, []string{"INSERT", "", "new"}},
		{[]index.Row{other}, []string{"UPDATE", "new", "new"}},
		{nil, []string{"DELETE", "new", ""}},
	} {
		write(row, "new", step.rows...)
		if diff := cmp.Diff(step.want, f.event(conn)); diff != "" {
			t.Error(diff)
		}
	}
	f.bind(false, revision)
	f.session.watches.changed(spacesOf(index.Row{Space: index.Shared}))
	if diff := cmp.Diff([]string{"DELETE", "s", ""}, f.event(conn)); diff != "" {
		t.Error(diff)
	}
}

// apply has the index as of a revision.
func (f *socketFixture) apply(revision int64, writes ...index.Write) {
	f.Helper()
	if _, err := f.session.index.Apply(f.Context(), writes, revision); err != nil {
		f.Fatal(err)
	}
	f.revision.Store(revision)
	f.session.queue.begin(revision)
	f.session.Reached(revision)
}

func spacesOf(row index.Row) sets.Set[tenant.Name] { return sets.New(row.Space) }

// event returns the operation of the next event, and the names in its old and in its new data.
func (f *socketFixture) event(conn *websocket.Conn) []string {
	f.Helper()
	typ, payload := f.hear(conn)
	var event struct {
		Data struct {
			Watch struct {
				Operation        string
				OldData, NewData map[string]any
			}
		}
	}
	if err := json.Unmarshal([]byte(payload), &event); err != nil || typ != "next" {
		f.Fatal(typ, payload, err)
	}
	w := event.Data.Watch
	named := func(data map[string]any) string { text, _ := data["name"].(string); return text }
	return []string{w.Operation, named(w.OldData), named(w.NewData)}
}

// watched waits until there are as many subscriptions that know what there is.
func (f *socketFixture) watched(n int) {
	f.Helper()
	for ready := 0; ready != n && f.Context().Err() == nil; {
		ready = 0
		f.service.watches.mu.Lock()
		for w := range f.service.watches.all {
			if w.knows.Load() {
				ready++
			}
		}
		f.service.watches.mu.Unlock()
	}
}

// TestExpiry has the token of a connection expire.
func TestExpiry(t *testing.T) {
	f := newSocketFixture(t)
	conn := f.begun()
	f.expired.Store(true)
	if typ, reason := f.hear(conn); typ != closeForbidden.String() || !strings.Contains(reason, "do not hold") {
		t.Error(typ, reason)
	}
	if conn, status := f.dial(protocol, "Authorization", "Bearer jane"); conn != nil || status != http.StatusUnauthorized {
		t.Errorf("status %d", status)
	}
}

// TestLateClients has a client that does not read: it is told so behind what waits for it, and others are not.
func TestLateClients(t *testing.T) {
	f := newSocketFixture(t)
	c := &connection{
		handler: http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
			op := operationFrom(req.Context())
			for op.err == nil {
				op.err = op.next(req.Context(), json.RawMessage(`"event"`))
			}
		}),
		request: httptest.NewRequestWithContext(tenant.WithRequest(t.Context(), &tenant.Request{}), http.MethodGet, GraphQLPath, http.NoBody),
		out:     make(chan message, 2), operations: map[string]context.CancelFunc{}, patience: time.Millisecond, room: newSocketRoom(), held: (&held{}).enter("acme", nil),
	}
	c.operate(t.Context(), message{ID: "1", Payload: json.RawMessage(`{}`)})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var err error
		if c.conn, err = websocket.Accept(w, req, nil); err == nil {
			c.writeAll(req.Context())
		}
	}))
	t.Cleanup(server.Close)
	f.url = server.URL
	conn, status := f.dial("")
	if conn == nil {
		t.Fatal(status)
	}
	for _, want := range []string{`next "event"`, `next "event"`, "error RESYNC"} {
		typ, payload := f.hear(conn)
		words := strings.Fields(want)
		if typ != words[0] || !strings.Contains(payload, words[1]) {
			t.Errorf("%s %s, want %s", typ, payload, want)
		}
	}
}

// TestManySubscriptions has a tenant with more of everything than it may have.
func TestManySubscriptions(t *testing.T) {
	var s sockets
	enter := func(n tenant.Name) (leave func()) {
		_, leave = s.enter(n)
		return leave
	}
	for range maxConnections - 1 {
		if enter("acme") == nil {
			t.Fatal("too few connections")
		}
	}
	leave := enter("acme")
	if leave == nil {
		t.Fatal("too few connections")
	}
	if enter("acme") != nil || enter("globex") == nil {
		t.Error("connections of one tenant are not counted apart")
	}
	leave()
	if enter("acme") == nil {
		t.Error("a connection that has ended counts")
	}
	var w watches
	var releases []func()
	for range maxWatches {
		_, release, err := w.begin(&asker{userTenant: "acme"})
		if err != nil {
			t.Fatal(err)
		}
		releases = append(releases, release)
	}
	if _, _, err := w.begin(&asker{userTenant: "acme"}); err == nil {
		t.Error("too many subscriptions")
	}
	if _, _, err := w.begin(&asker{userTenant: "globex"}); err != nil {
		t.Error(err)
	}
	releases[0]()
	if _, _, err := w.begin(&asker{userTenant: "acme"}); err != nil {
		t.Error(err)
	}
	f := newSocketFixture(t)
	conn := f.begun()
	for i := range maxOperations + 1 {
		m := message{ID: string(rune('a' + i)), Type: "subscribe", Payload: json.RawMessage(`{"query":"subscription { watch { uid } }"}`)}
		if err := wsjson.Write(t.Context(), conn, m); err != nil {
			t.Fatal(err)
		}
	}
	if typ, payload := f.hear(conn); typ != "error" || !strings.Contains(payload, "10 operations") {
		t.Error(typ, payload)
	}
}

// TestConnectionsHoldTogether has all connections hold too much: a client is told why it is ended, and what it held is
// free.
func TestConnectionsHoldTogether(t *testing.T) {
	f := newSocketFixture(t)
	row := index.Row{Space: "acme", Resource: secrets, Namespace: "a", Name: "large", Kind: "Secret", Details: index.Details{UID: "u", Status: strings.Repeat("x", 100<<10)}}
	f.apply(11, index.Write{Key: "large", Rows: []index.Row{row}})
	limit := func(most int64) {
		f.service.sockets.held.mu.Lock()
		defer f.service.sockets.held.mu.Unlock()
		f.service.sockets.held.most = most
	}
	conn := f.begun()
	limit(connectionBytes + watchBytes + 50<<10)
	if typ, payload := f.say(conn, `{"id":"a","type":"subscribe","payload":{"query":"subscription { watch { uid } }"}}`); typ != closeTooMany.String() || payload != tooMuch {
		t.Errorf("the client is told %s: %s", typ, payload)
	}
	until.True(t, "nothing is held", func() bool { return f.service.sockets.held.total() == 0 && f.service.sockets.open.Len() == 0 })
	limit(connectionBytes + watchBytes + 150<<10) // without room for one more connection
	conn = f.begun()
	if err := conn.Write(t.Context(), websocket.MessageText, []byte(`{"id":"a","type":"subscribe","payload":{"query":"subscription { watch { uid } }"}}`)); err != nil {
		t.Fatal(err)
	}
	until.True(t, "it knows the object", func() bool { return f.service.sockets.held.total() > connectionBytes+watchBytes+100<<10 })
	if _, status := f.dial(protocol, "Authorization", "Bearer jane"); status != http.StatusTooManyRequests {
		t.Errorf("one more of the tenant: %d", status)
	}
	if again, _ := f.dial(protocol); again != nil {
		if typ, payload := f.say(again, initByToken); typ != "connection_ack" {
			t.Errorf("it is known as %s: %s", typ, payload)
		}
		if typ, payload := f.hear(again); typ != closeTooMany.String() || payload != tooMuch {
			t.Errorf("one more of the tenant, whose user is known later, is told %s: %s", typ, payload)
		}
	}
	if err := conn.Write(t.Context(), websocket.MessageText, []byte(`{"id":"a","type":"complete"}`)); err != nil {
		t.Fatal(err)
	}
	until.True(t, "what it knew is free", func() bool { return f.service.sockets.held.total() == connectionBytes })
}

// TestRoom has clients of a tenant that do not read: what waits for them is bounded in bytes, whatever they ask for.
func TestRoom(t *testing.T) {
	own, ended := newSocketRoom(), httptest.NewRequestWithContext(tenant.WithRequest(t.Context(), &tenant.Request{}), http.MethodGet, GraphQLPath, http.NoBody)
	answered, all := 0, []*connection{}
	held := &held{}
	handler := http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		op, size := operationFrom(req.Context()), maxAnswer/2
		if string(op.body) == "query" {
			waiting, cancel := context.WithTimeout(req.Context(), time.Millisecond)
			defer cancel()
			if op.err = op.reserve(waiting); op.err != nil {
				return
			}
			size = maxAnswer
		}
		if op.err = op.next(req.Context(), make(json.RawMessage, size)); op.err == nil {
			answered += size
		}
	})
	for _, body := range []string{"query", "event"} {
		for range 4 {
			c := &connection{handler: handler, request: ended, out: make(chan message, maxMessages), operations: map[string]context.CancelFunc{}, patience: time.Millisecond, room: own, held: held.enter("acme", nil)}
			c.operate(t.Context(), message{ID: "1", Payload: json.RawMessage(body)})
			all = append(all, c)
		}
	}
	if answered > 3*maxAnswer || answered < 2*maxAnswer {
		t.Errorf("%d MiB wait", answered>>20)
	}
	if got := held.total() - int64(len(all)*connectionBytes); got < int64(answered) || got > int64(answered+1000*len(all)) {
		t.Errorf("%d bytes of those are known to be held by all tenants, want %d", got, answered)
	}
	for _, c := range all {
		c.forget()
	}
	if got := held.total(); got != int64(len(all)*connectionBytes) {
		t.Errorf("%d bytes are held", got)
	}
	if !own.answers.TryAcquire(2*maxAnswer) || !own.others.TryAcquire(maxAnswer) {
		t.Error("room is lost")
	}
}

// TestRightsWakeWhomTheyConcern checks that a tenant's rights have nobody else's subscriptions looked at again.
func TestRightsWakeWhomTheyConcern(t *testing.T) {
	w := watches{}
	of := map[string]*watched{}
	for name, a := range map[string]*asker{
		"own": {userTenant: "acme", space: "acme"}, "guest": {userTenant: "acme", space: "globex"},
		"host": {userTenant: "globex", space: "acme"}, "other": {userTenant: "globex", space: "globex"}, "system": {userTenant: tenant.System, space: tenant.System},
	} {
		own, release, err := w.begin(a)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		of[name] = own
	}
	for in, want := range map[tenant.Scope][]string{
		"": {}, "acme": {"guest", "host", "own"}, tenant.System.Scope(): {"system"}, tenant.Everything: {"guest", "host", "other", "own", "system"},
	} {
		w.rightsChanged(in)
		woken := []string{}
		for name, watched := range of {
			select {
			case <-watched.signal:
				woken = append(woken, name)
			default:
			}
		}
		slices.Sort(woken)
		if !slices.Equal(woken, want) {
			t.Errorf("%q wakes %v, want %v", in, woken, want)
		}
	}
}

// TestBusyServers has a server that cannot say whether credentials hold: a connection goes on for a while, less often
// asked, and no longer.
func TestBusyServers(t *testing.T) {
	f := newSocketFixture(t)
	f.service.sockets.renewal = 20 * time.Millisecond
	conn := f.begun()
	for _, status := range []int64{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		f.busy.Store(status)
		for before := f.asked.Load(); f.asked.Load() == before && t.Context().Err() == nil; {
			time.Sleep(time.Millisecond)
		}
		f.busy.Store(0)
		if typ, _ := f.say(conn, `{"type":"ping"}`); typ != "pong" {
			t.Fatalf("after the status %d: %s", status, typ)
		}
	}
	f.busy.Store(http.StatusTooManyRequests)
	before := f.asked.Load()
	if typ, reason := f.hear(conn); typ != websocket.StatusTryAgainLater.String() || !strings.Contains(reason, "cannot be known") {
		t.Errorf("%s %s", typ, reason)
	}
	if asked := f.asked.Load() - before; asked > maxUnconfirmed {
		t.Errorf("asked %d times meanwhile", asked)
	}
	unknown, _ := f.dial(protocol)
	if typ, _ := f.say(unknown, initByToken); typ != websocket.StatusTryAgainLater.String() {
		t.Errorf("a new connection: %s", typ)
	}
}

// TestMessageRate has a tenant that sends more messages than are read: the others wait where they come from.
func TestMessageRate(t *testing.T) {
	f := newSocketFixture(t)
	room, _, leave := f.service.sockets.open.Use("acme", newSocketRoom)
	defer leave()
	const burst = 5
	room.messages = rate.NewLimiter(rate.Every(time.Hour), burst)
	conns := []*websocket.Conn{f.begun(), f.begun()}
	for i := range burst {
		if typ, _ := f.say(conns[i%2], `{"type":"ping"}`); typ != "pong" {
			t.Fatal(typ)
		}
	}
	if err := conns[0].Write(t.Context(), websocket.MessageText, []byte(`{"type":"ping"}`)); err != nil {
		t.Fatal(err)
	}
	for room.messages.Tokens() >= 0 && t.Context().Err() == nil { // until it waits
		time.Sleep(time.Millisecond)
	}
	other, _, leaveOther := f.service.sockets.open.Use("globex", newSocketRoom)
	defer leaveOther()
	if other.messages.Tokens() < messageBurst {
		t.Error("they are counted of another tenant")
	}
}

// TestParsing checks that messages of all tenants are parsed on some of the cores only, and those of each on one.
func TestParsing(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	body := []byte(`{"query":"{ messages { id } }"}`)
	busy, other := newSocketRoom(), newSocketRoom()
	busy.parsing.TryAcquire(1)
	if _, _, err := busy.parse(gone, body); err == nil {
		t.Error("two messages of a tenant are parsed at a time")
	}
	if _, errs, err := other.parse(t.Context(), body); err != nil || errs != nil {
		t.Errorf("another tenant's is not: %v %v", errs, err)
	}
	if err := parsing().Acquire(t.Context(), parsers()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := other.parse(gone, body); err == nil {
		t.Error("messages are parsed on more cores")
	}
	parsing().Release(parsers())
	if _, _, err := other.parse(t.Context(), body); err != nil {
		t.Error(err)
	}
}

// TestSeats checks that what is asked for by web socket is limited as other requests, but for what lasts.
func TestSeats(t *testing.T) {
	lasts := LongRunning(func(*http.Request, *request.RequestInfo) bool { return false })
	for body, want := range map[string]bool{
		"": false, `{"query":"{ messages { id } }"}`: false, `{"query":"subscription { watch { uid } }"}`: true, `{"query":"nothing"}`: false,
	} {
		got, handled := false, false
		c := &connection{
			handler: http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { got, handled = lasts(req, nil), true }),
			request: httptest.NewRequestWithContext(tenant.WithRequest(t.Context(), &tenant.Request{}), http.MethodGet, GraphQLPath, http.NoBody),
			out:     make(chan message, 2), operations: map[string]context.CancelFunc{}, patience: time.Second, room: newSocketRoom(), held: (&held{}).enter("acme", nil),
		}
		if body == "" {
			c.look(t.Context())
		} else {
			c.operate(t.Context(), message{ID: "1", Payload: json.RawMessage(body)})
		}
		if got != want || !handled {
			t.Errorf("%s lasts: %v", body, got)
		}
	}
}

// TestUnknownClients checks that so many clients without credentials wait at once, that one address leaves others as
// much room as it takes, and that those refused are not counted.
func TestUnknownClients(t *testing.T) {
	s := &sockets{}
	refused := func(from string) bool {
		w, req := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, GraphQLPath, http.NoBody)
		req.RemoteAddr = from
		s.serve(http.NotFoundHandler(), w, req)
		return w.Code == http.StatusServiceUnavailable
	}
	enter := func(from string) (many int, leave func()) {
		for known := s.unknown.enter(ratelimit.Network(from)); known != nil; known = s.unknown.enter(ratelimit.Network(from)) {
			many, leave = many+1, known
		}
		return many, leave
	}
	const one = "10.0.0.1:1"
	many, leave := enter(one)
	if many != maxUnknown/2 || !refused(one) || refused("10.0.0.2:1") {
		t.Errorf("one address has %d", many)
	}
	for i := 2; many < maxUnknown; i++ {
		more, _ := enter(fmt.Sprintf("10.0.0.%d:1", i))
		many += more
	}
	if !refused("10.0.1.1:1") || s.unknown.all.Load() != maxUnknown {
		t.Errorf("%d are counted", s.unknown.all.Load())
	}
	leave()
	leave()
	if refused("10.0.1.1:1") || s.unknown.all.Load() != maxUnknown-1 {
		t.Errorf("%d are counted after one has gone", s.unknown.all.Load())
	}
}

// TestKnownClients checks that who has sent credentials with the request takes a place of the tenant's before the first
// message.
func TestKnownClients(t *testing.T) {
	s := &sockets{}
	for range maxConnections {
		s.enter("acme")
	}
	handler := http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		operationFrom(req.Context()).who = &caller{tenant: "acme", name: "jane"}
	})
	req := httptest.NewRequestWithContext(tenant.WithRequest(t.Context(), &tenant.Request{}), http.MethodGet, GraphQLPath, http.NoBody)
	req.Header.Set("Authorization", "Bearer jane")
	w := httptest.NewRecorder()
	s.serve(handler, w, req)
	if w.Code != http.StatusTooManyRequests || !strings.Contains(w.Body.String(), "the tenant has 20 connections") {
		t.Errorf("answered %d: %s", w.Code, w.Body)
	}
}

// TestAnotherUser checks that a connection whose credentials have become those of somebody else ends.
func TestAnotherUser(t *testing.T) {
	now := &caller{tenant: "acme", name: "jane"}
	handler := http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { operationFrom(req.Context()).who = now })
	c := newConnection(handler, httptest.NewRequestWithContext(tenant.WithRequest(t.Context(), &tenant.Request{}), http.MethodGet, GraphQLPath, http.NoBody))
	for _, want := range []int{http.StatusOK, http.StatusOK} {
		if answer := c.look(t.Context()); answer.status != want {
			t.Errorf("the same user: %d", answer.status)
		}
	}
	for name, other := range map[string]*caller{
		"another name": {tenant: "acme", name: "joe"}, "another tenant": {tenant: "globex", name: "jane"},
		"another group": {tenant: "acme", name: "jane", groups: []string{"g"}}, "another life": {tenant: "acme", name: "jane", uid: "u"}, "nobody": nil,
	} {
		now = other
		if answer := c.look(t.Context()); answer.status != http.StatusForbidden {
			t.Errorf("%s: %d", name, answer.status)
		}
	}
}
