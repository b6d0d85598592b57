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

	"github.com/tenantry/tenantry/internal/server/flowcontrol/waiting"
	"github.com/tenantry/tenantry/internal/tenant"
)

// visit is one request in a lane.
type visit struct {
	waits chan bool
	leave chan leave // nil if it may not be executed
}

func begin(ctx context.Context, l *lanes, key laneKey, capacity int) *visit {
	return beginOrder(ctx, l, order{key: key, capacity: capacity})
}

func beginOrder(ctx context.Context, l *lanes, o order) *visit {
	v := &visit{waits: make(chan bool, 2), leave: make(chan leave, 1)}
	go func() {
		leave, _ := l.enter(ctx, o, func(waits bool) { v.waits <- waits })
		v.leave <- leave
	}()
	return v
}

// newLanes returns lanes, and what makes all requests under way late.
func newLanes() (*lanes, func()) {
	var mu sync.Mutex
	var due []func()
	l := &lanes{later: func(_ time.Duration, do func()) func() bool {
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

func lanesOf(l *lanes) (count int) {
	l.lanes.Range(func(any, any) bool { count++; return true })
	return count
}

func TestLanesInTurn(t *testing.T) {
	l, _ := newLanes()
	acme := laneKey{tenant: "acme"}
	first, second := <-begin(t.Context(), l, acme, 2).leave, <-begin(t.Context(), l, acme, 2).leave
	third := begin(t.Context(), l, acme, 2)
	<-third.waits
	fourth := begin(t.Context(), l, acme, 2)
	<-fourth.waits

	// Others do not wait for them.
	(<-begin(t.Context(), l, laneKey{tenant: "globex"}, 2).leave)(0, 0)
	(<-begin(t.Context(), l, laneKey{tenant: "acme", class: largeRead}, 2).leave)(0, 0)

	first(0, 0)
	(<-third.leave)(0, 0)
	(<-fourth.leave)(0, 0)
	second(0, 0)
	if got := lanesOf(l); got != 0 {
		t.Errorf("%d lanes are left without requests", got)
	}
}

func TestLaneIsLeftWhileWaiting(t *testing.T) {
	l, _ := newLanes()
	acme := laneKey{tenant: "acme"}
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
	if got := lanesOf(l); got != 0 {
		t.Errorf("%d lanes are left without requests", got)
	}
}

func TestLaneIsFull(t *testing.T) {
	l, _ := newLanes()
	acme := laneKey{tenant: "acme"}
	running := <-begin(t.Context(), l, acme, 1).leave
	ctx, cancel := context.WithCancel(t.Context())
	var queue []*visit
	for range waitingRequests {
		v := begin(ctx, l, acme, 1)
		<-v.waits
		queue = append(queue, v)
	}
	if leave := <-begin(t.Context(), l, acme, 1).leave; leave != nil {
		t.Errorf("more than %d requests wait", waitingRequests)
	}
	cancel()
	for _, v := range queue {
		<-v.leave
	}
	running(0, 0)
}

func TestLanesUnderLoad(t *testing.T) {
	const capacity, requests = 3, 2000
	l, _ := newLanes()
	var mu sync.Mutex
	running, most := map[tenant.Name]int{}, 0
	var group sync.WaitGroup
	for i := range requests {
		n := []tenant.Name{"acme", "globex"}[i%2]
		group.Go(func() {
			leave, ok := l.enter(t.Context(), order{key: laneKey{tenant: n}, capacity: capacity}, func(bool) {})
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
	if got := lanesOf(l); got != 0 {
		t.Errorf("%d lanes are left without requests", got)
	}
}

// hang lets the request of ctx wait for a webhook until the test lets it go.
func hang(ctx context.Context) (release func()) {
	called, answer, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_, _ = waiting.Transport(roundTripper(func(*http.Request) (*http.Response, error) {
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
	l, pass := newLanes()
	acme := laneKey{tenant: "acme", class: write}
	var ends []func()
	for range mostLate {
		ctx := waiting.With(t.Context(), &waiting.Webhooks{})
		leave := <-begin(ctx, l, acme, 1).leave
		release := hang(ctx)
		pass() // which changes nothing
		ends = append(ends, func() { release(); leave(0, 0) })
	}
	last := begin(t.Context(), l, acme, 1)
	if waits := <-last.waits; !waits {
		t.Errorf("more than %d requests are under way", mostLate)
	}
	for _, end := range ends {
		end()
	}
	pass() // of requests that have ended
	end := <-last.leave
	if got := lanesOf(l); got != 1 {
		t.Errorf("%d lanes of one request", got)
	}
	end(0, 0)
	if got := lanesOf(l); got != 0 {
		t.Errorf("%d lanes are left without requests", got)
	}
}

// TestSlowBodiesMakeRoom checks that writes whose clients take their time hold no places,
// but wait for one when they have a body.
func TestSlowBodiesMakeRoom(t *testing.T) {
	l, pass := newLanes()
	acme := laneKey{tenant: "acme", class: write}
	var slow []*io.PipeWriter
	var received []chan struct{}
	var ends []leave
	for range mostLate {
		reader, writer := io.Pipe()
		body, done := &incoming{ReadCloser: reader}, make(chan struct{})
		ends = append(ends, <-beginOrder(t.Context(), l, order{key: acme, capacity: 1, body: body}).leave)
		go func() {
			defer close(done)
			_, _ = io.Copy(io.Discard, body)
		}()
		slow, received = append(slow, writer), append(received, done)
		pass()
	}
	own := l.lock(acme)
	if own.late != mostLate || own.prompt != 0 {
		t.Errorf("%d wait for their clients and %d do not, want %d and 0", own.late, own.prompt, mostLate)
	}
	own.mu.Unlock()
	fresh := begin(t.Context(), l, acme, 1)
	if waits := <-fresh.waits; !waits {
		t.Errorf("more than %d requests are under way", mostLate)
	}
	for i := range slow {
		if err := slow[i].Close(); err != nil {
			t.Fatal(err)
		}
		<-received[i]
		if own := l.lock(acme); own.prompt != 1 || own.late != mostLate-1-i {
			t.Errorf("%d are executed and %d wait for their clients, want 1 and %d", own.prompt, own.late, mostLate-1-i)
			own.mu.Unlock()
		} else {
			own.mu.Unlock()
		}
		if i+1 < len(slow) { // has to wait for this one
			if err := slow[i+1].Close(); err != nil {
				t.Fatal(err)
			}
			waitFor(t, func() bool { own := l.lock(acme); defer own.mu.Unlock(); return len(own.back) == 1 })
		}
		ends[i](0, 0)
	}
	(<-fresh.leave)(0, 0)
	if got := lanesOf(l); got != 0 {
		t.Errorf("%d lanes are left without requests", got)
	}
}

func waitFor(t *testing.T, holds func() bool) {
	t.Helper()
	for !holds() {
		if t.Context().Err() != nil {
			t.Fatal("never")
		}
		time.Sleep(time.Millisecond)
	}
}

// TestBodyThatNeverComes checks that a request leaves its lane when its client gives up.
func TestBodyThatNeverComes(t *testing.T) {
	l, pass := newLanes()
	acme := laneKey{tenant: "acme", class: write}
	reader, writer := io.Pipe()
	body := &incoming{ReadCloser: reader}
	ctx, cancel := context.WithCancel(t.Context())
	end := <-beginOrder(ctx, l, order{key: acme, capacity: 1, body: body}).leave
	pass()
	busy := <-begin(t.Context(), l, acme, 1).leave
	cancel()
	_ = writer.Close()
	if _, err := io.ReadAll(body); err != nil {
		t.Error(err)
	}
	end(0, 0)
	busy(0, 0)
	if got := lanesOf(l); got != 0 {
		t.Errorf("%d lanes are left without requests", got)
	}
}

// TestBusyWritesMakeLittleRoom checks that writes that are at work for however long are
// not many at a time.
func TestBusyWritesMakeLittleRoom(t *testing.T) {
	for name, tc := range map[string]struct {
		capacity int
		costly   bool
		atOnce   int
	}{
		"one place":            {1, false, 2},
		"two places":           {2, false, 3},
		"four places":          {4, false, 6},
		"costly, two places":   {2, true, 1},
		"costly, four places":  {4, true, 3},
		"costly, eight places": {8, true, 6},
	} {
		t.Run(name, func(t *testing.T) {
			l, pass := newLanes()
			o := order{key: laneKey{tenant: "acme", class: write}, capacity: tc.capacity, costly: tc.costly}
			var ends []leave
			for own := l.lock(o.key); ; own = l.lock(o.key) {
				own.capacity = tc.capacity
				room := own.hasRoom(o.places())
				own.mu.Unlock()
				if !room {
					break
				}
				ends = append(ends, <-beginOrder(t.Context(), l, o).leave)
				pass()
			}
			if len(ends) != tc.atOnce {
				t.Errorf("%d are under way, want %d", len(ends), tc.atOnce)
			}
			for _, end := range ends {
				end(0, 0)
			}
			if got := lanesOf(l); got != 0 {
				t.Errorf("%d lanes are left without requests", got)
			}
		})
	}
}
