package spaces

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/internal/tenant"
)

// A controller has a few workers for all tenants. A worker's requests wait for the
// webhooks of the tenant that they concern: for admission, also of deletions, and for
// conversion of listed or deleted objects. So that hanging or slow webhooks of a tenant
// do not block all workers, each tenant has a share of them:
//
//   - An item is the unit of work of a worker: a request, or all parallel requests
//     about the pods of one owner, if the controller has one worker for these. An item
//     that takes longer than waitThreshold counts as waiting, and accepts no
//     further requests. At most share items wait, and always one may; further ones
//     are ended at once, with an error after which the controller tries again later.
//     The items of all tenants that wait leave as many workers as one share is for others;
//     a tenant takes the place of one that has more of them.
//   - The time that an item takes beyond freeTime is slow time of the tenant. It is forgotten
//     at the rate of the share of the workers' time. As long as there is some, a tenant has no more
//     concurrent items than its share. A share of less than one worker is no item, so that
//     after an item that waited as long as webhooks may, it is the turn of other tenants.
//
// A tenant with quick webhooks has no slow time, and no limit of its items.
//
// There is an account only while a tenant has requests or slow time. What tenants owe for all work, slow or not, is a
// debt, which internal/kubecontrollers counts; its tuning.go says when which holds.

// Option changes how a client of the flattened view sends requests.
type Option func(*flatteningTransport)

// WithWorkers says that the requests are those of a controller's workers, of which each
// tenant has a share while its webhooks are slow. Events are recorded by a separate
// worker. ownerOf returns the UID of the controlling owner of a pod of the flattened
// view, if it is known. It is nil unless one worker at a time changes the pods of an owner,
// with parallel requests.
func WithWorkers(workers int, ownerOf func(namespace tenant.Flat, pod string) types.UID) Option {
	worker, recorder := newShares(workers), newShares(1)
	return func(t *flatteningTransport) {
		t.workers, t.recorder, t.ownerOf = worker, recorder, ownerOf
	}
}

// WithMaxBytes says how many bytes an answer has at most, but for watches.
func WithMaxBytes(most int64) Option {
	return func(t *flatteningTransport) { t.limits.object, t.limits.list = most, most }
}

// WithTimeout says how long a request takes at most, but for watches.
func WithTimeout(timeout time.Duration) Option {
	return func(t *flatteningTransport) { t.limits.timeout = timeout }
}

// WithMeter says that meter is called with the time that each request of workers for a tenant has
// taken.
func WithMeter(meter func(tenant.Name, time.Duration)) Option {
	return func(t *flatteningTransport) { t.meter = meter }
}

// WithTurns says that requests of workers for a tenant are refused, and tried again later, of which inTurn says by their
// method that it is not the tenant's turn.
func WithTurns(inTurn func(method string, n tenant.Name) bool) Option {
	return func(t *flatteningTransport) { t.inTurn = inTurn }
}

// sharesFor returns the shares that a request is subject to, nil if there are none.
func (t *flatteningTransport) sharesFor(r *route) *shares {
	switch {
	case !r.space.IsSpace() || isWatch(r.query):
		return nil
	case len(r.resource) > 0 && r.resource[0] == "events":
		return t.recorder
	default:
		return t.workers
	}
}

// itemOf returns the UID of the owner of the pods that a request is about, empty if the
// request is an item of its own. Only owners of pods are trusted: controllers set them,
// while a claim's owner comes from the tenant's template.
func (t *flatteningTransport) itemOf(method string, r *route, body []byte) types.UID {
	switch {
	case t.ownerOf == nil || r.resource[0] != "pods":
		return ""
	case !r.collection:
		return t.ownerOf(tenant.Flatten(r.space, r.namespace), r.resource[1])
	case method == http.MethodPost:
		return types.UID(gjson.GetBytes(body, "metadata.ownerReferences.#(controller==true).uid").String())
	default:
		return ""
	}
}

// shares are the shares of all tenants in the workers of a controller.
type shares struct {
	workers int

	mu       sync.Mutex
	accounts map[tenant.Name]*account
	// waiting is how many items of all tenants wait.
	waiting int
}

func newShares(workers int) *shares {
	return &shares{workers: workers, accounts: map[tenant.Name]*account{}}
}

// account is the state of a tenant.
type account struct {
	// items are all; owners has those about the pods of an owner.
	items   map[*item]struct{}
	owners  map[types.UID]*item
	waiting int
	// slow is the slow time that there was at the time at.
	slow time.Duration
	at   time.Time
	// forgotten deletes the account once it has no slow time.
	forgotten *time.Timer
}

// item is the work of one worker.
type item struct {
	// owner is that of the pods, empty for a single request.
	owner    types.UID
	began    time.Time
	requests int
	waits    bool
	ctx      context.Context
	cancel   context.CancelCauseFunc
	timer    *time.Timer
}

// ErrNotInTurn ends requests of a tenant beyond its share, and those that are not its turn.
var ErrNotInTurn = errors.New("this controller has worked long for the tenant, or waits for its webhooks; it tries again later")

// share is how many items a tenant may have while others wait, or it has slow time.
func (s *shares) share() int { return s.workers / shareDivisor }

// slowTime returns that of an account at a time.
func (s *shares) slowTime(a *account, now time.Time) time.Duration {
	return a.slow - time.Duration(int64(now.Sub(a.at))*int64(s.workers)/shareDivisor)
}

// enter begins a request of a tenant, about the pods of an owner if that is not empty.
// The returned context ends the request. The caller must call leave afterwards.
func (s *shares) enter(ctx context.Context, n tenant.Name, owner types.UID) (_ context.Context, leave func(), _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.accounts[n]
	if a == nil {
		a = &account{items: map[*item]struct{}{}, owners: map[types.UID]*item{}, at: time.Now()}
		s.accounts[n] = a
	}
	current := a.owners[owner]
	switch {
	case current != nil && current.waits:
		return nil, nil, ErrNotInTurn
	case current != nil: // one more in parallel
	case (a.waiting > 0 || s.slowTime(a, time.Now()) > 0) && (len(a.items) >= s.share() || s.isFull(a)):
		return nil, nil, ErrNotInTurn
	default:
		current = s.begin(a, owner)
	}
	current.requests++
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(current.ctx, func() { cancel(context.Cause(current.ctx)) })
	return ctx, func() {
		stop()
		cancel(nil)
		s.leave(n, a, current)
	}, nil
}

func (s *shares) begin(a *account, owner types.UID) *item {
	begun := &item{owner: owner, began: time.Now()}
	begun.ctx, begun.cancel = context.WithCancelCause(context.Background())
	begun.timer = time.AfterFunc(waitThreshold, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		_, underWay := a.items[begun]
		switch {
		case !underWay: // has just ended
		case s.mayWait(a):
			s.setWaits(a, begun, true)
		default:
			begun.cancel(ErrNotInTurn)
		}
	})
	a.items[begun] = struct{}{}
	if owner != "" {
		a.owners[owner] = begun
	}
	return begun
}

// places is how many items of all tenants may wait.
func (s *shares) places() int { return max(s.workers-max(s.share(), 1), 1) }

// most returns the account with the most waiting items, a if none has more.
func (s *shares) most(a *account) *account {
	for _, other := range s.accounts {
		if other.waiting > a.waiting {
			a = other
		}
	}
	return a
}

// isFull reports whether no item of an account may wait, not even in place of another's.
func (s *shares) isFull(a *account) bool {
	return s.waiting >= s.places() && s.most(a).waiting <= a.waiting+1
}

// mayWait reports whether one more item of an account may wait. When too many of all tenants
// wait, it is in place of the oldest of the tenant that has the most.
func (s *shares) mayWait(a *account) bool {
	switch {
	case a.waiting >= max(s.share(), 1) || s.isFull(a):
		return false
	case s.waiting < s.places():
		return true
	}
	most := s.most(a)
	var oldest *item
	for i := range most.items {
		if i.waits && (oldest == nil || i.began.Before(oldest.began)) {
			oldest = i
		}
	}
	s.setWaits(most, oldest, false)
	oldest.cancel(ErrNotInTurn)
	return true
}

// setWaits notes whether an item of an account waits.
func (s *shares) setWaits(a *account, i *item, waits bool) {
	if i.waits == waits {
		return
	}
	change := 1
	if !waits {
		change = -1
	}
	i.waits = waits
	a.waiting += change
	s.waiting += change
}

func (s *shares) leave(n tenant.Name, a *account, current *item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if current.requests--; current.requests > 0 {
		return
	}
	current.timer.Stop()
	current.cancel(nil)
	delete(a.items, current)
	delete(a.owners, current.owner)
	s.setWaits(a, current, false)
	now := time.Now()
	took := now.Sub(current.began)
	most := max(maxSlowTime, took) * time.Duration(s.workers) / shareDivisor
	a.slow, a.at = min(max(s.slowTime(a, now), 0)+max(took-freeTime, 0), most), now
	s.close(n, a)
}

// close forgets an account that has no requests, once it has no slow time.
func (s *shares) close(n tenant.Name, a *account) {
	if a.forgotten != nil {
		a.forgotten.Stop()
	}
	if len(a.items) > 0 || s.accounts[n] != a {
		return
	}
	if owed := s.slowTime(a, time.Now()); owed > 0 {
		a.forgotten = time.AfterFunc(owed*shareDivisor/time.Duration(s.workers)+1, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.close(n, a)
		})
		return
	}
	delete(s.accounts, n)
}

// roundTrip sends a request of a tenant as part of an item, and reads its response. A
// refused request gets the status that a server would send, but without Retry-After, after
// which clients would wait themselves and hold the worker.
func (s *shares) roundTrip(req *http.Request, n tenant.Name, owner types.UID, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	ctx, leave, err := s.enter(req.Context(), n, owner)
	if err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return refused(req, n)
	}
	defer leave()
	response, err := send(req.WithContext(ctx))
	if err != nil && (errors.Is(err, ErrNotInTurn) || errors.Is(context.Cause(ctx), ErrNotInTurn)) {
		return refused(req, n)
	}
	return response, err
}

func refused(req *http.Request, n tenant.Name) (*http.Response, error) {
	return answered(&http.Response{Proto: "HTTP/2.0", ProtoMajor: 2, Header: http.Header{}, Request: req}, http.StatusTooManyRequests, metav1.Status{
		TypeMeta: statusType,
		Status:   metav1.StatusFailure,
		Reason:   metav1.StatusReasonTooManyRequests,
		Code:     http.StatusTooManyRequests,
		Message:  fmt.Sprintf("tenant %q: %v", n, ErrNotInTurn),
	})
}
