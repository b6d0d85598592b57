package search

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/process/signal"
	"github.com/tenantry/tenantry/internal/search/index"
	"github.com/tenantry/tenantry/internal/search/properties"
	"github.com/tenantry/tenantry/internal/search/rights"
	"github.com/tenantry/tenantry/internal/server/storage"
	"github.com/tenantry/tenantry/internal/tenant"
)

// session is one index with the rights of the same stream, from its beginning until something fails.
type session struct {
	parts
	writer  writer
	columns columns
	// told is how far the rights are, and what is in the queue.
	told reached
	// moved counts what may let somebody go on who waits for the index, and moves says how often that was.
	moved     reached
	moves     atomic.Int64
	revisions revisions
	queue     *queue

	mu sync.Mutex
	// leads is whether this process writes the index. If it does not, the queue has what another one has not written.
	leads bool
	// listed is the revision since which the stream has told of all changes, zero before it has begun, and knew that as
	// of which it has told of what decides rights.
	listed, knew int64
}

// parts are what a session is made of.
type parts struct {
	stream  source
	rights  *rights.State
	index   *index.Index
	options *Options
	// watches are told in which spaces rows have changed, and where rights have.
	watches *watches
	// source says of what the index is, and fail ends the session.
	source string
	fail   func(error)
	// since is the revision since which the index is continued, zero if it is made anew.
	since int64
}

// source is where objects are from.
type source interface {
	Decode(ctx context.Context, change *storage.StoredChange) (runtime.Object, storage.ObjectKey, error)
	Read(ctx context.Context, change *storage.StoredChange) (int64, error)
	At(key string, revision int64) (storage.StoredChange, bool, error)
	Revision(ctx context.Context) (int64, error)
}

// newSession returns a session that writes the index if it leads. base is how far the index is, and compared not nil if
// that is to be compared with what there is.
func newSession(of parts, leads bool, base index.Progress, compared *index.Keys) *session {
	s := &session{parts: of, leads: leads, queue: newQueue(), revisions: revisions{read: of.stream.Revision}}
	s.writer = writer{session: s, base: base, noted: base, compared: compared, properties: properties.NewReader(of.options.Properties...)}
	s.writer.mark.decode(base.Mark)
	return s
}

var _ storage.Follower = &session{}

// run follows the stream until ctx ends or an error.
func (s *session) run(ctx context.Context, stream *storage.Stream) error {
	if s.isLeader() && s.since == 0 {
		return stream.Follow(ctx, s)
	}
	return stream.Resume(ctx, s, s.since, rights.Decides)
}

// Changed implements storage.Follower. It waits for nothing that objects do once the stream has begun: rights come by
// it.
func (s *session) Changed(ctx context.Context, changes []storage.StoredChange) error {
	for i := range changes {
		change := changes[i] // the others need not stay with it
		var object runtime.Object
		if rights.Decides(change.Resource) && !change.Custom && s.isNews(&change) {
			var err error
			if object, err = s.tell(ctx, &change); err != nil {
				return err
			}
		}
		if err := s.put(ctx, &change, object); err != nil {
			return err
		}
	}
	return nil
}

// isNews reports whether the rights do not know of a change yet.
func (s *session) isNews(change *storage.StoredChange) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listed == 0 || change.Revision > s.knew
}

// tell tells the rights of a change. What cannot be read is not there.
func (s *session) tell(ctx context.Context, change *storage.StoredChange) (runtime.Object, error) {
	var object runtime.Object
	if !change.Deleted {
		var err error
		if object, _, err = s.stream.Decode(ctx, change); errors.Is(err, storage.ErrSealed) {
			return nil, err
		} else if err != nil {
			klog.ErrorS(err, "Search: an object that gives rights gives none")
			object = nil
		}
	}
	if change.Resource == definitions {
		s.columns.define(change.Object, object)
	}
	in, err := s.rights.Tell(change.Resource, change.Object, object, change.Revision)
	s.watches.rightsChanged(in)
	return object, err
}

// put adds a change to the queue. What there was when the stream began waits for room in it.
func (s *session) put(ctx context.Context, change *storage.StoredChange, object runtime.Object) error {
	s.mu.Lock()
	leads, lists, since := s.leads, s.listed == 0, s.since
	s.mu.Unlock()
	switch {
	case !lists:
		s.queue.add(change, object, change.Revision)
	case !leads || since > 0: // the index has it, or all is read again
	default:
		if err := s.queue.room(ctx); err != nil {
			return err
		}
		s.queue.add(change, object, listedAt)
	}
	return nil
}

// Listed implements storage.Follower.
func (s *session) Listed(revision, since int64) {
	s.queue.begin(since)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed, s.knew = since, revision
}

// Reached implements storage.Follower.
func (s *session) Reached(revision int64) {
	s.told.note(revision)
	s.move()
	s.queue.wake()
}

// move has those look who wait for the index.
func (s *session) move() { s.moved.note(s.moves.Add(1)) }

// follow waits until the rights are as of a revision, which etcd has. A watch that is behind does not answer when it is
// asked how far it is, so it is asked again.
func (s *session) follow(ctx context.Context, revision int64) error {
	for s.told.get() < revision {
		short, cancel := context.WithTimeout(ctx, askAgain)
		err := s.told.wait(short, revision)
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			if _, err := s.revisions.now(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// askAgain is after how long.
const askAgain = 200 * time.Millisecond

// portion is what the index is told of a turn.
type portion struct {
	writes []index.Write
	// spaces are those in which that is, but for custom resources that have gone.
	spaces sets.Set[tenant.Name]
	// last is the revision of the last change.
	last int64
	// took is how long that was made of each lane, and weights how much it has.
	took    []time.Duration
	weights []int
}

// writes returns what the index is told of lanes, of each key once.
func (s *writer) writes(ctx context.Context, turn []*lane) (*portion, error) {
	w := &portion{spaces: sets.New[tenant.Name](), took: make([]time.Duration, len(turn)), weights: make([]int, len(turn))}
	for i, l := range turn {
		began, first := time.Now(), len(w.writes)
		last := make(map[string]*job, len(l.taken))
		for _, j := range l.taken {
			last[j.change.Key] = j
		}
		for _, j := range l.taken {
			if last[j.change.Key] != j {
				continue
			}
			if err := s.writesTo(ctx, w, j); err != nil {
				return nil, err
			}
		}
		w.took[i], w.weights[i] = time.Since(began), 1
		for k := range w.writes[first:] {
			w.weights[i] += w.writes[first+k].Weight()
		}
	}
	if s.newest > s.told.get() { // nothing is shown that is newer than the rights
		return w, s.follow(ctx, s.newest)
	}
	return w, nil
}

// writesTo adds what the index is told of a job.
func (s *writer) writesTo(ctx context.Context, w *portion, j *job) error {
	if err := s.readAgain(ctx, j); err != nil {
		return err
	}
	of, err := s.writesOf(ctx, j)
	if errors.Is(err, storage.ErrSealed) {
		return err
	}
	if err != nil {
		klog.ErrorS(err, "Search: an object cannot be read, as nobody can list it, or not wholly")
	}
	if !j.change.Deleted && j.change.Revision > s.mark.Revision {
		s.mark = mark{j.change.Key, j.change.Revision, j.change.Sum()}
	}
	w.last = max(w.last, j.change.Revision)
	for k := range of {
		if space, known := spaceOf(j.change, &of[k]); known {
			w.spaces.Insert(space)
		}
	}
	w.writes = append(w.writes, of...)
	return nil
}

// readAgain reads the object of a job that was let go. It waits for etcd.
func (s *writer) readAgain(ctx context.Context, j *job) error {
	for j.change.IsDropped() {
		revision, err := s.stream.Read(ctx, j.change)
		if err == nil {
			s.newest = max(s.newest, revision)
			return nil
		}
		klog.ErrorS(err, "Search: an object cannot be read; it is tried again")
		if err := signal.Pause(ctx, renewal); err != nil {
			return err
		}
	}
	return nil
}

// spaceOf returns the space in which a write changes something, index.Shared for all of them. It is not known of a
// custom resource that has gone, whose key does not say it: the index says from where it took it.
func spaceOf(change *storage.StoredChange, write *index.Write) (space tenant.Name, known bool) {
	switch {
	case write.Key != change.Key:
		return index.Shared, true
	case len(write.Rows) > 0:
		return write.Rows[0].Space, true
	default:
		return change.Object.Space, !change.Custom
	}
}

// writesOf returns what the index is told of a job: of the object, and of what other spaces see of it. What
// cannot be read is not there.
func (s *writer) writesOf(ctx context.Context, j *job) ([]index.Write, error) {
	own := index.Write{Key: j.change.Key}
	object, key, err := j.object, j.change.Object, error(nil)
	if object == nil && !j.change.Deleted {
		object, key, err = s.stream.Decode(ctx, j.change)
	}
	if err == nil && object != nil {
		var row index.Row
		if row, err = s.row(key, j.change.Resource, object); row.Name != "" {
			own.Rows = []index.Row{row}
		}
	}
	shared, sharedErr := s.sharedWrites(j.change, object)
	return append(shared, own), errors.Join(err, sharedErr)
}

// row returns the row of an object, and what could not be read of it. Without a name there is none.
func (s *writer) row(key storage.ObjectKey, resource schema.GroupResource, object runtime.Object) (index.Row, error) {
	found, propertiesErr := s.properties.Of(resource, object, s.columns.of(key.Space, resource))
	row, err := index.NewRow(key.Space, resource, object, s.options.Annotations, found)
	if err != nil {
		return index.Row{}, err
	}
	row.Namespace, row.Name = key.Namespace, key.Name
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
