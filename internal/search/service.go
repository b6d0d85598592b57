package search

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/search/index"
	"github.com/tenantry/tenantry/internal/search/rights"
	"github.com/tenantry/tenantry/internal/server/flowcontrol/waiting"
	"github.com/tenantry/tenantry/internal/server/storage"
)

// Options are what an administrator chooses.
type Options struct {
	// Dir is the directory of the index, which belongs to it alone and is emptied at every start.
	Dir string
	// Annotations are those that are searched and shown. None by default: annotations hold copies of whole objects.
	Annotations []string
}

// Validate returns what is wrong with the options.
func (o Options) Validate() error {
	for _, key := range o.Annotations {
		if key == lastApplied {
			return fmt.Errorf("annotation %s has a copy of the whole object, with the data of Secrets, and cannot be searched; leave it out", key)
		}
	}
	return nil
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
	// current is what answers are made of, nil while that is not complete.
	current atomic.Pointer[session]
	turns   waiting.Turns
	// running bounds the memory of all searches together: each takes some ten MiB at most.
	running chan struct{}
}

// maxRunning is how many searches run at once, as many as the database answers.
const maxRunning = index.Readers

// New returns a service that answers nothing before Run.
func New(config Config) *Service {
	return &Service{config: config, running: make(chan struct{}, maxRunning)}
}

// pause is between an index that has failed and the next one.
const pause = time.Second

// Run keeps an index until ctx ends. One that fails is replaced by a new one.
func (s *Service) Run(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := s.runOnce(ctx); err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "Search: the index is built anew")
		}
	}, pause)
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
	database, err := index.Open(ctx, s.config.Dir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	current := newSession(stream, rights.NewState(config), database, s.config.Annotations)
	written := make(chan struct{})
	defer func() {
		s.current.Store(nil)
		cancel(nil)
		<-written
		err = errors.Join(err, database.Close())
	}()
	go func() {
		defer close(written)
		if err := current.write(ctx); err != nil {
			cancel(err)
		}
	}()
	began := time.Now()
	go func() {
		if revision, err := current.complete(ctx); err == nil {
			klog.InfoS("Search: the index is complete", "revision", revision, "seconds", time.Since(began).Seconds())
			s.current.CompareAndSwap(nil, current)
		}
	}()
	err = stream.Follow(ctx, current)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}
