package flowcontrol

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/tenantry/tenantry/internal/roundtrip"
	"github.com/tenantry/tenantry/internal/server/flowcontrol/waiting"
)

func TestLikelyCosts(t *testing.T) {
	began := time.Unix(1_000_000, 0)
	for name, tc := range map[string]struct {
		small, costly int // of 2 and of 300 milliseconds
		after         time.Duration
		want          bool
	}{
		"nothing":                  {0, 0, 0, false},
		"small":                    {1000, 0, 0, false},
		"costly":                   {0, 1, 0, true},
		"costly among many others": {200, 4, 0, true},
		"costly once":              {1000, 1, 0, false},
		"long ago":                 {100, 4, 20 * halfLife, false},
	} {
		var c costs
		for range tc.costly {
			c.note(300*time.Millisecond, began)
		}
		for range tc.small {
			c.note(2*time.Millisecond, began.Add(tc.after))
		}
		if got := c.likely() >= costlyTime; got != tc.want {
			t.Errorf("%s: a request is likely to take %s, costly should be %v", name, c.likely(), tc.want)
		}
	}
}

func TestBusyDoesNotCountWaits(t *testing.T) {
	clock := testingclock.NewFakeClock(time.Unix(0, 0))
	ctx := request.WithLatencyTrackersAndCustomClock(t.Context(), clock)
	wait := func(d time.Duration) func() { return func() { clock.Step(d) } }
	request.TrackStorageLatency(ctx, time.Second)
	trackers, _ := request.LatencyTrackersFrom(ctx)
	trackers.MutatingWebhookTracker.Track(wait(2 * time.Second))
	trackers.ValidatingWebhookTracker.Track(wait(4 * time.Second))
	trackers.ResponseWriteTracker.Track(wait(8 * time.Second))
	trackers.DecodeTracker.Track(wait(16 * time.Second)) // at work
	if got, want := busy(ctx, 32*time.Second), 17*time.Second; got != want {
		t.Errorf("busy for %s, want %s", got, want)
	}
	if got := busy(ctx, time.Second); got != 0 {
		t.Errorf("busy for %s", got)
	}
	if got := busy(t.Context(), time.Second); got != time.Second {
		t.Errorf("without measurements busy for %s", got)
	}
}

// TestCostlyWritesLeaveACore checks that of those seats that small writes of a tenant
// take, costly ones take half, whatever it is that says so.
func TestCostlyWritesLeaveACore(t *testing.T) {
	small := strings.Repeat("x", 1000)
	for name, tc := range map[string]struct {
		cores  int
		body   string
		length int64 // instead of that of the body, if it is not zero
		before time.Duration
		atOnce int
	}{
		"small":                  {2, small, 0, time.Millisecond, 2},
		"small, four cores":      {4, small, 0, time.Millisecond, 4},
		"large body":             {2, strings.Repeat("x", largeBody), 0, time.Millisecond, 1},
		"large body, four cores": {4, strings.Repeat("x", largeBody), 0, time.Millisecond, 2},
		"body of unknown length": {2, small, -1, time.Millisecond, 1},
		"costly before":          {2, small, 0, costlyTime, 1},
		"costly, three cores":    {3, small, 0, costlyTime, 1},
		"costly, without a body": {2, "", 0, costlyTime, 1},
		"costly, one seat":       {1, small, 0, costlyTime, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := newControl()
			c.config.Concurrency = Concurrency{Writes: tc.cores}
			q, _, release := c.queues.queues.Use(queueKey{"acme", write}, newFairQueue)
			defer release()
			q.note(tc.before)
			r := httptest.NewRequest(http.MethodPost, "/api/v1/namespaces/default/pods", strings.NewReader(tc.body))
			if tc.length != 0 {
				r.ContentLength = tc.length
			}
			var o demand
			serve(t, c, "acme", r, func(_ http.ResponseWriter, r *http.Request) {
				o = c.demand(r.Context(), queueKey{"acme", write}, tc.cores)
			})
			if got := o.capacity / o.seats(); got != tc.atOnce {
				t.Errorf("%d at once, want %d", got, tc.atOnce)
			}
		})
	}
}

func TestCostlyWritesOfOneTenantAloneAreNotMore(t *testing.T) {
	for _, bytes := range []int{largeBody - 1, largeBody} {
		c, _ := newControl()
		c.config.Concurrency = Concurrency{Writes: 2}
		c.activity.last.Store(&period{tenant: "acme", since: time.Now().Add(-aloneAfter)})
		ctx := context.WithValue(t.Context(), sentKey{}, sent{bodyBytes: int64(bytes)})
		o := c.demand(ctx, queueKey{"acme", write}, 2)
		if got, want := o.capacity/o.seats(), map[bool]int{false: 2 * aloneFactor, true: 1}[bytes >= largeBody]; got != want {
			t.Errorf("%d writes of %d bytes at a time, want %d", got, bytes, want)
		}
	}
}

func TestCostlyWritesKeepTheirPlaces(t *testing.T) {
	var waits []time.Duration
	l := &fairQueues{afterFunc: func(after time.Duration, _ func()) func() bool {
		waits = append(waits, after)
		return func() bool { return true }
	}}
	o := demand{key: queueKey{"acme", write}, capacity: 2, costly: true}
	leave, ok := l.enter(t.Context(), o, func(bool) {})
	if !ok || waits[0] < 10*overdueAfter {
		t.Errorf("a costly write makes room after %s", waits)
	}
	q := lockQueue(l, o.key)
	if q.hasRoom(1) {
		t.Error("there is room beside a costly write")
	}
	q.mu.Unlock()
	leave(holdTime(write, 300*time.Millisecond, 300*time.Millisecond, 1), 300*time.Millisecond)
	if len(waits) != 2 || waits[1] != 300*time.Millisecond {
		t.Errorf("its seat is held for %s, want as long as it took", waits[1:])
	}
	if !l.costly(o.key) {
		t.Error("what it cost is not charged")
	}
	if got := holdTime(write, time.Second, time.Millisecond, definitionFollowUp); got > 5*time.Millisecond {
		t.Errorf("after a write that waited the seat is held for %s", got)
	}
}

func TestSmallWritesDoNotPassCostlyOnes(t *testing.T) {
	l, _ := newQueues()
	key := queueKey{tenant: "acme", class: write}
	small := <-begin(t.Context(), l, key, 2).leave
	costly := beginDemand(t.Context(), l, demand{key: key, capacity: 2, costly: true})
	<-costly.waits
	behind := begin(t.Context(), l, key, 2)
	<-behind.waits
	small(0, 0)
	end := <-costly.leave
	select {
	case <-behind.leave:
		t.Error("a write begins beside a costly one")
	default:
	}
	end(0, 0)
	(<-behind.leave)(0, 0)
	if got := countQueues(l); got != 0 {
		t.Errorf("%d queues are left without requests", got)
	}
}

func TestDefinitionsRestForWhatTheyCause(t *testing.T) {
	for url, want := range map[string]int{
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/x.y": definitionFollowUp,
		"/apis/example.com/v1/customresourcedefinitions/x.y":          1,
		"/api/v1/namespaces/default/configmaps/x":                     1,
	} {
		c, _ := newControl()
		serve(t, c, "acme", httptest.NewRequest(http.MethodPut, url, nil), func(_ http.ResponseWriter, r *http.Request) {
			info, _ := request.RequestInfoFrom(r.Context())
			if got := followUpOf(info); got != want {
				t.Errorf("%s: %d, want %d", url, got, want)
			}
		})
	}
	if got, want := holdTime(write, time.Minute, time.Minute, definitionFollowUp), definitionFollowUp*costlyHold; got != want {
		t.Errorf("a seat is held for %s, want %s", got, want)
	}
}

// TestWritesMakeRoomWhileAWebhookIsCalled checks that what a webhook sends on behalf of
// the tenant is executed while the write waits for it, a costly one, too.
func TestWritesMakeRoomWhileAWebhookIsCalled(t *testing.T) {
	l, _ := newQueues()
	o := demand{key: queueKey{"acme", write}, capacity: 2, costly: true}
	ctx := waiting.With(t.Context(), &waiting.Webhooks{})
	leave, _ := l.enter(ctx, o, func(bool) {})
	seats := func() (running, blocked int) {
		q := lockQueue(l, o.key)
		defer q.mu.Unlock()
		return q.running, q.blocked
	}
	call := waiting.Transport(roundtrip.Func(func(*http.Request) (*http.Response, error) {
		if running, blocked := seats(); running != 0 || blocked != 2 {
			t.Errorf("%d seats are taken, and %d by requests that wait, want 0 and 2", running, blocked)
		}
		(<-beginDemand(t.Context(), l, o).leave)(0, 0)
		return nil, nil
	}))
	_, _ = call.RoundTrip(httptest.NewRequest(http.MethodPost, "/", nil).WithContext(ctx))
	if running, blocked := seats(); running != 2 || blocked != 0 {
		t.Errorf("%d seats are taken, and %d by requests that wait, want 2 and 0", running, blocked)
	}
	leave(0, 0)
	if got := countQueues(l); got != 0 {
		t.Errorf("%d queues are left", got)
	}
}
