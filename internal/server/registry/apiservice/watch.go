package apiservice

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"
)

// watcher sends events of APIServices that are added and deleted.
type watcher struct {
	*watch.ProxyWatcher
	events chan<- watch.Event
	// after returns what there is, the known ones if nothing has changed.
	after     func(known *services) (*services, error)
	predicate storage.SelectionPredicate
	// marked is whether the client wants the bookmark after the initial events.
	marked bool
}

func newWatcher(after func(*services) (*services, error), opts storage.ListOptions) *watcher {
	events := make(chan watch.Event)
	return &watcher{
		ProxyWatcher: watch.NewProxyWatcher(events), events: events, after: after, predicate: opts.Predicate,
		marked: opts.SendInitialEvents != nil && *opts.SendInitialEvents,
	}
}

// run sends changes after known until the watch ends, and known itself first if begin is
// true.
func (w *watcher) run(ctx context.Context, known *services, begin bool, changed <-chan struct{}) {
	defer close(w.events)
	before := &services{}
	if !begin {
		before = known
	}
	for {
		if err := w.sendChanges(ctx, before, known); err != nil {
			w.sendError(ctx, err)
			return
		}
		if begin && w.marked && w.predicate.AllowWatchBookmarks {
			w.send(ctx, watch.Event{Type: watch.Bookmark, Object: &apiregistration.APIService{ObjectMeta: metav1.ObjectMeta{
				ResourceVersion: known.version, Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
			}}})
		}
		begin = false
		select {
		case <-ctx.Done():
			return
		case <-w.StopChan():
			return
		case <-changed:
		}
		next, err := w.after(known)
		if err != nil {
			w.sendError(ctx, err)
			return
		}
		before, known = known, next
	}
}

// sendChanges sends the differences of two states.
func (w *watcher) sendChanges(ctx context.Context, before, after *services) error {
	if before == after {
		return nil
	}
	old, err := before.matching(w.predicate)
	if err != nil {
		return err
	}
	current, err := after.matching(w.predicate)
	if err != nil {
		return err
	}
	had, has := namesOf(old), namesOf(current)
	for i := range old {
		if !has.Has(old[i].Name) {
			gone := old[i].DeepCopy()
			gone.ResourceVersion = after.version
			w.send(ctx, watch.Event{Type: watch.Deleted, Object: gone})
		}
	}
	for i := range current {
		if !had.Has(current[i].Name) {
			w.send(ctx, watch.Event{Type: watch.Added, Object: current[i].DeepCopy()})
		}
	}
	return nil
}

func namesOf(services []apiregistration.APIService) sets.Set[string] {
	names := make(sets.Set[string], len(services))
	for i := range services {
		names.Insert(services[i].Name)
	}
	return names
}

func (w *watcher) sendError(ctx context.Context, err error) {
	status := apierrors.NewInternalError(err)
	_ = errors.As(err, &status)
	w.send(ctx, watch.Event{Type: watch.Error, Object: &status.ErrStatus})
}

func (w *watcher) send(ctx context.Context, event watch.Event) {
	select {
	case w.events <- event:
	case <-ctx.Done():
	case <-w.StopChan():
	}
}
