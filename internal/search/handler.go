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
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/search/index"
	"github.com/tenantry/tenantry/internal/search/query"
	"github.com/tenantry/tenantry/internal/search/rights"
	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// catchUp is for how long a search waits for the index to have everything that was written before it.
	catchUp = 500 * time.Millisecond
	// attempts is how often an answer is made of rights that change meanwhile.
	attempts = 20
	// attemptPause is between two attempts.
	attemptPause = 5 * time.Millisecond
	// retryAfter is in seconds.
	retryAfter = 1
)

// WithSearch serves searches, and leaves everything else to handler. It stands behind the filters
// that decide whether the user may act in the space.
func (s *Service) WithSearch(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path != Path {
			handler.ServeHTTP(w, req)
			return
		}
		answer, err := s.serve(req)
		if err != nil {
			responsewriters.ErrorNegotiated(err, s.config.Serializer, schema.GroupVersion{Version: "v1"}, w, req)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			klog.V(4).InfoS("Search: the client has gone", "err", err)
		}
	})
}

// asker is who searches, and what for.
type asker struct {
	user        user.Info
	userTenant  tenant.Name
	space       tenant.Name
	query       query.Query
	limit       int
	after       *index.After
	minRevision int64
}

func (s *Service) serve(req *http.Request) (*Answer, error) {
	if req.Method != http.MethodGet {
		return nil, apierrors.NewMethodNotSupported(schema.GroupResource{Resource: "search"}, req.Method)
	}
	ctx, cancel := context.WithTimeout(req.Context(), s.config.Limits.Time)
	defer cancel()
	a, err := newAsker(ctx, req.URL.Query())
	if err != nil {
		return nil, err
	}
	a.limit = min(a.limit, s.config.Limits.Rows)
	release, err := s.turns.take(ctx, a)
	if err != nil {
		return nil, unavailable(fmt.Sprintf("other searches of tenant %q take too long; try again", a.userTenant))
	}
	defer release()
	defer observe(a, time.Now())
	if s.remote != nil {
		return s.answerRemotely(ctx, req, a)
	}
	select {
	case s.running <- struct{}{}:
		defer func() { <-s.running }()
	case <-ctx.Done():
		return nil, unavailable("other searches take too long; try again")
	}
	current := s.current.Load()
	if current == nil {
		return nil, unavailable("the search index is not complete yet; try again")
	}
	answer, err := s.answer(ctx, current, a)
	switch {
	case err == nil:
		return answer, nil
	case req.Context().Err() == nil && ctx.Err() != nil:
		return nil, unavailable(fmt.Sprintf("the search has taken %s, and is ended; use more filters", s.config.Limits.Time))
	default:
		return nil, err
	}
}

func newAsker(ctx context.Context, parameters url.Values) (*asker, error) {
	a := &asker{limit: DefaultLimit}
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
	for name := range parameters {
		if !slices.Contains([]string{ParameterQuery, ParameterLimit, ParameterContinue, ParameterMinRevision}, name) {
			return nil, badRequest(fmt.Errorf("unknown parameter %q", name))
		}
	}
	if a.query, err = query.Parse(parameters.Get(ParameterQuery), time.Now()); err != nil {
		return nil, badRequest(fmt.Errorf("%s: %w", ParameterQuery, err))
	}
	if a.after, err = parseContinue(parameters.Get(ParameterContinue)); err != nil {
		return nil, badRequest(fmt.Errorf("%s: %w", ParameterContinue, err))
	}
	if text := parameters.Get(ParameterLimit); text != "" {
		if a.limit, err = strconv.Atoi(text); err != nil || a.limit < 1 || a.limit > MaxLimit {
			return nil, badRequest(fmt.Errorf("%s: %q is no number from 1 to %d", ParameterLimit, text, MaxLimit))
		}
	}
	if text := parameters.Get(ParameterMinRevision); text != "" {
		if a.minRevision, err = strconv.ParseInt(text, 10, 64); err != nil || a.minRevision < 0 {
			return nil, badRequest(fmt.Errorf("%s: %q is no resource version", ParameterMinRevision, text))
		}
	}
	return a, nil
}

// errChanged means that the rights have changed while an answer was made.
var errChanged = errors.New("rights change all the time; try again")

// errRefused means that the authorizer does not allow what the rights say. It is behind them for a moment after
// a change, because its indexes follow the watch caches.
var errRefused = fmt.Errorf("the authorizer refuses an object: %w", errChanged)

// answer makes an answer of rights that are not older than the request.
func (s *Service) answer(ctx context.Context, current *session, a *asker) (*Answer, error) {
	revision, err := current.revisions.now(ctx)
	if err != nil {
		return nil, unavailable(fmt.Sprintf("it cannot be known which rights hold now: %v", err))
	}
	if a.minRevision > revision {
		return nil, badRequest(fmt.Errorf("%s: %d is still to come, and nobody can have seen it: the last one is %d", ParameterMinRevision, a.minRevision, revision))
	}
	began := time.Now()
	if err := current.told.wait(ctx, revision); err != nil {
		return nil, unavailable("the rights that hold now are not known yet; try again")
	}
	if err := current.catchUp(ctx, max(revision, a.minRevision)); err != nil {
		return nil, err
	}
	lag.Observe(time.Since(began).Seconds())
	for range attempts {
		var answer *Answer
		if answer, err = s.try(ctx, current, a); !errors.Is(err, errChanged) {
			return answer, err
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
	if errors.Is(err, errRefused) {
		klog.ErrorS(nil, "Search: the authorizer does not allow what the rights say", "space", a.space, "userTenant", a.userTenant, "user", a.user.GetName())
	}
	return nil, unavailable(errChanged.Error())
}

// catchUp waits for the index, for a while: objects may lag behind, but not behind the last change of rights,
// and not behind a revision that the caller has seen.
func (c *session) catchUp(ctx context.Context, revision int64) error {
	short, cancel := context.WithTimeout(ctx, catchUp)
	defer cancel()
	if err := c.wait(short, revision); err != nil && short.Err() == nil {
		return unavailable(fmt.Sprintf("the search index cannot be read: %v", err))
	}
	return ctx.Err()
}

// try makes an answer of one state of the rights.
func (s *Service) try(ctx context.Context, current *session, a *asker) (*Answer, error) {
	version, stable := current.rights.Version(a.space, a.userTenant)
	if !stable {
		return nil, errChanged
	}
	if err := current.admits(ctx, a); err != nil {
		return nil, err
	}
	visible, err := current.rights.Compile(ctx, a.user, a.space)
	if err != nil {
		return nil, compileError(err)
	}
	needed := max(version.Revision, a.minRevision)
	if err := current.wait(ctx, needed); err != nil {
		return nil, unavailable("the search index has not got far enough yet; try again")
	}
	answer := &Answer{Items: []Item{}}
	found, err := current.index.Select(ctx, index.Selection{
		Space: a.space, Shared: a.space.IsSpace() && !current.rights.Terminating(a.space),
		Visible: visible, Query: a.query, Limit: a.limit, After: a.after,
	})
	if err != nil {
		if current.index.Broken() {
			current.fail(err)
		}
		return nil, unavailable(fmt.Sprintf("the search index cannot be read: %v", err))
	}
	// The database may have come back in an earlier state.
	if answer.Revision = current.covered(found.Revision); answer.Revision < needed {
		return nil, errChanged
	}
	allowed := s.confirm(ctx, current.rights.Served, a, found.Rows)
	if now, stable := current.rights.Version(a.space, a.userTenant); !stable || now != version {
		return nil, errChanged
	}
	if !allowed {
		return nil, errRefused
	}
	answer.Count = found.Count
	for i := range found.Rows {
		answer.Items = append(answer.Items, newItem(&found.Rows[i]))
	}
	if found.More {
		answer.Continue = newContinue(&found.Rows[len(found.Rows)-1])
	}
	if visible.Incomplete != "" {
		answer.Messages = append(answer.Messages, visible.Incomplete)
	}
	return answer, nil
}

func compileError(err error) error {
	if errors.Is(err, rights.ErrNotEnumerable) || errors.Is(err, rights.ErrTooLarge) {
		return apierrors.NewGenericServerResponse(http.StatusNotImplemented, "search", schema.GroupResource{Resource: "search"}, "", err.Error(), 0, true)
	}
	return apierrors.NewInternalError(fmt.Errorf("finding out what the user may list: %w", err))
}

// admits returns an error if the space does not take the request as of the revision of the rights. The
// filters in front have looked at it a moment ago.
func (c *session) admits(ctx context.Context, a *asker) error {
	if !a.space.IsSpace() {
		return nil
	}
	uid, known := tenant.UIDFrom(ctx, a.space)
	if !known || uid != c.rights.UID(a.space) || a.userTenant != tenant.System && c.rights.Suspended(a.space) {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "tenants"}, string(a.space),
			fmt.Errorf("tenant %q has been suspended or deleted meanwhile", a.space))
	}
	return nil
}

// confirm reports whether the server's authorizer allows every row, too. It is a second line of defense. A service has none, and the server that asks it does this.
func (s *Service) confirm(ctx context.Context, served func(schema.GroupResource) []schema.GroupResource, a *asker, rows []index.Row) bool {
	if s.config.Authorizer == nil {
		return true
	}
	own := *tenant.RequestFrom(ctx) // it notes what it decides
	ctx = tenant.WithRequest(ctx, &own)
	return !slices.ContainsFunc(rows, func(row index.Row) bool {
		return ctx.Err() != nil || !slices.ContainsFunc(served(row.Resource), func(served schema.GroupResource) bool {
			decision, _, err := s.config.Authorizer.Authorize(ctx, authorizer.AttributesRecord{
				User: a.user, Verb: "list", APIGroup: served.Group, APIVersion: "*", Resource: served.Resource,
				Namespace: row.Namespace, Name: row.Name, ResourceRequest: true,
			})
			return err == nil && decision == authorizer.DecisionAllow
		})
	})
}

func badRequest(err error) error { return apierrors.NewBadRequest(err.Error()) }

func unavailable(message string) error {
	err := apierrors.NewServiceUnavailable(message)
	err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: retryAfter}
	return err
}

// RequireUser refuses searches without credentials, with 401, whatever else is open to anonymous users.
func RequireUser(delegate authenticator.Request) authenticator.Request {
	return authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		response, ok, err := delegate.AuthenticateRequest(req)
		if ok && req.URL.Path == Path && slices.Contains(response.User.GetGroups(), user.AllUnauthenticated) {
			return nil, false, nil
		}
		return response, ok, err
	})
}
