package search

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tenantry/tenantry/internal/process/signal"
	"github.com/tenantry/tenantry/internal/search/graphql"
	"github.com/tenantry/tenantry/internal/search/index"
	"github.com/tenantry/tenantry/internal/search/query"
	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// maxWatched is how many objects a subscription is about at most, maxWatchedBytes how many bytes of JSON these are,
	// which are kept while it lasts, and maxWatches how many subscriptions a tenant has on a server.
	maxWatched      = 2000
	maxWatchedBytes = 4 << 20
	maxWatches      = 20
	// watchPause is between two searches of a subscription. Those of a tenant are made one after the other.
	watchPause = time.Second
	// watchPoll is between two of them where another process writes the index.
	watchPoll = 3 * time.Second
)

// caller is who somebody is, as far as rights depend on it.
type caller struct {
	tenant    tenant.Name
	name, uid string
	groups    []string
	extra     map[string][]string
}

func newCaller(a *asker) *caller {
	return &caller{tenant: a.userTenant, name: a.user.GetName(), uid: a.user.GetUID(), groups: slices.Sorted(slices.Values(a.user.GetGroups())), extra: a.user.GetExtra()}
}

// equals leaves out what differs between two tokens of one user.
func (c *caller) equals(other *caller) bool {
	return c.tenant == other.tenant && c.name == other.name && c.uid == other.uid && slices.Equal(c.groups, other.groups) &&
		reflect.DeepEqual(c.extra[tenant.UserExtraKey], other.extra[tenant.UserExtraKey])
}

// serveOperation serves what a client asks for by a web socket.
func (s *Service) serveOperation(ctx context.Context, op *operation) error {
	a, err := newAsker(ctx)
	if err != nil {
		return err
	}
	op.who = newCaller(a)
	if op.body == nil {
		return nil
	}
	switch {
	case op.request == nil: // op.errors says why
		return nil
	case op.request.IsSubscription():
		err = s.watch(ctx, a, op, op.request)
	default:
		err = s.queryOnce(ctx, a, op, op.request)
	}
	if errs := graphql.RefusedBy(err); errs != nil {
		op.errors = errs
		return nil
	}
	return err
}

// queryOnce sends the answer to a query, for which there is room before it is made.
func (s *Service) queryOnce(ctx context.Context, a *asker, op *operation, request *graphql.Operation) error {
	if err := s.enter(ctx, a, request); err != nil { // before there is room for the answer, because it may come again
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, s.config.Limits.Time)
	defer cancel()
	if op.reserve(waiting) != nil {
		return unavailable(fmt.Sprintf("other searches of tenant %q take too long, or their answers are not read; try again", a.userTenant))
	}
	answer, err := s.query(ctx, a, request, op.body)
	if err == nil {
		op.err = op.next(ctx, answer)
	}
	return err
}

// watch sends what changes of what a subscription is about, until ctx ends.
func (s *Service) watch(ctx context.Context, a *asker, op *operation, request *graphql.Operation) error {
	input, shown, err := request.Watch(maxEvent)
	if err != nil {
		return err
	}
	asked, err := (&root{now: time.Now()}).questionOf(&input)
	if err != nil {
		return err
	}
	if spaces, err := searchedBy(asked.query, a.space); err != nil || len(spaces) != 1 || spaces[0] != a.space {
		return graphql.Refuse(cmp.Or(err, errOneSpace))
	}
	asked.limit, asked.items, asked.order, asked.offset, asked.bytes = maxWatched, true, query.Order{}, 0, maxWatchedBytes
	own, release, err := s.watches.begin(a)
	if err != nil {
		return err
	}
	defer release()
	op.hold(watchBytes)
	defer op.hold(-watchBytes)
	w := &watching{Service: s, watched: own, asker: a, asked: asked, input: input, hold: op.hold, send: func(event graphql.Event) error {
		data, err := shown(event)
		if err != nil {
			return err
		}
		answer, err := json.Marshal(response{Data: data})
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		op.err = op.next(ctx, answer)
		return op.err
	}}
	defer func() { w.hold(-w.known.bytes()) }()
	return w.run(ctx)
}

var errOneSpace = errors.New("a subscription is about one space: subscribe below the root of each")

// watching is one subscription.
type watching struct {
	*Service
	*watched
	asker *asker
	asked *question
	input graphql.Input
	send  func(event graphql.Event) error
	// hold notes how many bytes more, or less, are known.
	hold func(bytes int64)
	// known are the objects that the client has been told of, or that were there before, nil before they are known.
	known states
}

// states are objects as the client sees them, by what they are.
type states map[string]state

// state is an object in JSON, whose fields are in order, so that the same one has the same bytes.
type state struct {
	uid  string
	data json.RawMessage
}

// bytes returns how much memory they take.
func (s states) bytes() (bytes int64) {
	for key, of := range s {
		bytes += int64(len(key)+len(of.data)) + stateBytes
	}
	return bytes
}

// newStates returns the states of objects in JSON.
func newStates(objects []json.RawMessage) (states, error) {
	all, size := states{}, 0
	for _, object := range objects {
		var of struct {
			UID       string `json:"_uid"`
			APIGroup  string
			Resource  string
			Namespace string
			Name      string
		}
		if err := json.Unmarshal(object, &of); err != nil {
			return nil, unavailable("the search service has broken off its answer; try again")
		}
		if size += len(object); size > maxWatchedBytes {
			return nil, errTooManyWatched
		}
		all[fmt.Sprintf("%q %q %q %q", of.APIGroup, of.Resource, of.Namespace, of.Name)] = state{of.UID, object}
	}
	return all, nil
}

// run searches whenever something has changed, and not more often than once in a while. What the client is told is what
// differs, so that rights that have gone look as objects that have.
func (w *watching) run(ctx context.Context) error {
	for {
		err := w.look(ctx)
		retry := apierrors.IsServiceUnavailable(err)
		switch {
		case ctx.Err() != nil: // the client has ended it
			return nil
		case err != nil && !retry:
			return err
		}
		if signal.Pause(ctx, w.watches.pause) != nil {
			return nil
		}
		if retry {
			continue
		}
		select {
		case <-w.signal:
		case <-w.poll():
		case <-ctx.Done():
			return nil
		}
	}
}

// poll returns what is signalled when it is to be looked at whether something has changed, nil if changes are
// signalled.
func (w *watching) poll() <-chan time.Time {
	if w.finder.signals() {
		return nil
	}
	return time.After(watchPoll)
}

// look searches, and tells what has changed.
func (w *watching) look(ctx context.Context) error {
	now, err := w.search(ctx)
	gone := apierrors.IsForbidden(err) // so has all that could be seen
	if err != nil && !gone {
		return err
	}
	w.hold(now.bytes())
	former := now // if it is not told
	defer func() { w.hold(-former.bytes()) }()
	if w.known != nil {
		for _, event := range changes(w.known, now, time.Now()) {
			if err := w.send(event); err != nil {
				return err
			}
		}
	}
	former, w.known = w.known, now
	w.knows.Store(true)
	return err
}

var errTooManyWatched = graphql.Refuse(fmt.Errorf("more than %d objects match, or more than %d MiB of them, and a subscription has no more; use more filters", maxWatched, maxWatchedBytes>>20))

func (w *watching) search(ctx context.Context) (now states, err error) {
	err = w.inTurn(ctx, w.asker, ofWatch, func(ctx context.Context) (err error) {
		now, err = w.finder.matching(ctx, w.asker, w.asked, &w.input)
		return err
	})
	return now, err
}

// changes returns the events between two states, in the order of what objects are.
func changes(before, now states, at time.Time) []graphql.Event {
	var events []graphql.Event
	add := func(operation, uid string, before, now json.RawMessage) {
		event := graphql.Event{"uid": uid, "operation": operation, "timestamp": at.UTC().Format(time.RFC3339Nano), "oldData": nil, "newData": nil}
		for name, data := range map[string]json.RawMessage{"oldData": before, "newData": now} {
			if data != nil {
				event[name] = data
			}
		}
		events = append(events, event)
	}
	all := maps.Clone(before)
	maps.Copy(all, now)
	for _, key := range sortedKeys(all) {
		former, was := before[key]
		latter, is := now[key]
		switch {
		case was && is && former.uid == latter.uid:
			if !bytes.Equal(former.data, latter.data) {
				add("UPDATE", latter.uid, former.data, latter.data)
			}
			continue
		case was:
			add("DELETE", former.uid, former.data, nil)
		}
		if is {
			add("INSERT", latter.uid, nil, latter.data)
		}
	}
	return events
}

// watches are the subscriptions of a server, which are told when something may have changed for them.
type watches struct {
	// pause is between two searches of a subscription.
	pause time.Duration

	mu  sync.Mutex
	all map[*watched]struct{}
}

type watched struct {
	space, userTenant tenant.Name
	// signal has it looked again.
	signal signal.Flag
	// knows is whether it knows what there is.
	knows atomic.Bool
}

var errTooManyWatches = graphql.Refuse(errors.New("the tenant has too many subscriptions; end others"))

// begin returns what is signalled when something may have changed, from now on, until it is released.
func (w *watches) begin(a *asker) (own *watched, release func(), err error) {
	own = &watched{space: a.space, userTenant: a.userTenant, signal: signal.NewFlag()}
	w.mu.Lock()
	defer w.mu.Unlock()
	of := 0
	for other := range w.all {
		if other.userTenant == a.userTenant {
			of++
		}
	}
	if of >= maxWatches {
		return nil, nil, errTooManyWatches
	}
	if w.all == nil {
		w.all = map[*watched]struct{}{}
	}
	w.all[own] = struct{}{}
	return own, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.all, own)
	}, nil
}

// changed tells those who watch one of the spaces, or everybody if what all spaces have has changed.
func (w *watches) changed(spaces sets.Set[tenant.Name]) {
	if len(spaces) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for watched := range w.all {
		if spaces.Has(index.Shared) || spaces.Has(watched.space) {
			watched.signal.Raise()
		}
	}
}

// rightsChanged tells those whose rights may have changed: by what their space has, or their tenant.
func (w *watches) rightsChanged(in tenant.Scope) {
	if in == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for watched := range w.all {
		if in == tenant.Everything || in == watched.space.Scope() || in == watched.userTenant.Scope() {
			watched.signal.Raise()
		}
	}
}
