package server

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/client-go/kubernetes"

	"github.com/tenantry/tenantry/internal/server/flowcontrol"
	"github.com/tenantry/tenantry/internal/tenant"
)

// readyPoll is how often a starting server is asked whether it is ready.
const readyPoll = 20 * time.Millisecond

// WaitUntilReady returns when the running server answers /readyz, or the error
// of ctx.
func (s *Server) WaitUntilReady(ctx context.Context) error {
	config := s.LoopbackConfig()
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a client of the server itself: %w", err)
	}
	return wait.PollUntilContextCancel(ctx, readyPoll, true, func(ctx context.Context) (bool, error) {
		// Early answers say when to come back, in seconds; the poll is quicker.
		ready := client.RESTClient().Get().AbsPath("/readyz").MaxRetries(0).Do(ctx).Error() == nil
		if ready {
			s.start.over.Store(true)
		}
		return ready, nil
	})
}

// start is the time before a server is ready. Requests wait then for what the server reads, as
// admission plugins do, for ten seconds each. If the server is ended meanwhile, its informers
// end at once, so that the requests would wait in vain, and the server for them.
type start struct {
	over      atomic.Bool
	abandoned context.Context
	abandon   context.CancelFunc
}

func newStart() *start {
	s := &start{}
	s.abandoned, s.abandon = context.WithCancel(context.Background())
	return s
}

// end ends the requests of a server that was never ready.
func (s *start) end() {
	if !s.over.Load() {
		s.abandon()
	}
}

// withEnd ends requests that come before the server is ready when it is ended.
func (s *start) withEnd(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !s.over.Load() {
			ctx, cancel := context.WithCancel(req.Context())
			defer cancel()
			defer context.AfterFunc(s.abandoned, cancel)()
			req = req.WithContext(ctx)
		}
		handler.ServeHTTP(w, req)
	})
}

// withRights answers 503 to requests in a tenant's space until it is known who has which rights there: to all whose URL
// names it, and to others if they would be forbidden. Clients take 403 as final; after 503 they try again. What asks
// about the system space or all spaces is the server itself, by which it gets to know, and administrators, whose group
// has every right.
func withRights(handler http.Handler, known func() bool, serializer runtime.NegotiatedSerializer) http.Handler {
	var over atomic.Bool
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !over.Load() && !known() {
			if _, space := tenant.RequestFrom(req.Context()).Requested.Tenant(); space {
				responsewriters.ErrorNegotiated(errUnknownRights, serializer, schema.GroupVersion{Version: "v1"}, w, req)
				return
			}
			handler.ServeHTTP(flowcontrol.WithRejection(w, func(status int) *apierrors.StatusError { return inUnknownRights(req.Context(), status) }), req)
			return
		}
		over.Store(true)
		handler.ServeHTTP(w, req)
	})
}

// errUnknownRights has clients try again.
var errUnknownRights = func() *apierrors.StatusError {
	err := apierrors.NewServiceUnavailable("the server has just started, and does not know yet who has which rights here; try again")
	err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	return err
}()

// inUnknownRights returns errUnknownRights for an answer that forbids a request in a tenant's space, which its
// credentials alone may name.
func inUnknownRights(ctx context.Context, status int) *apierrors.StatusError {
	if n, err := tenant.SpaceFrom(ctx); status == http.StatusForbidden && err == nil && n.IsSpace() {
		return errUnknownRights
	}
	return nil
}
