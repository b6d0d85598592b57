package search

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/search/index"
	"github.com/tenantry/tenantry/internal/search/properties"
	"github.com/tenantry/tenantry/internal/search/rights"
	"github.com/tenantry/tenantry/internal/server/storage"
)

// Options are what an administrator chooses.
type Options struct {
	// Dir is the directory of the index, which belongs to it alone. What is there is continued if it can be, and removed otherwise.
	Dir string
	// Postgres, if not empty, is a file with the connection string of a PostgreSQL that has the index instead. Several processes may use it: one
	// of them writes.
	Postgres string
	// Remote, if it has servers, is the service that searches, instead of this process.
	Remote RemoteOptions
	// Limits bound what one tenant may take.
	Limits Limits
	// Annotations are those that are searched and shown. None by default: annotations hold copies of whole objects.
	Annotations []string
	// Objects is how many objects of a tenant's space are in the index at most, zero for any number. A search that would show others is refused.
	Objects int64
	// Properties are those that objects have besides what kubectl prints of them.
	Properties properties.List
}

// Validate returns what is wrong with the options.
func (o Options) Validate() []error {
	var errs []error
	if slices.Contains(o.Annotations, lastApplied) {
		errs = append(errs, fmt.Errorf("--search-annotations: annotation %s has a copy of the whole object, with the data of Secrets, and cannot be searched; leave it out", lastApplied))
	}
	for _, key := range o.Annotations {
		if wrong := validation.IsQualifiedName(strings.ToLower(key)); len(wrong) > 0 {
			errs = append(errs, fmt.Errorf("--search-annotations: %q is not the key of an annotation: %s", key, strings.Join(wrong, "; ")))
		}
	}
	if o.Objects < 0 {
		errs = append(errs, fmt.Errorf("--search-max-objects is %d, and must not be negative; 0 is for any number", o.Objects))
	}
	for _, err := range []error{o.Remote.Validate(), o.Limits.Validate()} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// DefaultObjects is how many objects of a tenant's space are in the index without a flag.
const DefaultObjects = 1_000_000

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Config is what search is made of.
type Config struct {
	Options
	// Stream returns the changes of all objects.
	Stream func() (*storage.Stream, error)
	// Rights is what decides rights and is not stored. Listable returns the built-in resources.
	Rights   rights.Config
	Listable func() ([]rights.Resource, error)
	// Authorizer is the server's. It is asked about every object of an answer once more.
	Authorizer authorizer.UnconditionalAuthorizer
	// Serializer encodes errors.
	Serializer runtime.NegotiatedSerializer
}

// Service is the search of one server.
type Service struct {
	config Config
	// holder tells this process from others with the same database.
	holder string
	// current is what answers are made of, nil while that is not complete.
	current atomic.Pointer[session]
	turns   turns
	// remote is what searches, nil if it is this process.
	remote  *remote
	sockets sockets
	watches watches
}

// New returns a service that answers nothing before Run, unless another process searches, see Handler.
func New(config Config) (*Service, error) {
	config.Limits = config.Limits.orDefaults()
	elsewhere, err := remoteOf(config.Remote)
	if err != nil {
		return nil, err
	}
	return &Service{
		config: config, holder: index.NewHolder(), turns: newTurns(config.Limits), remote: elsewhere,
		sockets: sockets{renewal: renewEvery, ended: make(chan struct{}), held: held{most: config.Limits.SocketBytes}}, watches: watches{pause: watchPause},
	}, nil
}

// How long after an index that has failed the next one is made: ever longer, because building one is work.
const (
	minPause = time.Second
	maxPause = time.Minute
)

// Run keeps an index until ctx ends. One that fails is replaced by a new one. It runs once.
func (s *Service) Run(ctx context.Context) {
	defer close(s.sockets.ended)
	if s.remote != nil { // another process has the index
		<-ctx.Done()
		return
	}
	keep := true
	for next := minPause; ctx.Err() == nil; {
		began := time.Now()
		if err := s.runOnce(ctx, keep); err != nil && ctx.Err() == nil {
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
		select {
		case <-time.After(min(next, maxPause)):
		case <-ctx.Done():
		}
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
func (s *Service) open(ctx context.Context, keep bool) (database *index.Index, leads bool, err error) {
	switch {
	case s.config.Postgres != "":
		database, err = index.OpenPostgres(ctx, s.config.Postgres, s.holder)
	case keep:
		if database, err = index.Reopen(ctx, s.config.Dir); err == nil {
			break
		}
		klog.V(2).InfoS("Search: there is no index to go on with", "err", err)
		fallthrough
	default:
		database, err = index.Open(ctx, s.config.Dir)
	}
	if err != nil {
		return nil, false, err
	}
	database.SetMost(s.config.Objects)
	if leads, err = database.Lead(ctx); err != nil {
		return nil, false, errors.Join(err, database.Close())
	}
	return database, leads, nil
}

// resumable returns the revision since which an index can be continued, zero if it must be made anew.
func (s *Service) resumable(ctx context.Context, stream *storage.Stream, p *index.Progress, identity string) (int64, error) {
	var last mark
	if !p.Complete || p.Identity != identity || !last.decode(p.Mark) {
		return 0, nil
	}
	had, err := stream.Had(ctx, last.Key, last.Revision, last.Sum)
	if err != nil || !had {
		return 0, err
	}
	// Nothing but deletions has come behind the mark. If etcd was restored to a state in between, other things have.
	return min(p.All(), last.Revision), nil
}

// begin opens the database and makes a session of it: one that goes on with what is there, if it is kept and can be, or compares that with what
// there is. fail ends it.
func (s *Service) begin(ctx context.Context, stream *storage.Stream, keep bool, fail func(error)) (*session, error) {
	config := s.config.Rights
	var err error
	if config.Builtin, err = s.config.Listable(); err != nil {
		return nil, fmt.Errorf("reading which resources there are: %w", err)
	}
	cluster, err := stream.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	identity := s.identity(cluster)
	database, leads, err := s.open(ctx, keep)
	if err != nil {
		return nil, err
	}
	p, since, compares := index.Progress{}, int64(0), false
	if keep {
		if p, err = database.Progress(ctx); err == nil {
			since, err = s.resumable(ctx, stream, &p, identity)
		}
		if err != nil {
			return nil, errors.Join(err, database.Close())
		}
		compares = since == 0 && p.Complete && p.Identity == identity
		if since == 0 && !compares && !database.Shared() { // a new file is made sooner than one is emptied
			if err := database.Close(); err != nil {
				return nil, err
			}
			if database, leads, err = s.open(ctx, false); err != nil {
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
		stream: stream, rights: rights.NewState(config), index: database, options: &s.config.Options, watches: &s.watches, identity: identity, fail: fail, since: since,
	}, leads, base, compared), nil
}

// runOnce has an index follow all changes until something fails, one that was left if it is kept and there is one.
func (s *Service) runOnce(ctx context.Context, keep bool) (err error) {
	stream, err := s.config.Stream()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	current, err := s.begin(ctx, stream, keep, func(err error) { cancel(fmt.Errorf("%w: %w", errIndex, err)) })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, current.index.Close()) }()
	var working sync.WaitGroup
	defer s.current.Store(nil)
	defer working.Wait()
	defer cancel(nil)
	working.Go(func() {
		if err := current.write(ctx); err != nil && ctx.Err() == nil {
			current.fail(err)
		}
	})
	began := time.Now()
	working.Go(func() {
		if revision, err := current.complete(ctx); err == nil {
			klog.InfoS("Search: the index is complete", "revision", revision, "seconds", time.Since(began).Seconds())
			s.current.Store(current)
			s.watches.changed(sets.New(index.Shared))
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

// run follows the stream until ctx ends or an error.
func (s *session) run(ctx context.Context, stream *storage.Stream) error {
	if s.isLeader() && s.since == 0 {
		return stream.Follow(ctx, s)
	}
	return stream.Resume(ctx, s, s.since, rights.Decides)
}

// identity says of what an index is: one of another etcd, or with other annotations, is built anew.
func (s *Service) identity(cluster string) string {
	return fmt.Sprintf("etcd %s, annotations %q, properties %q", cluster, slices.Sorted(slices.Values(s.config.Annotations)), s.config.Properties.String())
}

// Ready returns why there are no answers, if there are none.
func (s *Service) Ready(ctx context.Context) error {
	current := s.current.Load()
	if current == nil {
		return index.ErrIncomplete
	}
	p, err := current.index.Progress(ctx)
	if err == nil && !p.Complete {
		err = index.ErrIncomplete
	}
	return err
}
