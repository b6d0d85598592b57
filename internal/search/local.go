package search

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/process/signal"
	"github.com/tenantry/tenantry/internal/search/graphql"
	"github.com/tenantry/tenantry/internal/search/index"
	"github.com/tenantry/tenantry/internal/search/rights"
	"github.com/tenantry/tenantry/internal/server/storage"
)

// local finds in an index of this process.
type local struct {
	config  *Config
	watches *watches
	// holder tells this process from others with the same database.
	holder string
	// current is what answers are made of, nil while that is not complete.
	current atomic.Pointer[session]
}

// search implements finder.
func (l *local) search(ctx context.Context, a *asker, asked *question, _ string) (answer *Answer, err error) {
	err = l.read(ctx, a, func(ctx context.Context, v *view) (err error) {
		answer, err = v.answer(ctx, asked)
		return err
	})
	return answer, err
}

// query implements finder. All of the answer is of one state.
func (l *local) query(ctx context.Context, a *asker, operation *graphql.Operation, _ []byte) (answer *response, err error) {
	err = l.read(ctx, a, func(ctx context.Context, v *view) (err error) {
		answer = &response{}
		answer.Data, err = operation.Answer(ctx, &root{view: v, now: time.Now()}, maxAnswer)
		if isForServer(ctx) {
			answer.Shown = refsOf(v.shown)
		}
		return err
	})
	return answer, err
}

// matching implements finder.
func (l *local) matching(ctx context.Context, a *asker, asked *question, _ *graphql.Input) (now states, err error) {
	err = l.read(ctx, a, func(ctx context.Context, v *view) error {
		found, _, err := v.find(ctx, asked)
		if err != nil {
			return err
		}
		if found.More {
			return errTooManyWatched
		}
		objects, err := shownOf(itemsOf(found.Rows))
		if err == nil {
			now, err = newStates(objects)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return now, nil
}

// session implements finder.
func (l *local) session() *session { return l.current.Load() }

// signals implements finder. Where another process writes the index, nobody signals what that has written.
func (l *local) signals() bool {
	current := l.current.Load()
	return current == nil || current.isLeader()
}

// How long after an index that has failed the next one is made: ever longer, because building one is work.
const (
	minPause = time.Second
	maxPause = time.Minute
)

// run implements finder. An index that fails is replaced by a new one.
func (l *local) run(ctx context.Context) {
	keep := true
	for next := minPause; ctx.Err() == nil; {
		began := time.Now()
		if err := l.runOnce(ctx, keep); err != nil && ctx.Err() == nil {
			if keep = isKept(err); keep {
				klog.ErrorS(err, "Search: the index is opened anew")
			} else {
				rebuilds.Inc()
				klog.ErrorS(err, "Search: the index is built anew")
			}
		}
		if next *= 2; time.Since(began) > maxPause {
			next = minPause
		}
		_ = signal.Pause(ctx, min(next, maxPause))
	}
}

// errIndex means that the index is why something has failed.
var errIndex = errors.New("the search index has failed")

// isKept reports whether the index is as it was, whatever has failed.
func isKept(err error) bool {
	if errors.Is(err, errTakeover) || errors.Is(err, index.ErrOvertaken) || errors.Is(err, storage.ErrSealed) {
		return true
	}
	return !errors.Is(err, errIndex) && !errors.Is(err, storage.ErrCompacted)
}

// open opens the database, as it was left if it is kept and there is one, and reports whether this process writes it.
func (l *local) open(ctx context.Context, keep bool) (database *index.Index, leads bool, err error) {
	switch {
	case l.config.Postgres != "":
		database, err = index.OpenPostgres(ctx, l.config.Postgres, l.holder)
	case keep:
		if database, err = index.Reopen(ctx, l.config.Dir); err == nil {
			break
		}
		klog.V(2).InfoS("Search: there is no index to go on with", "err", err)
		fallthrough
	default:
		database, err = index.Open(ctx, l.config.Dir)
	}
	if err != nil {
		return nil, false, err
	}
	database.SetMost(l.config.Objects)
	if leads, err = database.Lead(ctx); err != nil {
		return nil, false, errors.Join(err, database.Close())
	}
	return database, leads, nil
}

// resumable returns the revision since which an index can be continued, zero if it must be made anew.
func (l *local) resumable(ctx context.Context, stream *storage.Stream, p *index.Progress, source string) (int64, error) {
	var last mark
	if !p.Complete || p.Source != source || !last.decode(p.Mark) {
		return 0, nil
	}
	had, err := stream.Had(ctx, last.Key, last.Revision, last.Sum)
	if err != nil || !had {
		return 0, err
	}
	// Nothing but deletions has come behind the mark. If etcd was restored to a state in between, other things have.
	return min(p.All(), last.Revision), nil
}

// begin opens the database and makes a session of it: one that goes on with what is there, if it is kept and can be, or
// compares that with what there is. fail ends it.
func (l *local) begin(ctx context.Context, stream *storage.Stream, keep bool, fail func(error)) (*session, error) {
	config := l.config.Rights
	var err error
	if config.Builtin, err = l.config.Listable(); err != nil {
		return nil, fmt.Errorf("reading which resources there are: %w", err)
	}
	cluster, err := stream.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	source := l.source(cluster)
	database, leads, err := l.open(ctx, keep)
	if err != nil {
		return nil, err
	}
	p, since, compares := index.Progress{}, int64(0), false
	if keep {
		if p, err = database.Progress(ctx); err == nil {
			since, err = l.resumable(ctx, stream, &p, source)
		}
		if err != nil {
			return nil, errors.Join(err, database.Close())
		}
		compares = since == 0 && p.Complete && p.Source == source
		if since == 0 && !compares && !database.Shared() { // a new file is made sooner than one is emptied
			if err := database.Close(); err != nil {
				return nil, err
			}
			if database, leads, err = l.open(ctx, false); err != nil {
				return nil, err
			}
		}
	}
	base, compared := index.Progress{}, (*index.Keys)(nil)
	switch {
	case since > 0:
		base = p
		klog.InfoS("Search: the index is as it was left", "revision", since)
	case compares && leads:
		compared = &index.Keys{}
		klog.InfoS("Search: the index is compared with what there is, because nobody knows all that has become of that since", "revision", p.All())
	}
	return newSession(parts{
		stream: stream, rights: rights.NewState(config), index: database, options: &l.config.Options, watches: l.watches, source: source, fail: fail, since: since,
	}, leads, base, compared), nil
}

// runOnce has an index follow all changes until something fails, one that was left if it is kept and there is one.
func (l *local) runOnce(ctx context.Context, keep bool) (err error) {
	stream, err := l.config.Stream()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	current, err := l.begin(ctx, stream, keep, func(err error) { cancel(fmt.Errorf("%w: %w", errIndex, err)) })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, current.index.Close()) }()
	var working sync.WaitGroup
	defer l.current.Store(nil)
	defer working.Wait()
	defer cancel(nil)
	working.Go(func() {
		if err := current.writer.write(ctx); err != nil && ctx.Err() == nil {
			current.fail(err)
		}
	})
	began := time.Now()
	working.Go(func() {
		if revision, err := current.complete(ctx); err == nil {
			klog.InfoS("Search: the index is complete", "revision", revision, "seconds", time.Since(began).Seconds())
			l.current.Store(current)
			l.watches.changed(sets.New(index.Shared))
			if err := current.settle(ctx); err != nil {
				klog.ErrorS(err, "Search: queries may take longer")
			}
		}
	})
	err = current.run(ctx, stream)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// source says of what an index is: one of another etcd, or with other annotations, is built anew.
func (l *local) source(cluster string) string {
	return fmt.Sprintf("etcd %s, annotations %q, properties %q", cluster, slices.Sorted(slices.Values(l.config.Annotations)), l.config.Properties.String())
}
