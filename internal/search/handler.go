package search

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/search/graphql"
	"github.com/tenantry/tenantry/internal/search/index"
	"github.com/tenantry/tenantry/internal/search/query"
	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// catchUp is for how long a search waits for the index to have everything that was written before it.
	catchUp = 500 * time.Millisecond
	// attemptPause is between two attempts to have objects confirmed by the authorizer, which may be behind the rights.
	// It is longer each time, up to maxAttemptPause.
	attemptPause    = 5 * time.Millisecond
	maxAttemptPause = 100 * time.Millisecond
	// retryAfter is in seconds.
	retryAfter = 1
)

// Handler serves searches of servers, and health checks of everybody.
func (s *Service) Handler(servers authenticator.Request) http.Handler {
	searches := s.WithSearch(http.NotFoundHandler())
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/livez", "/healthz":
			fmt.Fprintln(w, "ok")
			return
		case "/readyz":
			if err := s.Ready(req.Context()); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			fmt.Fprintln(w, "ok")
			return
		}
		ctx, err := askedBy(req, servers)
		if err != nil {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		searches.ServeHTTP(w, req.WithContext(ctx))
	})
}

// WithSearch serves searches, and leaves everything else to handler. It stands behind the filters
// that decide whether the user may act in the space.
func (s *Service) WithSearch(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !isPath(req.URL.Path) {
			handler.ServeHTTP(w, req)
			return
		}
		var answer json.RawMessage
		looks, err := look(req.Context())
		switch {
		case looks:
		case req.URL.Path == Path:
			answer, err = s.serve(req)
		default:
			answer, err = s.serveGraphQL(req)
		}
		if errors.Is(err, errNotLetIn) || looks && err == nil { // others answer
			return
		}
		if refused := graphql.RefusedBy(err); refused != nil {
			err = badRequest(refused)
		}
		if err != nil {
			responsewriters.ErrorNegotiated(err, s.config.Serializer, schema.GroupVersion{Version: "v1"}, w, req)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if _, err := w.Write(append(answer, '\n')); err != nil {
			klog.V(4).InfoS("Search: the client has gone", "err", err)
		}
	})
}

// isPath reports whether a path is one of searches.
func isPath(path string) bool { return path == Path || path == GraphQLPath }

// serve answers a search, in JSON. It is encoded in its turn.
func (s *Service) serve(req *http.Request) (json.RawMessage, error) {
	if req.Method != http.MethodGet {
		return nil, apierrors.NewMethodNotSupported(schema.GroupResource{Resource: "search"}, req.Method)
	}
	a, err := newAsker(req.Context())
	if err != nil {
		return nil, err
	}
	asked, err := newQuestion(req.URL.Query())
	if err != nil {
		return nil, badRequest(err)
	}
	if a.minRevision, err = minRevision(req.URL.Query()); err != nil {
		return nil, badRequest(err)
	}
	asked.limit = min(asked.limit, s.config.Limits.Rows)
	spaces, err := searchedBy(asked.query, a.space)
	if err != nil {
		return nil, badRequest(fmt.Errorf("%s: %w", ParameterQuery, err))
	}
	if err := a.enter(req.Context(), spaces); err != nil {
		return nil, err
	}
	var answer json.RawMessage
	err = s.inTurn(req.Context(), a, kindOf(asked.query), func(ctx context.Context) error {
		found, err := s.finder.search(ctx, a, asked, req.URL.RawQuery)
		if err == nil {
			answer, err = encoded(found)
		}
		return err
	})
	return answer, err
}

// inTurn does something when it is the turn of who asks. A tenant does one thing at a time, and for a while at most.
func (s *Service) inTurn(parent context.Context, a *asker, kind string, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(parent, s.config.Limits.Time)
	defer cancel()
	release, err := s.turns.take(ctx, a)
	if err != nil {
		limited.WithLabelValues("concurrency").Inc()
		return unavailable(fmt.Sprintf("other searches of tenant %q take too long; try again", a.userTenant))
	}
	defer release()
	defer observe(kind, time.Now())
	err = do(ctx)
	if errors.Is(err, errOmitted) {
		limited.WithLabelValues("objects").Inc()
	}
	if cause := context.Cause(parent); err != nil && parent.Err() != nil && !errors.Is(cause, parent.Err()) {
		return unavailable(fmt.Sprintf("%v; try again", cause)) // a suspension, which the next answer says
	}
	if err != nil && parent.Err() == nil && ctx.Err() != nil && !errors.Is(err, errStillChanging) {
		limited.WithLabelValues("time").Inc()
		return unavailable(fmt.Sprintf("the search has taken %s, and is ended; use more filters", s.config.Limits.Time))
	}
	return err
}

// asker is who searches, and where.
type asker struct {
	user       user.Info
	userTenant tenant.Name
	space      tenant.Name
	// request is what the request says about tenants, and life the UID of the tenant to whose space it was admitted.
	request tenant.Request
	life    types.UID
	// minRevision is what the answer must not be older than.
	minRevision int64
	// places are who asks in each of the spaces that are searched, itself among them if its own space is. Nil is itself
	// alone.
	places []*asker
}

func newAsker(ctx context.Context) (*asker, error) {
	r := tenant.RequestFrom(ctx)
	if r == nil {
		return nil, badRequest(tenant.ErrNoTenant)
	}
	a := &asker{request: *r}
	var err error
	if a.space, err = tenant.SpaceFrom(ctx); err != nil {
		return nil, badRequest(err)
	}
	if a.userTenant, err = tenant.UserTenant(ctx); err != nil {
		return nil, badRequest(err)
	}
	a.user, _ = request.UserFrom(ctx)
	if a.user == nil || slices.Contains(a.user.GetGroups(), user.AllUnauthenticated) {
		return nil, apierrors.NewUnauthorized("log in to search")
	}
	a.life, _ = tenant.UIDFrom(ctx, a.space)
	return a, nil
}

// all returns who asks in each of the spaces that are searched.
func (a *asker) all() []*asker {
	if len(a.places) == 0 {
		return []*asker{a}
	}
	return a.places
}

// in returns the context of a request to the space of the asker alone, which notes nothing for others.
func (a *asker) in(ctx context.Context) context.Context {
	own := a.request
	ctx = tenant.WithRequest(request.WithUser(ctx, a.user), &own)
	if a.life != "" {
		ctx = tenant.WithUID(ctx, a.space, a.life)
	}
	return ctx
}

// question is what somebody searches for.
type question struct {
	query         query.Query
	order         query.Order
	limit, offset int
	// bytes is how many bytes a page has, zero for as many as it may.
	bytes int
	after *index.After
	// count, items and related are what is wanted. kinds are those of related objects, all if there are none.
	count, items, related bool
	kinds                 []string
}

func newQuestion(parameters url.Values) (*question, error) {
	known := []string{ParameterQuery, ParameterLimit, ParameterContinue, ParameterMinRevision, ParameterOrderBy, ParameterRelated}
	for name := range parameters {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("unknown parameter %q", name)
		}
	}
	asked := &question{limit: defaultLimit, count: true, items: true}
	var err error
	if asked.query, err = query.Parse(parameters.Get(ParameterQuery), time.Now()); err != nil {
		return nil, fmt.Errorf("%s: %w", ParameterQuery, err)
	}
	if asked.order, err = query.ParseOrder(parameters.Get(ParameterOrderBy)); err != nil {
		return nil, fmt.Errorf("%s: %w", ParameterOrderBy, err)
	}
	if asked.after, err = parseContinue(parameters.Get(ParameterContinue), asked.order); err != nil {
		return nil, fmt.Errorf("%s: %w", ParameterContinue, err)
	}
	if text := parameters.Get(ParameterLimit); text != "" {
		if asked.limit, err = strconv.Atoi(text); err != nil || asked.limit < 1 || asked.limit > MaxLimit {
			return nil, fmt.Errorf("%s: %q is no number from 1 to %d", ParameterLimit, text, MaxLimit)
		}
	}
	if text := parameters.Get(ParameterRelated); text != "" {
		asked.related = true
		asked.kinds = kindsOf(strings.Split(text, ","))
	}
	return asked, nil
}

// kindsOf returns the kinds of related objects that are asked for, none for all.
func kindsOf(asked []string) []string {
	if slices.Equal(asked, []string{allKinds}) {
		return nil
	}
	return asked
}

func minRevision(parameters url.Values) (int64, error) {
	text := parameters.Get(ParameterMinRevision)
	if text == "" {
		return 0, nil
	}
	revision, err := strconv.ParseInt(text, 10, 64)
	if err != nil || revision < 0 {
		return 0, fmt.Errorf("%s: %q is no resource version", ParameterMinRevision, text)
	}
	return revision, nil
}

func badRequest(err error) error { return apierrors.NewBadRequest(err.Error()) }

func unavailable(message string) error {
	err := apierrors.NewServiceUnavailable(message)
	err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: retryAfter}
	return err
}

// RequireUser refuses searches without credentials, with 401, whatever else is open to anonymous users. It takes
// tokens without a scheme, as the console sends them.
func RequireUser(delegate authenticator.Request) authenticator.Request {
	return authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		if sent := req.Header.Get("Authorization"); isPath(req.URL.Path) && withScheme(sent) != sent {
			req.Header.Set("Authorization", withScheme(sent)) // what authenticates takes it out
		}
		response, ok, err := delegate.AuthenticateRequest(req)
		if ok && isPath(req.URL.Path) && slices.Contains(response.User.GetGroups(), user.AllUnauthenticated) {
			return nil, false, nil
		}
		return response, ok, err
	})
}
