package search

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/search/graphql"
	"github.com/tenantry/tenantry/internal/search/index"
	"github.com/tenantry/tenantry/internal/search/rights"
	"github.com/tenantry/tenantry/internal/tenant"
)

// errChanged means that the rights have changed while an answer was made.
var errChanged = errors.New("rights change all the time; try again")

// errRefused means that the authorizer does not allow what the rights say. It is behind them for a moment after
// a change, because its indexes follow the watch caches.
var errRefused = fmt.Errorf("the authorizer refuses an object: %w", errChanged)

// view is one state of the rights with one of the database, in which something is read.
type view struct {
	snapshot *index.Snapshot
	scope    index.Scope
	// shown are the places of the rows that somebody is shown, and nothing else of them.
	shown []index.Row
	// revision is the one as of which all that holds, or a later one.
	revision int64
	// incomplete says why there may be more.
	incomplete string
}

// show notes that somebody is shown a row.
func (v *view) show(row *index.Row) {
	v.shown = append(v.shown, index.Row{Space: row.Space, Resource: row.Resource, Namespace: row.Namespace, Name: row.Name})
}

// reading reads something in a view. It is called again if the rights have changed meanwhile.
type reading func(ctx context.Context, v *view) error

// answer has something read of rights that are not older than the request.
func (s *Service) answer(ctx context.Context, current *session, a *asker, read reading) error {
	revision, err := current.revisions.now(ctx)
	if err != nil {
		return unavailable(fmt.Sprintf("it cannot be known which rights hold now: %v", err))
	}
	if a.minRevision > revision {
		return badRequest(fmt.Errorf("%s: %d is still to come, and nobody can have seen it: the last one is %d", ParameterMinRevision, a.minRevision, revision))
	}
	began := time.Now()
	if err := current.follow(ctx, revision); err != nil {
		return unavailable("the rights that hold now are not known yet; try again")
	}
	if err := current.catchUp(ctx, a.space, max(revision, a.minRevision)); err != nil {
		return err
	}
	lag.Observe(time.Since(began).Seconds())
	for pause := attemptPause; ; pause = min(2*pause, maxAttemptPause) {
		version, err := s.try(ctx, current, a, read)
		if !errors.Is(err, errChanged) {
			return err
		}
		again(ctx, current, a, version, pause)
		if ctx.Err() == nil {
			continue
		}
		if errors.Is(err, errRefused) {
			klog.ErrorS(nil, "Search: the authorizer does not allow what the rights say", "space", a.space, "userTenant", a.userTenant, "user", a.user.GetName())
		}
		return errStillChanging
	}
}

// errStillChanging is the answer when there is none in time.
var errStillChanging = unavailable(errChanged.Error())

// again waits until an answer can be made anew: the rights are other ones than those of a version, or some time has passed, after which
// the authorizer or the database may have caught up with them.
func again(ctx context.Context, current *session, a *asker, version rights.Version, pause time.Duration) {
	short, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	_ = current.rights.Await(short, a.space, a.userTenant, version)
}

// catchUp waits for the index, for a while: objects may lag behind, but not behind the last change of rights,
// and not behind a revision that the caller has seen.
func (c *session) catchUp(ctx context.Context, space tenant.Name, revision int64) error {
	short, cancel := context.WithTimeout(ctx, catchUp)
	defer cancel()
	if err := c.wait(short, space, revision); err != nil && short.Err() == nil {
		return unreadable(err)
	}
	return ctx.Err()
}

// try has something read in one view, of a version of the rights.
func (s *Service) try(ctx context.Context, current *session, a *asker, read reading) (rights.Version, error) {
	version, stable := current.rights.Version(a.space, a.userTenant)
	if !stable {
		return version, errChanged
	}
	if err := current.admits(ctx, a); err != nil {
		return version, err
	}
	visible, err := current.rights.Compile(ctx, a.user, a.space)
	if err != nil {
		return version, compileError(err)
	}
	needed := max(version.Revision, a.minRevision)
	if err := current.wait(ctx, a.space, needed); err != nil {
		return version, unavailable("the search index has not got far enough yet; try again")
	}
	v := &view{
		scope:      index.Scope{Space: a.space, Shared: a.space.IsSpace() && !current.rights.Terminating(a.space), Visible: visible},
		incomplete: visible.Incomplete,
	}
	if err := current.view(ctx, v, needed, read); err != nil {
		return version, err
	}
	// A server that asks confirms what it is told with its own authorizer: see remotely.
	allowed := isForServer(ctx) || s.confirm(ctx, current.rights.Served, a, v.shown)
	if now, stable := current.rights.Version(a.space, a.userTenant); !stable || now != version {
		return version, errChanged
	}
	if !allowed {
		return version, errRefused
	}
	return version, nil
}

// view has something read in a view of a database that is not older than a revision.
func (c *session) view(ctx context.Context, v *view, needed int64, read reading) error {
	var failed error
	err := c.index.View(ctx, func(snapshot *index.Snapshot) error {
		v.snapshot, v.revision = snapshot, c.covered(&snapshot.Progress, v.scope.Space)
		if v.revision < needed { // the database may have come back in an earlier state
			failed = errChanged
		} else {
			failed = read(ctx, v)
		}
		return nil
	})
	if err != nil {
		failed = unreadable(err)
	}
	if failed != nil && c.index.Broken() {
		c.fail(failed)
	}
	return failed
}

func unreadable(err error) error {
	if errors.Is(err, index.ErrTooMuch) {
		return errTooMuch
	}
	if refused := graphql.RefusedBy(err); refused != nil {
		return err
	}
	return unavailable(fmt.Sprintf("the search index cannot be read: %v", err))
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

// confirm reports whether the server's authorizer allows every row, too. It is a second line of defense.
func (s *Service) confirm(ctx context.Context, served func(schema.GroupResource) []schema.GroupResource, a *asker, rows []index.Row) bool {
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
