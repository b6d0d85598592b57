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

// A controller has a few workers for all tenants. Requests of a worker wait for the
// webhooks of the tenant that they concern: for admission, also of deletions, and for
// the conversion of what is listed or deleted. So that webhooks that hang, or that take
// their time, do not keep all workers from the others, a tenant has a share of them:
//
//   - What a worker is busy with is an item: a request, or all requests in parallel that
//     are about the pods of one owner, if the controller has one worker for them. One
//     that is under way for longer than late is among those that wait, and takes in no
//     further requests. There are as many of these as the share, and always one; others
//     end at once, with an error by which the controller tries again later.
//   - What an item takes beyond quick is a debt, which is paid back as the share of the
//     workers' time. In debt, a tenant has no more items at a time than its share.
//     Where the share is less than a worker that is none, so that after an item that
//     waited for as long as webhooks may be, it is the others' turn.
//
// A tenant whose webhooks are quick has no debt, and as many items as anybody.
//
// There is an account only while a tenant has requests or a debt.

const (
	// quick is what an item may take without a debt.
	quick = 250 * time.Millisecond
	// late is from when on an item waits.
	late = time.Second
	// part is the share of the workers, as a divisor.
	part = 4
	// longest is for how long a debt can last, unless the last item took longer.
	longest = 10 * time.Second
)

// Option is about the requests of a client on the flattened view.
type Option func(*flatteningTransport)

// WithWorkers says that the requests are those of a controller's workers, of which each
// tenant whose webhooks do not answer in time has a share. Events are recorded by one
// worker of their own. ownerOf returns the UID of what controls a pod of the flattened
// view, if it is known. It is nil unless the pods of one owner are changed by one worker
// at a time, which does so with requests in parallel.
func WithWorkers(workers int, ownerOf func(namespace, pod string) types.UID) Option {
	busy, recorder := newShares(workers), newShares(1)
	return func(t *flatteningTransport) {
		t.workers, t.recorder, t.ownerOf = busy, recorder, ownerOf
	}
}

// sharesFor returns the shares that a request takes part in, nil if in none.
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

// itemOf returns the UID of the owner whose pods a worker is busy with that makes a
// request, empty for a request that is an item of its own. An owner is believed of pods
// alone: their controllers set it, while that of a claim is as the tenant's template says.
func (t *flatteningTransport) itemOf(method string, r *route, body []byte) types.UID {
	switch {
	case t.ownerOf == nil || r.resource[0] != "pods":
		return ""
	case !r.collection:
		return t.ownerOf(tenant.Flatten(r.space, r.namespace).String(), r.resource[1])
	case method == http.MethodPost:
		return types.UID(gjson.GetBytes(body, "metadata.ownerReferences.#(controller==true).uid").String())
	default:
		return ""
	}
}

// shares are those of all tenants in the workers of a controller.
type shares struct {
	workers int

	mu       sync.Mutex
	accounts map[tenant.Name]*account
}

func newShares(workers int) *shares {
	return &shares{workers: workers, accounts: map[tenant.Name]*account{}}
}

// account is what is known about a tenant.
type account struct {
	// items are all, of which those about the pods of an owner are owners, too.
	items   map[*item]struct{}
	owners  map[types.UID]*item
	waiting int
	// debt is the time of workers that was owed at a time.
	debt time.Duration
	at   time.Time
	// forgotten closes the account once the debt is paid.
	forgotten *time.Timer
}

// item is what one worker is busy with.
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

// errShare says that a request was not made, or not finished.
var errShare = errors.New("other requests of this controller for the tenant wait for its webhooks; it tries this one again later")

// share is how many items a tenant may have while others wait, or in debt.
func (s *shares) share() int { return s.workers / part }

// owes returns the debt of an account at a time.
func (s *shares) owes(a *account, now time.Time) time.Duration {
	return a.debt - time.Duration(int64(now.Sub(a.at))*int64(s.workers)/part)
}

// enter begins a request of a tenant, about the pods of an owner if that is not empty.
// The request ends with the context that is returned; leave must be called afterwards.
func (s *shares) enter(ctx context.Context, n tenant.Name, owner types.UID) (_ context.Context, leave func(), _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.accounts[n]
	if own == nil {
		own = &account{items: map[*item]struct{}{}, owners: map[types.UID]*item{}, at: time.Now()}
		s.accounts[n] = own
	}
	current := own.owners[owner]
	switch {
	case current != nil && current.waits:
		return nil, nil, errShare
	case current != nil: // one more in parallel
	case (own.waiting > 0 || s.owes(own, time.Now()) > 0) && len(own.items) >= s.share():
		return nil, nil, errShare
	default:
		current = s.begin(own, owner)
	}
	current.requests++
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(current.ctx, func() { cancel(context.Cause(current.ctx)) })
	return ctx, func() {
		stop()
		cancel(nil)
		s.leave(n, own, current)
	}, nil
}

func (s *shares) begin(own *account, owner types.UID) *item {
	begun := &item{owner: owner, began: time.Now()}
	begun.ctx, begun.cancel = context.WithCancelCause(context.Background())
	begun.timer = time.AfterFunc(late, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		_, underWay := own.items[begun]
		switch {
		case !underWay: // has just ended
		case own.waiting >= max(s.share(), 1):
			begun.cancel(errShare)
		default:
			begun.waits = true
			own.waiting++
		}
	})
	own.items[begun] = struct{}{}
	if owner != "" {
		own.owners[owner] = begun
	}
	return begun
}

func (s *shares) leave(n tenant.Name, own *account, current *item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if current.requests--; current.requests > 0 {
		return
	}
	current.timer.Stop()
	current.cancel(nil)
	delete(own.items, current)
	delete(own.owners, current.owner)
	if current.waits {
		own.waiting--
	}
	now := time.Now()
	took := now.Sub(current.began)
	most := max(longest, took) * time.Duration(s.workers) / part
	own.debt, own.at = min(max(s.owes(own, now), 0)+max(took-quick, 0), most), now
	s.close(n, own)
}

// close forgets an account that has no requests, once it has no debt.
func (s *shares) close(n tenant.Name, own *account) {
	if own.forgotten != nil {
		own.forgotten.Stop()
	}
	if len(own.items) > 0 || s.accounts[n] != own {
		return
	}
	if owed := s.owes(own, time.Now()); owed > 0 {
		own.forgotten = time.AfterFunc(owed*part/time.Duration(s.workers)+1, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.close(n, own)
		})
		return
	}
	delete(s.accounts, n)
}

// roundTrip sends a request of a tenant as part of an item, and reads its answer. What
// is refused is answered as by a server, but without Retry-After, by which clients would
// wait themselves and keep the worker.
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
	if err != nil && errors.Is(context.Cause(ctx), errShare) {
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
		Message:  fmt.Sprintf("tenant %q: %v", n, errShare),
	})
}
