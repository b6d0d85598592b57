package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// own is the space that was asked, and scopes are what may be seen of each that is searched.
	own    tenant.Name
	scopes map[tenant.Name]index.Scope
	// shown are the objects that somebody is shown.
	shown []index.Ref
	// revision is the one as of which all that holds, or a later one.
	revision int64
	// incomplete says why there may be more.
	incomplete string
}

// show notes that somebody is shown a row.
func (v *view) show(row *index.Row) { v.shown = append(v.shown, row.Ref()) }

// reading reads something in a view. It is called again if the rights have changed meanwhile.
type reading func(ctx context.Context, v *view) error

// read has something read of rights that are not older than the request.
func (l *local) read(ctx context.Context, a *asker, read reading) error {
	current := l.current.Load()
	if current == nil {
		return unavailable("the search index is not complete yet; try again")
	}
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
	if err := current.catchUp(ctx, a.all(), max(revision, a.minRevision)); err != nil {
		return err
	}
	lag.Observe(time.Since(began).Seconds())
	for pause := attemptPause; ; pause = min(2*pause, maxAttemptPause) {
		version, err := l.try(ctx, current, a, read)
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

// again waits until an answer can be made anew: the rights are other ones than those of a version, or some time has
// passed, after which the authorizer or the database may have caught up with them. Of several spaces, it looks at the
// first.
func again(ctx context.Context, current *session, a *asker, version rights.Version, pause time.Duration) {
	short, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	first := a.all()[0]
	_ = current.rights.Await(short, first.space, first.userTenant, version)
}

// catchUp waits for the index, for a while: objects may lag behind, but not behind the last change of rights,
// and not behind a revision that the caller has seen.
func (c *session) catchUp(ctx context.Context, places []*asker, revision int64) error {
	short, cancel := context.WithTimeout(ctx, catchUp)
	defer cancel()
	for _, a := range places {
		if err := c.wait(short, a.space, revision); err != nil && short.Err() == nil {
			return unreadable(err)
		}
	}
	return ctx.Err()
}

// try has something read in one view, of one version of the rights in each space. It returns that of the first.
func (l *local) try(ctx context.Context, current *session, a *asker, read reading) (rights.Version, error) {
	all := a.all()
	versions, stable := current.versions(all)
	first := versions[0]
	if !stable {
		return first, errChanged
	}
	v, needed := &view{own: a.space, scopes: map[tenant.Name]index.Scope{}}, a.minRevision
	for i, in := range all {
		if err := current.enter(ctx, v, in); err != nil {
			return first, err
		}
		needed = max(needed, versions[i].Revision)
	}
	for _, in := range all {
		if err := current.wait(ctx, in.space, needed); err != nil {
			return first, unavailable("the search index has not got far enough yet; try again")
		}
	}
	if err := current.view(ctx, v, needed, read); err != nil {
		return first, err
	}
	// A server that asks confirms what it is told with its own authorizer: see remote.
	allowed := isForServer(ctx) || l.config.confirm(ctx, current.rights.Served, a, v.shown)
	if now, stable := current.versions(all); !stable || !slices.Equal(now, versions) {
		return first, errChanged
	}
	if !allowed {
		return first, errRefused
	}
	return first, nil
}

// versions returns those of the rights in each space, and false while some are being changed.
func (c *session) versions(places []*asker) ([]rights.Version, bool) {
	versions, all := make([]rights.Version, len(places)), true
	for i, a := range places {
		version, stable := c.rights.Version(a.space, a.userTenant)
		versions[i], all = version, all && stable
	}
	return versions, all
}

// enter adds to a view what somebody may see of a space.
func (c *session) enter(ctx context.Context, v *view, a *asker) error {
	if err := c.admits(a); err != nil {
		return err
	}
	visible, err := c.rights.Compile(a.in(ctx), a.user, a.space)
	if err != nil {
		return compileError(err)
	}
	v.scopes[a.space] = index.Scope{Space: a.space, Shared: a.space.IsSpace() && !c.rights.Terminating(a.space), Visible: visible}
	v.incomplete = cmp.Or(v.incomplete, visible.Incomplete)
	return nil
}

// view has something read in a view of a database that is not older than a revision.
func (c *session) view(ctx context.Context, v *view, needed int64, read reading) error {
	var failed error
	err := c.index.View(ctx, func(snapshot *index.Snapshot) error {
		v.snapshot, v.revision = snapshot, math.MaxInt64
		for space := range v.scopes {
			v.revision = min(v.revision, c.covered(&snapshot.Progress, space))
		}
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

// errOmitted is the answer where it would not be whole. Who may list nothing of what is left out does not get it.
var errOmitted = &apierrors.StatusError{ErrStatus: metav1.Status{
	Status: metav1.StatusFailure, Code: http.StatusInsufficientStorage, Reason: "InsufficientStorage",
	Message: "a space has more objects than searches take (--search-max-objects), and some that you may list are not in the index: use filters of kind and namespace that leave them out, or delete objects",
}}

func unreadable(err error) error {
	switch {
	case errors.Is(err, index.ErrTooMuch):
		return errTooMuch
	case errors.Is(err, index.ErrOmitted):
		return errOmitted
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
func (c *session) admits(a *asker) error {
	if !a.space.IsSpace() {
		return nil
	}
	uid := a.life
	if uid == "" || uid != c.rights.UID(a.space) || a.userTenant != tenant.System && c.rights.Suspended(a.space) {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "tenants"}, string(a.space),
			fmt.Errorf("tenant %q has been suspended or deleted meanwhile", a.space))
	}
	return nil
}

// confirm reports whether the server's authorizer allows every object, too. It is a second line of defense.
func (c *Config) confirm(ctx context.Context, served func(schema.GroupResource) []schema.GroupResource, a *asker, shown []index.Ref) bool {
	contexts, askers := map[tenant.Name]context.Context{}, map[tenant.Name]*asker{}
	for _, in := range a.all() {
		contexts[in.space], askers[in.space] = in.in(ctx), in
	}
	return !slices.ContainsFunc(shown, func(of index.Ref) bool {
		in := askers[of.Space]
		return ctx.Err() != nil || in == nil || !slices.ContainsFunc(served(of.Resource), func(served schema.GroupResource) bool {
			decision, _, err := c.Authorizer.Authorize(contexts[of.Space], authorizer.AttributesRecord{
				User: in.user, Verb: "list", APIGroup: served.Group, APIVersion: "*", Resource: served.Resource,
				Namespace: of.Namespace, Name: of.Name, ResourceRequest: true,
			})
			return err == nil && decision == authorizer.DecisionAllow
		})
	})
}
