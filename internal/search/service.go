package search

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/tenantry/tenantry/internal/search/graphql"
	"github.com/tenantry/tenantry/internal/search/index"
	"github.com/tenantry/tenantry/internal/search/properties"
	"github.com/tenantry/tenantry/internal/search/rights"
	"github.com/tenantry/tenantry/internal/server/storage"
)

// Options are what an administrator chooses.
type Options struct {
	// Dir is the directory of the index, which belongs to it alone. What is there is continued if it can be, and
	// removed otherwise.
	Dir string
	// Postgres, if not empty, is a file with the connection string of a PostgreSQL that has the index instead. Several
	// processes may use it: one of them writes.
	Postgres string
	// Remote, if it has servers, is the service that searches, instead of this process.
	Remote RemoteOptions
	// Limits bound what one tenant may take.
	Limits Limits
	// Annotations are those that are searched and shown. None by default: annotations hold copies of whole objects.
	Annotations []string
	// Objects is how many objects of a tenant's space are in the index at most, zero for any number. A search that
	// would show others is refused.
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

// finder finds what is searched for, when it is the turn of who asks.
type finder interface {
	// search answers a search, of the parameters that asked was read of.
	search(ctx context.Context, a *asker, asked *question, parameters string) (*Answer, error)
	// query answers a query in GraphQL, of the body that the operation was read of.
	query(ctx context.Context, a *asker, operation *graphql.Operation, body []byte) (*response, error)
	// matching returns the objects of a subscription, of the input that asked was read of.
	matching(ctx context.Context, a *asker, asked *question, input *graphql.Input) (states, error)
	// run keeps what it finds by until ctx ends.
	run(ctx context.Context)
	// session is the index of this process, nil while it is not complete, or if another process has it.
	session() *session
	// signals reports whether subscriptions are signalled what changes.
	signals() bool
}

// Service is the search of one server.
type Service struct {
	config  Config
	finder  finder
	turns   turns
	sockets sockets
	watches watches
}

// New returns a service that answers nothing before Run, unless another process searches, see Handler.
func New(config Config) (*Service, error) {
	config.Limits = config.Limits.orDefaults()
	s := &Service{
		config: config, turns: newTurns(config.Limits), watches: watches{pause: watchPause},
		sockets: sockets{renewal: renewEvery, ended: make(chan struct{}), held: held{most: config.Limits.SocketBytes}},
	}
	if !config.Remote.Enabled() {
		s.finder = &local{config: &s.config, watches: &s.watches, holder: index.NewHolder()}
		return s, nil
	}
	client, err := config.Remote.client()
	if err != nil {
		return nil, err
	}
	s.finder = &remote{config: &s.config, client: client}
	return s, nil
}

// Run keeps an index until ctx ends. One that fails is replaced by a new one. It runs once.
func (s *Service) Run(ctx context.Context) {
	defer close(s.sockets.ended)
	s.finder.run(ctx)
}

// Ready returns why there are no answers, if there are none.
func (s *Service) Ready(ctx context.Context) error {
	current := s.finder.session()
	if current == nil {
		return index.ErrIncomplete
	}
	p, err := current.index.Progress(ctx)
	if err == nil && !p.Complete {
		err = index.ErrIncomplete
	}
	return err
}
