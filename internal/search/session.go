package search

import (
	"context"
	"errors"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/search/index"
	"github.com/tenantry/tenantry/internal/search/properties"
	"github.com/tenantry/tenantry/internal/search/rights"
	"github.com/tenantry/tenantry/internal/server/storage"
	"github.com/tenantry/tenantry/internal/tenant"
)

// session is one index with the rights of the same stream, from its beginning until something fails.
type session struct {
	// decode is that of the stream.
	decode      func(context.Context, *storage.StoredChange) (runtime.Object, storage.Place, error)
	rights      *rights.State
	index       *index.Index
	annotations []string
	// properties reads objects, and columns are what it reads of custom resources, by the space and the resource
	// of their definition. The goroutine that writes the index has them.
	properties *properties.Reader
	columns    map[tenant.Name]map[schema.GroupResource]*properties.Columns
	// changed is told in which spaces rows have changed, and rightsChanged where rights have.
	changed       func(spaces sets.Set[tenant.Name])
	rightsChanged func(in tenant.Scope)
	// identity says of what the index is, and fail ends the session.
	identity string
	fail     func(error)
	// told and written are how far the rights and the index are. The latter is known of the index that this process writes.
	told, written reached
	revisions     revisions

	mu sync.Mutex
	// leads is whether this process writes the index. If it does not, the queue has what another one has not written.
	leads bool
	// listed is the revision at which the stream began, zero before it is reached, and last that of the last change.
	listed, last int64
	// floor is the revision up to which everything is written when this process begins to write.
	floor int64
	queue []job
	bytes int
	// filled and emptied tell that there is something in the queue, and room in it.
	filled, emptied chan struct{}
}

// job is a change to be written, or, without one, the revision that is reached then.
type job struct {
	change  *storage.StoredChange
	object  runtime.Object // decoded already, or nil
	reached int64
}

const (
	// queueBytes is how much waits for the index. When it is full, the stream waits, and with it the
	// rights: search answers 503 until they go on.
	queueBytes = 64 << 20
	// batch is how many changes are written in one transaction.
	batch = 2000
)

func newSession(stream *storage.Stream, state *rights.State, database *index.Index, options *Options, leads bool) *session {
	s := &session{
		decode: stream.Decode, rights: state, index: database, annotations: options.Annotations, leads: leads,
		properties: properties.NewReader(options.Properties...), columns: map[tenant.Name]map[schema.GroupResource]*properties.Columns{},
		changed: func(sets.Set[tenant.Name]) {}, rightsChanged: func(tenant.Scope) {},
		filled: make(chan struct{}, 1), emptied: make(chan struct{}, 1),
	}
	s.revisions.read = stream.Revision
	return s
}

var _ storage.Follower = &session{}

// Changed implements storage.Follower.
func (s *session) Changed(ctx context.Context, changes []storage.StoredChange) error {
	for i := range changes {
		j := job{change: &changes[i]}
		if rights.Decides(j.change.Resource) && !j.change.Custom {
			var err error
			if j.object, err = s.tell(ctx, j.change); err != nil {
				return err
			}
		}
		if err := s.put(ctx, j); err != nil {
			return err
		}
	}
	return nil
}

// tell tells the rights of a change. What cannot be read is not there.
func (s *session) tell(ctx context.Context, change *storage.StoredChange) (runtime.Object, error) {
	var object runtime.Object
	if !change.Deleted {
		var err error
		if object, _, err = s.decode(ctx, change); errors.Is(err, storage.ErrSealed) {
			return nil, err
		} else if err != nil {
			klog.ErrorS(err, "Search: an object that gives rights gives none")
			object = nil
		}
	}
	in, err := s.rights.Tell(change.Resource, change.Place, object, change.Revision)
	s.rightsChanged(in)
	return object, err
}

// Reached implements storage.Follower.
func (s *session) Reached(ctx context.Context, revision int64) error {
	s.mu.Lock()
	if s.listed == 0 { // what went before is in no change
		s.listed, s.last = revision, revision
	}
	s.mu.Unlock()
	s.told.note(revision)
	return s.put(ctx, job{reached: revision})
}

// put adds to the queue, when there is room in it.
func (s *session) put(ctx context.Context, j job) error {
	for !s.offer(j) {
		select {
		case <-s.emptied:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	select {
	case s.filled <- struct{}{}:
	default:
	}
	return nil
}

func (s *session) offer(j job) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.queue) - 1
	switch {
	case j.change == nil && last >= 0 && s.queue[last].change == nil:
		s.queue[last] = j
		return true
	case j.change != nil && !s.leads && s.listed == 0: // is written by whoever leads, or all is read again
		return true
	case j.change != nil && s.bytes > queueBytes:
		return false
	case j.change != nil:
		s.bytes += j.change.Bytes()
		s.last = max(s.last, j.change.Revision)
	}
	s.queue = append(s.queue, j)
	return true
}

// take returns the next jobs, none if there are none.
func (s *session) take() []job {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(batch, len(s.queue))
	jobs := s.queue[:n:n]
	s.queue = s.queue[n:]
	for _, j := range jobs {
		if j.change != nil {
			s.bytes -= j.change.Bytes()
		}
	}
	select {
	case s.emptied <- struct{}{}:
	default:
	}
	return jobs
}

// writes returns what the index is told of jobs, of each key once, and in which spaces that is.
func (s *session) writes(ctx context.Context, jobs []job) ([]index.Write, sets.Set[tenant.Name], error) {
	last := make(map[string]int, len(jobs))
	for i, j := range jobs {
		if j.change != nil && (s.floor == 0 || j.change.Revision > s.floor) {
			last[j.change.Key] = i
		}
	}
	writes, spaces := make([]index.Write, 0, len(last)), sets.New[tenant.Name]()
	for i, j := range jobs {
		if j.change == nil {
			continue
		}
		if at, wanted := last[j.change.Key]; !wanted || at != i {
			continue
		}
		of, err := s.writesOf(ctx, j)
		if errors.Is(err, storage.ErrSealed) {
			return nil, nil, err
		}
		if err != nil {
			klog.ErrorS(err, "Search: an object cannot be read, as nobody can list it, or not wholly")
		}
		for k := range of {
			spaces.Insert(spaceOf(j.change, &of[k]))
		}
		writes = append(writes, of...)
	}
	return writes, spaces, nil
}

// spaceOf returns the space in which a write changes something, index.Shared for all of them, or if nobody knows: the keys
// of custom resources do not say it.
func spaceOf(change *storage.StoredChange, write *index.Write) tenant.Name {
	switch {
	case write.Key != change.Key:
		return index.Shared
	case len(write.Rows) > 0:
		return write.Rows[0].Space
	case change.Custom:
		return index.Shared
	default:
		return change.Place.Space
	}
}

// writesOf returns what the index is told of a job: of the object, and of what other spaces see of it. What
// cannot be read is not there.
func (s *session) writesOf(ctx context.Context, j job) ([]index.Write, error) {
	own := index.Write{Key: j.change.Key}
	object, place, err := j.object, j.change.Place, error(nil)
	if object == nil && !j.change.Deleted {
		object, place, err = s.decode(ctx, j.change)
	}
	if j.change.Resource == definitions && !j.change.Custom {
		s.define(place, object)
	}
	if err == nil && object != nil {
		var row index.Row
		if row, err = s.row(place, j.change.Resource, object); row.Name != "" {
			own.Rows = []index.Row{row}
		}
	}
	shared, sharedErr := s.sharedWrites(j.change, object)
	return append(shared, own), errors.Join(err, sharedErr)
}

// row returns the row of an object, and what could not be read of it. Without a name there is none.
func (s *session) row(place storage.Place, resource schema.GroupResource, object runtime.Object) (index.Row, error) {
	columns := s.columns[place.Space][resource]
	if columns == nil {
		columns = s.columns[tenant.System][resource] // it is published
	}
	found, propertiesErr := s.properties.Of(resource, object, columns)
	row, err := index.NewRow(place.Space, resource, object, s.annotations, found)
	if err != nil {
		return index.Row{}, err
	}
	row.Namespace, row.Name = place.Namespace, place.Name
	for _, link := range properties.Links(object) {
		to := index.ToUID(link.UID)
		if link.UID == "" {
			to = index.ToPlace(link.Resource, link.Namespace, link.Name)
		}
		row.Links = append(row.Links, index.Link{Relation: link.Relation, To: to})
	}
	row.Selector = properties.Selector(object)
	return row, propertiesErr
}

// define notes which columns the objects of a definition have. What is in the index has those that it had when it
// was written.
func (s *session) define(place storage.Place, object runtime.Object) {
	in, resource := s.columns[place.Space], schema.ParseGroupResource(place.Name)
	definition, ok := object.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		delete(in, resource)
		if len(in) == 0 {
			delete(s.columns, place.Space)
		}
		return
	}
	if in == nil {
		in = map[schema.GroupResource]*properties.Columns{}
		s.columns[place.Space] = in
	}
	in[resource] = properties.NewColumns(definition)
}
