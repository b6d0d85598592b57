package flowcontrol

import (
	"context"
	"net/http"
	"net/url"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tenantry/tenantry/internal/server/flowcontrol/waiting"
)

type sentKey struct{}

// sent is what upstream's filters do not pass on of a request.
type sent struct {
	url       *url.URL
	bodyBytes int64     // -1 if unknown
	body      *incoming // nil without a body
	// unread ends an answer that the client does not read, nil where that has no end.
	unread *time.Timer
	seat   *levelSeat
	// client is the context of the request without an end of upstream's.
	client context.Context
	// rejection is that of a request that impersonates, nil of others.
	rejection *rejection
}

// hasLargeBody reports whether a request has a large body, or one of unknown
// length.
func (s sent) hasLargeBody() bool { return s.bodyBytes < 0 || s.bodyBytes >= largeBody }

// WithSent records facts about a request for the estimate of its cost, and tracks when it waits for webhooks or its
// client, or goes on as a stream. It ends the wait for a body that does not come, with 408: before the time that
// requests may take, which is timeout, and sooner if the client is slow. And it ends answers that are not read by then:
// upstream's end of a request waits for the write that it is in.
func WithSent(handler http.Handler, timeout time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		req = withStream(req)
		writes := req.Method != http.MethodGet && req.Method != http.MethodHead
		if writes {
			req = req.WithContext(withWork(waiting.With(req.Context(), &waiting.Webhooks{})))
		}
		sent := sent{url: req.URL, bodyBytes: req.ContentLength, seat: &levelSeat{}, client: req.Context()}
		if req.Body != nil && req.ContentLength != 0 {
			sent.body = newIncoming(w, req, timeout)
			defer sent.body.forsake()
			w = WithRejection(w, func(int) *apierrors.StatusError { return sent.body.rejection() })
		}
		answer := http.NewResponseController(w)
		sent.unread = time.AfterFunc(timeout+unreadMargin, func() { _ = answer.SetWriteDeadline(past) })
		defer sent.unread.Stop()
		if len(req.Header[authenticationv1.ImpersonateUserHeader]) > 0 {
			sent.rejection = &rejection{}
			w = WithRejection(w, func(int) *apierrors.StatusError { return sent.rejection.Load() })
		}
		req = req.WithContext(context.WithValue(req.Context(), sentKey{}, sent))
		if sent.body != nil {
			req.Body = sent.body
		}
		handler.ServeHTTP(w, req)
	})
}

// unreadMargin is how much later than upstream's end of a request an answer ends that is not read.
const unreadMargin = 5 * time.Second

// lasts lets a request send and read for as long as it likes.
func (s sent) lasts() {
	s.body.lasts()
	if s.unread != nil {
		s.unread.Stop()
	}
}

// anew returns a context to wait for seats in, which ends with the client. Upstream's ends some time after the request
// has arrived, however long its body took.
func anew(ctx context.Context) (context.Context, context.CancelFunc) {
	client := sentFrom(ctx).client
	if client == nil {
		return ctx, func() {}
	}
	patient, end := context.WithTimeout(context.WithoutCancel(ctx), seatPatience)
	stop := context.AfterFunc(client, end)
	return patient, func() {
		stop()
		end()
	}
}

func sentFrom(ctx context.Context) sent {
	if s, ok := ctx.Value(sentKey{}).(sent); ok {
		return s
	}
	return sent{url: &url.URL{}}
}
