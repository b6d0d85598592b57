package spaces

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/internal/process/shares"
	"github.com/tenantry/tenantry/internal/tenant"
)

// A controller has a few workers for all tenants. A worker's requests wait for the
// webhooks of the tenant that they concern: for admission, also of deletions, and for
// conversion of listed or deleted objects. So that hanging or slow webhooks of a tenant
// do not block all workers, each tenant has a share of them (package shares). An item is a
// request, or all parallel requests about the pods of one owner, if the controller has one
// worker for these.
//
// What tenants owe for all work, slow or not, is a debt, which internal/kubecontrollers counts;
// its tuning.go says when which holds.

// ErrNotInTurn ends requests of a tenant beyond its share, and those that are not its turn.
var ErrNotInTurn = errors.New("this controller has worked long for the tenant, or waits for its webhooks; it tries again later")

func newShares(workers int) *shares.Shares[tenant.Name] {
	return shares.New[tenant.Name](workers, ErrNotInTurn)
}

// Option changes how a client of the flattened view sends requests.
type Option func(*flatteningTransport)

// WithWorkers says that the requests are those of a controller's workers, of which each
// tenant has a share while its webhooks are slow, but for events, which have no webhooks in
// spaces. ownerOf returns the UID of the controlling owner of a pod of the flattened
// view, if it is known. It is nil unless one worker at a time changes the pods of an owner,
// with parallel requests.
func WithWorkers(workers int, ownerOf func(namespace tenant.Flat, pod string) types.UID) Option {
	worker := newShares(workers)
	return func(t *flatteningTransport) {
		t.workers, t.ownerOf, t.hurries = worker, ownerOf, true
	}
}

// WithoutWaits says that a request that a server refuses for now ends with that. By themselves, clients wait for as
// long as the server says and try again, ten times, and hold a worker meanwhile.
func WithoutWaits() Option {
	return func(t *flatteningTransport) { t.hurries = true }
}

// WithShortMessages says that messages in what is written are cut (maxMessage): they may repeat what tenants have said.
// It is not for who writes whole statuses in which others' messages are.
func WithShortMessages() Option {
	return func(t *flatteningTransport) { t.shortens = true }
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

// WithTurns says that requests of workers for a tenant are refused, and tried again later, of which inTurn says by
// their method that it is not the tenant's turn.
func WithTurns(inTurn func(method string, n tenant.Name) bool) Option {
	return func(t *flatteningTransport) { t.inTurn = inTurn }
}

// sharesFor returns the shares that a request is subject to, nil if there are none.
func (t *flatteningTransport) sharesFor(r *route) *shares.Shares[tenant.Name] {
	if !r.space.IsSpace() || isWatch(r.query) || len(r.resource) > 0 && r.resource[0] == "events" {
		return nil
	}
	return t.workers
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

// sendShared sends a request of a tenant as part of an item, and reads its response. A
// refused request gets the status that a server would send, but without Retry-After, after
// which clients would wait themselves and hold the worker.
func sendShared(s *shares.Shares[tenant.Name], req *http.Request, n tenant.Name, owner types.UID, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	ctx, leave, err := s.Enter(req.Context(), n, owner)
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
