package flowcontrol

import (
	"context"
	"net/http"
	"path"

	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/server/flowcontrol/waiting"
	"github.com/tenantry/tenantry/internal/tenant"
)

// streamed are the subresources of pods by which requests go on where pods run.
var streamed = map[string]bool{"log": true, "exec": true, "attach": true, "portforward": true}

// isStream reports whether a request may go on as the stream of a pod.
func isStream(info *request.RequestInfo) bool {
	return info.IsResourceRequest && info.APIGroup == "" && info.Resource == "pods" && streamed[info.Subresource]
}

// withStream notes that a request may be a stream, by its path: what it is about is not known yet.
func withStream(req *http.Request) *http.Request {
	if !streamed[path.Base(req.URL.Path)] {
		return req
	}
	return req.WithContext(waiting.WithStream(req.Context(), waiting.NewStream()))
}

// Lasting returns which requests last as far as is counted after they have begun: those that are longRunning, and
// streams of pods in spaces, which have a seat until they go on.
func Lasting(longRunning request.LongRunningRequestCheck) request.LongRunningRequestCheck {
	return func(req *http.Request, info *request.RequestInfo) bool {
		return longRunning(req, info) || isForTenant(req.Context()) && isStream(info)
	}
}

// isForTenant reports whether a request is known to be in others than the system space.
func isForTenant(ctx context.Context) bool {
	in, err := tenant.ScopeFrom(ctx)
	return err == nil && in != tenant.System.Scope()
}

// whileSeated has handle give seats to a stream until it goes on, and then no more. Handle may refuse it.
func whileSeated(s *waiting.Stream, handle func(execute func()), execute func()) {
	begins, handled := make(chan struct{}), make(chan any, 1)
	go func() {
		defer func() { handled <- recover() }()
		handle(func() {
			close(begins)
			<-s.On()
		})
	}()
	end := func(problem any) {
		if problem != nil {
			panic(problem)
		}
	}
	select {
	case <-begins:
		defer func() { end(<-handled) }()
		defer s.GoesOn() // at the latest
		execute()
	case problem := <-handled:
		end(problem)
	}
}
