package search

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/search/index"
	"github.com/tenantry/tenantry/internal/search/properties"
	"github.com/tenantry/tenantry/internal/search/rights"
	"github.com/tenantry/tenantry/internal/server/storage"
)

// Options are what an administrator chooses.
type Options struct {
	// Dir is the directory of the index, which belongs to it alone and is emptied at every start.
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
	// Properties are those that objects have besides what kubectl prints of them.
	Properties properties.List
}

// Validate returns what is wrong with the options.
func (o Options) Validate() []error {
	var errs []error
	if slices.Contains(o.Annotations, lastApplied) {
		errs = append(errs, fmt.Errorf("--search-annotations: annotation %s has a copy of the whole object, with the data of Secrets, and cannot be searched; leave it out", lastApplied))
	}
	for _, err := range []error{o.Remote.Validate(), o.Limits.Validate()} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

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
	remote  *remote
	sockets sockets
	watches watches
}

// New returns a service that answers nothing before Run.
func New(config Config) *Service {
	config.Limits = config.Limits.orDefaults()
	return &Service{
		config: config, holder: index.NewHolder(), turns: newTurns(config.Limits),
		sockets: sockets{renewal: renewEvery, ended: make(chan struct{})}, watches: watches{pause: watchPause},
	}
}

// How long after an index that has failed the next one is made: ever longer, because building one is work.
const (
	minPause = time.Second
	maxPause = time.Minute
)

// Run keeps an index until ctx ends. One that fails is replaced by a new one. It runs once.
func (s *Service) Run(ctx context.Context) {
	defer close(s.sockets.ended)
	for next := minPause; ctx.Err() == nil; {
		began := time.Now()
		if err := s.runOnce(ctx); err != nil && ctx.Err() == nil {
			rebuilds.Inc()
			klog.ErrorS(err, "Search: the index is built anew")
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

// open opens the database.
func (s *Service) open(ctx context.Context) (*index.Index, error) {
	if s.config.Postgres != "" {
		return index.OpenPostgres(ctx, s.config.Postgres, s.holder)
	}
	return index.Open(ctx, s.config.Dir)
}

// runOnce builds an index and follows all changes until something fails.
func (s *Service) runOnce(ctx context.Context) (err error) {
	stream, err := s.config.Stream()
	if err != nil {
		return err
	}
	config := s.config.Rights
	if config.Builtin, err = s.config.Listable(); err != nil {
		return fmt.Errorf("reading which resources there are: %w", err)
	}
	database, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, database.Close()) }()
	leads, err := database.Lead(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	current := newSession(stream, rights.NewState(config), database, &s.config.Options, leads)
	current.changed, current.rightsChanged = s.watches.changed, s.watches.rightsChanged
	cluster, err := stream.Cluster(ctx)
	if err != nil {
		return err
	}
	current.identity = s.identity(cluster)
	current.fail = cancel
	var working sync.WaitGroup
	defer s.current.Store(nil)
	defer working.Wait()
	defer cancel(nil)
	working.Go(func() {
		if err := current.write(ctx); err != nil {
			cancel(err)
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
	err = stream.Follow(ctx, current)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
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
