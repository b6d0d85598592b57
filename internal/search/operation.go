package search

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/util/responsewriter"

	"github.com/tenantry/tenantry/internal/search/graphql"
)

// reply is an answer that no client reads as such. There are only errors in it.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// replyOf has a handler serve a request.
func replyOf(handler http.Handler, req *http.Request) *reply {
	w := responsewriter.NewInMemoryResponseWriter()
	handler.ServeHTTP(w, req)
	return &reply{cmp.Or(w.RespCode(), http.StatusOK), w.Header(), w.Data()}
}

func (r *reply) copyTo(w http.ResponseWriter) {
	maps.Copy(w.Header(), r.header)
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body)
}

// refuses reports whether it says that the user may not ask. Others say nothing about that.
func (r *reply) refuses() bool {
	return r.status == http.StatusUnauthorized || r.status == http.StatusForbidden || r.status == http.StatusNotFound
}

// retryAfter returns after what time one may ask again, zero if it does not say so.
func (r *reply) retryAfter() time.Duration {
	seconds, err := strconv.Atoi(r.header.Get("Retry-After"))
	if err != nil {
		return 0
	}
	return time.Duration(min(max(seconds, 0), int(maxRetryAfter.Seconds()))) * time.Second
}

// maxRetryAfter is how long is waited at most, whatever an answer says.
const maxRetryAfter = time.Minute

// message returns what the answer says in text.
func (r *reply) message() string {
	var status struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(r.body, &status) == nil && status.Message != "" {
		return status.Message
	}
	if strings.HasPrefix(r.header.Get("Content-Type"), "text/plain") {
		return strings.TrimSpace(string(r.body))
	}
	return http.StatusText(r.status)
}

// operation is a request by a web socket. It travels in the context of the request, where no client puts it.
type operation struct {
	// body is the request in GraphQL, and request what has been read of it, nil if that is wrong. Without one somebody
	// asks who the user is.
	body    []byte
	request *graphql.Operation
	// reserve waits until there is room for one answer to a query, whatever it has.
	reserve func(ctx context.Context) error
	// next sends an answer, in the room that has been reserved if some has.
	next func(ctx context.Context, answer json.RawMessage) error
	// hold notes how many bytes more it holds, or less.
	hold func(bytes int64)
	// What has become of it: who the user is, what is wrong with the request, and why sending has failed.
	who    *caller
	errors graphql.Errors
	err    error
}

type operationKey struct{}

func withOperation(ctx context.Context, op *operation) context.Context {
	return context.WithValue(ctx, operationKey{}, op)
}

func operationFrom(ctx context.Context) *operation {
	op, _ := ctx.Value(operationKey{}).(*operation)
	return op
}

// LongRunning reports which requests last: subscriptions, and those that others says. All else that is asked for by web
// socket has a seat and an end, as it has without one.
func LongRunning(others request.LongRunningRequestCheck) request.LongRunningRequestCheck {
	return func(req *http.Request, info *request.RequestInfo) bool {
		if op := operationFrom(req.Context()); op != nil {
			return op.request != nil && op.request.IsSubscription()
		}
		return others(req, info)
	}
}
