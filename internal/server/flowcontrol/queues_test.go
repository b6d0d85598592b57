package flowcontrol

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/internal/roundtrip"
	"github.com/tenantry/tenantry/internal/server/flowcontrol/waiting"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/until"
)

// visit is one request in a queue.
type visit struct {
	waits chan bool
	leave chan leave // nil if it may not be executed
}

func begin(ctx context.Context, l *fairQueues, key queueKey, capacity int) *visit {
	return beginDemand(ctx, l, demand{key: key, capacity: capacity})
}

func beginDemand(ctx context.Context, l *fairQueues, o demand) *visit {
	v := &visit{waits: make(chan bool, 2), leave: make(chan leave, 1)}
	go func() {
		leave, _ := l.enter(ctx, o, func(waits bool) { v.waits <- waits })
		v.leave <- leave
	}()
	return v
}

// newQueues returns queues, and a function that fires all their timers.
func newQueues() (*fairQueues, func()) {
	var mu sync.Mutex
	var due []func()
	l := &fairQueues{afterFunc: func(_ time.Duration, do func()) func() bool {
		mu.Lock()
		defer mu.Unlock()
		due = append(due, do)
		return func() bool { return true }
	}}
	return l, func() {
		mu.Lock()
		defer mu.Unlock()
		for _, do := range due {
			do()
		}
		due = nil
	}
}

func countQueues(l *fairQueues) int { return l.queues.Len() }

// lockQueue returns a queue that has requests, locked.
func lockQueue(l *fairQueues, key queueKey) *fairQueue {
	q, _, release := l.queues.Use(key, newFairQueue)
	release()
	q.mu.Lock()
	return q
}

func TestQueuesInOrder(t *testing.T) {
	l, _ := newQueues()
	acme := queueKey{tenant: "acme"}
	first, second := <-begin(t.Context(), l, acme, 2).leave, <-begin(t.Context(), l, acme, 2).leave
	third := begin(t.Context(), l, acme, 2)
	<-third.waits
	fourth := begin(t.Context(), l, acme, 2)
	<-fourth.waits

	// Others do not wait for them.
	(<-begin(t.Context(), l, queueKey{tenant: "globex"}, 2).leave)(0, 0)
	(<-begin(t.Context(), l, queueKey{tenant: "acme", class: largeRead}, 2).leave)(0, 0)

	first(0, 0)
	(<-third.leave)(0, 0)
	(<-fourth.leave)(0, 0)
	second(0, 0)
	if got := countQueues(l); got != 0 {
		t.Errorf("%d queues are left without requests", got)
	}
}

func TestQueueIsLeftWhileWaiting(t *testing.T) {
	l, _ := newQueues()
	acme := queueKey{tenant: "acme"}
	running := <-begin(t.Context(), l, acme, 1).leave
	ctx, cancel := context.WithCancelCause(t.Context())
	impatient := begin(ctx, l, acme, 1)
	<-impatient.waits
	patient := begin(t.Context(), l, acme, 1)
	<-patient.waits
	cancel(errors.New("gone"))
	if leave := <-impatient.leave; leave != nil {
		t.Error("a request is executed though its client has gone")
	}
	if waits := <-impatient.waits; waits {
		t.Error("the end of waiting is not told")
	}
	running(0, 0)
	(<-patient.leave)(0, 0)
	if got := countQueues(l); got != 0 {
		t.Errorf("%d queues are left without requests", got)
	}
}

func TestLaneIsFull(t *testing.T) {
	l, _ := newQueues()
	acme := queueKey{tenant: "acme"}
	running := <-begin(t.Context(), l, acme, 1).leave
	ctx, cancel := context.WithCancel(t.Context())
	var queue []*visit
	for range maxQueued {
		v := begin(ctx, l, acme, 1)
		<-v.waits
		queue = append(queue, v)
	}
	if leave := <-begin(t.Context(), l, acme, 1).leave; leave != nil {
		t.Errorf("more than %d requests wait", maxQueued)
	}
	cancel()
	for _, v := range queue {
		<-v.leave
	}
	running(0, 0)
}

func TestQueuesUnderLoad(t *testing.T) {
	const capacity, requests = 3, 2000
	l, _ := newQueues()
	var mu sync.Mutex
	running, most := map[tenant.Name]int{}, 0
	var group sync.WaitGroup
	for i := range requests {
		n := []tenant.Name{"acme", "globex"}[i%2]
		group.Go(func() {
			leave, ok := l.enter(t.Context(), demand{key: queueKey{tenant: n}, capacity: capacity}, func(bool) {})
			if !ok {
				return // too many wait
			}
			defer leave(0, 0)
			mu.Lock()
			running[n]++
			most = max(most, running[n])
			mu.Unlock()
			mu.Lock()
			running[n]--
			mu.Unlock()
		})
	}
	group.Wait()
	if most > capacity {
		t.Errorf("%d requests of a tenant are executed at a time, want at most %d", most, capacity)
	}
	if got := countQueues(l); got != 0 {
		t.Errorf("%d queues are left without requests", got)
	}
}

// hang lets the request of ctx wait for a webhook until the test lets it go.
func hang(ctx context.Context) (release func()) {
	called, answer, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_, _ = waiting.Transport(roundtrip.Func(func(*http.Request) (*http.Response, error) {
			close(called)
			<-answer
			return nil, nil
		})).RoundTrip(httptest.NewRequest(http.MethodPost, "/", nil).WithContext(ctx))
	}()
	<-called
	return func() {
		close(answer)
		<-done
	}
}

func TestWritesThatWaitForWebhooksMakeRoom(t *testing.T) {
	l, pass := newQueues()
	acme := queueKey{tenant: "acme", class: write}
	var ends []func()
	for range maxExecuting {
		ctx := waiting.With(t.Context(), &waiting.Webhooks{})
		leave := <-begin(ctx, l, acme, 1).leave
		release := hang(ctx)
		pass() // which changes nothing
		ends = append(ends, func() { release(); leave(0, 0) })
	}
	last := begin(t.Context(), l, acme, 1)
	if waits := <-last.waits; !waits {
		t.Errorf("more than %d requests are under way", maxExecuting)
	}
	for _, end := range ends {
		end()
	}
	pass() // of requests that have ended
	end := <-last.leave
	if got := countQueues(l); got != 1 {
		t.Errorf("%d queues of one request", got)
	}
	end(0, 0)
	if got := countQueues(l); got != 0 {
		t.Errorf("%d queues are left without requests", got)
	}
}

// TestSlowBodiesMakeRoom checks that writes whose clients take their time hold no seats,
// but wait for one when they have a body.
func TestSlowBodiesMakeRoom(t *testing.T) {
	l, pass := newQueues()
	acme := queueKey{tenant: "acme", class: write}
	var slow []*io.PipeWriter
	var received []chan struct{}
	var ends []leave
	for range maxExecuting {
		reader, writer := io.Pipe()
		body, done := &incoming{ReadCloser: reader}, make(chan struct{})
		ends = append(ends, <-beginDemand(t.Context(), l, demand{key: acme, capacity: 1, body: body}).leave)
		go func() {
			defer close(done)
			_, _ = io.Copy(io.Discard, body)
		}()
		slow, received = append(slow, writer), append(received, done)
		pass()
	}
	q := lockQueue(l, acme)
	if q.blocked != maxExecuting || q.running != 0 {
		t.Errorf("%d wait for their clients and %d do not, want %d and 0", q.blocked, q.running, maxExecuting)
	}
	q.mu.Unlock()
	fresh := begin(t.Context(), l, acme, 1)
	if waits := <-fresh.waits; !waits {
		t.Errorf("more than %d requests are under way", maxExecuting)
	}
	for i := range slow {
		if err := slow[i].Close(); err != nil {
			t.Fatal(err)
		}
		<-received[i]
		if q := lockQueue(l, acme); q.running != 1 || q.blocked != maxExecuting-1-i {
			t.Errorf("%d are executed and %d wait for their clients, want 1 and %d", q.running, q.blocked, maxExecuting-1-i)
			q.mu.Unlock()
		} else {
			q.mu.Unlock()
		}
		if i+1 < len(slow) { // has to wait for this one
			if err := slow[i+1].Close(); err != nil {
				t.Fatal(err)
			}
			until.True(t, "a request waits to come back", func() bool { q := lockQueue(l, acme); defer q.mu.Unlock(); return len(q.returning) == 1 })
		}
		ends[i](0, 0)
	}
	(<-fresh.leave)(0, 0)
	if got := countQueues(l); got != 0 {
		t.Errorf("%d queues are left without requests", got)
	}
}

// beginBlocked begins a request of ctx that waits for its body, which writer closes, and
// another one that has the only seat of the queue meanwhile.
func beginBlocked(ctx context.Context, t *testing.T, l *fairQueues, pass func(), key queueKey) (body *incoming, writer *io.PipeWriter, end, busy leave) {
	t.Helper()
	reader, writer := io.Pipe()
	body = &incoming{ReadCloser: reader}
	end = <-beginDemand(ctx, l, demand{key: key, capacity: 1, body: body}).leave
	pass()
	return body, writer, end, <-begin(t.Context(), l, key, 1).leave
}

// TestBodyThatNeverComes checks that a request leaves its queue when its client gives up.
func TestBodyThatNeverComes(t *testing.T) {
	l, pass := newQueues()
	acme := queueKey{tenant: "acme", class: write}
	ctx, cancel := context.WithCancel(t.Context())
	body, writer, end, busy := beginBlocked(ctx, t, l, pass, acme)
	cancel()
	_ = writer.Close()
	if _, err := io.ReadAll(body); !errors.Is(err, context.Canceled) {
		t.Errorf("the body is read without a seat: %v", err)
	}
	end(0, 0)
	busy(0, 0)
	if got := countQueues(l); got != 0 {
		t.Errorf("%d queues are left without requests", got)
	}
}

// TestEndWhileReturning checks that a request that ends while it waits for seats is not
// given them.
func TestEndWhileReturning(t *testing.T) {
	l, pass := newQueues()
	acme := queueKey{tenant: "acme", class: write}
	ctx, cancel := context.WithCancel(t.Context())
	body, writer, end, busy := beginBlocked(ctx, t, l, pass, acme)
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.ReadAll(body)
	}()
	_ = writer.Close()
	until.True(t, "a request waits to come back", func() bool { q := lockQueue(l, acme); defer q.mu.Unlock(); return len(q.returning) == 1 })
	end(0, 0)
	busy(0, 0)
	cancel()
	<-read
	if got := countQueues(l); got != 0 {
		t.Errorf("%d queues are left without requests", got)
	}
}

// TestSmallerRequestsBehindOneThatGivesUp checks that they begin when it is gone.
func TestSmallerRequestsBehindOneThatGivesUp(t *testing.T) {
	l, _ := newQueues()
	acme := queueKey{tenant: "acme", class: write}
	running := <-begin(t.Context(), l, acme, 2).leave
	ctx, cancel := context.WithCancel(t.Context())
	large := beginDemand(ctx, l, demand{key: acme, capacity: 2, costly: true})
	<-large.waits
	small := begin(t.Context(), l, acme, 2)
	<-small.waits
	cancel()
	until.True(t, "the smaller one has begun", func() bool { return len(small.leave) == 1 })
	(<-small.leave)(0, 0)
	running(0, 0)
}

// TestBusyWritesMakeLittleRoom checks that writes that are at work for however long are
// not many at a time.
func TestBusyWritesMakeLittleRoom(t *testing.T) {
	for name, tc := range map[string]struct {
		capacity int
		costly   bool
		atOnce   int
	}{
		"one seat":            {1, false, 2},
		"two seats":           {2, false, 3},
		"four seats":          {4, false, 6},
		"costly, two seats":   {2, true, 1},
		"costly, four seats":  {4, true, 3},
		"costly, eight seats": {8, true, 6},
	} {
		t.Run(name, func(t *testing.T) {
			l, pass := newQueues()
			o := demand{key: queueKey{tenant: "acme", class: write}, capacity: tc.capacity, costly: tc.costly}
			var ends []leave
			for q := lockQueue(l, o.key); ; q = lockQueue(l, o.key) {
				q.capacity = tc.capacity
				room := q.hasRoom(o.seats())
				q.mu.Unlock()
				if !room {
					break
				}
				ends = append(ends, <-beginDemand(t.Context(), l, o).leave)
				pass()
			}
			if len(ends) != tc.atOnce {
				t.Errorf("%d are under way, want %d", len(ends), tc.atOnce)
			}
			for _, end := range ends {
				end(0, 0)
			}
			if got := countQueues(l); got != 0 {
				t.Errorf("%d queues are left without requests", got)
			}
		})
	}
}
