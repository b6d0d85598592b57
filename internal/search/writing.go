package search

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/process/signal"
	"github.com/tenantry/tenantry/internal/search/index"
	"github.com/tenantry/tenantry/internal/search/properties"
	"github.com/tenantry/tenantry/internal/tenant"
)

// renewal is how often a process says that it writes the index, or asks whether it is to. It is less than a lease of
// the index.
const renewal = time.Second

// encode returns the mark as it is stored, empty if there is none.
func (m *mark) encode() string {
	if m.Revision == 0 {
		return ""
	}
	encoded, _ := json.Marshal(m) // text and numbers are always encoded
	return string(encoded)
}

// decode reads what encode has returned. It reports whether that is a mark.
func (m *mark) decode(text string) bool { return json.Unmarshal([]byte(text), m) == nil }

// errTakeover means that this process is to write an index that another one has not left as it can go on with.
var errTakeover = errors.New("the process that wrote the search index has left it behind")

// mark is a change that is written, by which it is told later whether the etcd is still the one that had it.
type mark struct {
	Key      string
	Revision int64
	Sum      string
}

// writer writes the index of a session. One goroutine has it.
type writer struct {
	*session
	// properties reads objects.
	properties *properties.Reader
	// noted is how far the index says that it is, mark the last change that it has of an object which has not gone,
	// wrote the revision of the last change, and newest one that no object is newer than which was read again.
	noted         index.Progress
	mark          mark
	newest, wrote int64
	// base is how far an index is that is continued.
	base index.Progress
	// compared has the keys of all that there is, until the index, which was of an earlier time, has nothing else. It
	// is nil if it was empty, or goes on.
	compared *index.Keys
}

// write keeps the index as the queue says, if this process is the one that does, until ctx ends or that fails.
func (s *writer) write(ctx context.Context) error {
	defer s.resign()
	if !s.isLeader() {
		if err := s.stand(ctx); err != nil || ctx.Err() != nil {
			return err
		}
	} else if s.since == 0 {
		if err := s.empty(ctx); err != nil {
			return err
		}
	}
	if _, err := s.apply(ctx, defaultWrites()); err != nil {
		return err
	}
	if err := s.refill(ctx); err != nil { // there may be room for more than there was
		return err
	}
	renew := time.NewTicker(renewal)
	defer renew.Stop()
	for {
		if err := s.writeNext(ctx, renew.C); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// empty begins an index anew, or has it compared.
func (s *writer) empty(ctx context.Context) error {
	if s.compared != nil {
		return s.index.Recheck(ctx)
	}
	return s.index.Reset(ctx, s.source)
}

// writeNext writes what is in the queue, or waits for something.
func (s *writer) writeNext(ctx context.Context, renew <-chan time.Time) error {
	if s.compared != nil && s.told.get() > 0 && !s.isBuilding(s.queue.behind()) {
		if err := s.index.Keep(ctx, s.compared); err != nil {
			return err
		}
		s.compared = nil
	}
	turn := s.queue.take()
	// Most progress is that nothing has happened. Whoever reads knows that from the stream.
	if len(turn) == 0 && !s.finishes() {
		select {
		case <-s.queue.filled:
		case <-renew:
			return s.renew(ctx)
		case <-ctx.Done():
		}
		return nil
	}
	return s.writeTurn(ctx, turn)
}

// writeTurn writes what was taken from the queue.
func (s *writer) writeTurn(ctx context.Context, turn []*lane) error {
	w, err := s.writes(ctx, turn)
	if err != nil {
		return err
	}
	began := time.Now()
	spaces, err := s.apply(ctx, w.writes)
	if err != nil {
		return err
	}
	s.wrote = max(s.wrote, w.last)
	s.queue.done(turn, w.share(time.Since(began)), w.weights)
	s.move()
	concerned := w.spaces.Union(spaces)
	s.watches.changed(concerned)
	return s.refill(ctx, concerned.UnsortedList()...)
}

// refillBatch is how many objects of a space that were left out are read at once when there is room for them.
const refillBatch = 500

// refill has objects written that were left out of the index, if there is room for them now: of some spaces in which
// something has changed, of all if there are none. What is being written of a space already comes first.
func (s *writer) refill(ctx context.Context, spaces ...tenant.Name) error {
	keys, err := s.index.Omitted(ctx, refillBatch, spaces...)
	if err != nil && s.index.Passing(err) {
		return nil // it is tried again when something of the space is written
	}
	if err != nil {
		return err
	}
	for space, of := range keys {
		if s.queue.missing(space) > 0 {
			continue
		}
		for _, key := range of {
			change, known, err := s.stream.At(key, max(s.told.get(), listedAt+1))
			switch {
			case err != nil:
				return err
			case known:
				s.queue.add(&change, nil, change.Revision)
			default: // of a definition that has gone
				if _, err := s.apply(ctx, []index.Write{{Key: key}}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// share returns how long each lane took, of which a transaction of all is a part by how much each has written.
func (w *portion) share(all time.Duration) []time.Duration {
	total := 0
	for _, weight := range w.weights {
		total += weight
	}
	for i, weight := range w.weights {
		w.took[i] += all * time.Duration(weight) / time.Duration(total)
	}
	return w.took
}

// finishes reports whether the index has more than it says: everything there was when the stream began, or the last
// changes, which may have been written before the stream has said that they are all of their revision.
func (s *writer) finishes() bool {
	s.mu.Lock()
	knew := s.knew
	s.mu.Unlock()
	has := max(knew, s.wrote)
	return s.noted.Revision < has && s.state().Revision >= has
}

// state returns how far the index is when all that has been taken from the queue is written.
func (s *writer) state() index.Progress {
	told := s.told.get() // before the queue: what it is told of is in that
	if told == 0 {
		return s.base
	}
	behind := s.queue.behind()
	if s.compared != nil || s.isBuilding(behind) {
		return index.Progress{Revision: index.Building}
	}
	if len(behind) > maxBehind { // those stand for all others
		told, behind = behind[maxBehind].Revision, behind[:maxBehind]
	}
	return index.Progress{Revision: told, Behind: behind}
}

// isBuilding reports whether something is missing of what there was when the stream began.
func (*writer) isBuilding(behind []index.Behind) bool {
	return len(behind) > 0 && behind[0].Revision < listedAt
}

// renew says that this process still writes, and how far it is.
func (s *writer) renew(ctx context.Context) error {
	if !s.index.Shared() {
		return nil
	}
	if s.noted.Revision == index.Building {
		return s.lead(ctx)
	}
	if _, err := s.revisions.now(ctx); err != nil { // others wait for it to say so even if nothing happens
		klog.V(2).InfoS("Search: etcd does not say how far it is", "err", err)
	}
	_, err := s.apply(ctx, nil)
	return err
}

// apply writes, and returns the spaces in which that changes something, index.Shared for all of them. If the database
// cannot be reached it waits, and the queue and those who search with it.
func (s *writer) apply(ctx context.Context, writes []index.Write) (sets.Set[tenant.Name], error) {
	if s.compared != nil {
		for i := range writes {
			s.compared.Add(writes[i].Key)
		}
	}
	state := s.state()
	s.index.SetMark(s.mark.encode())
	spaces, err := s.applyTo(ctx, writes, &state)
	for err != nil && s.index.Passing(err) && ctx.Err() == nil {
		klog.ErrorS(err, "Search: the index cannot be written; it is tried again")
		if err := signal.Pause(ctx, renewal); err != nil {
			return nil, err
		}
		if err = s.lead(ctx); err == nil {
			_, err = s.applyTo(ctx, writes, &state)
			spaces = sets.New(index.Shared) // nobody knows what was written before it failed
		}
	}
	return spaces, err
}

// applyTo writes, after which the index is as far as a state says. What the database refuses is set aside.
func (s *writer) applyTo(ctx context.Context, writes []index.Write, state *index.Progress) (sets.Set[tenant.Name], error) {
	spaces, err := s.index.Apply(ctx, writes, state.Revision, state.Behind...)
	if err != nil && s.index.Refuses(err) {
		spaces = sets.New[tenant.Name]()
		if err = s.setAside(ctx, writes, spaces); err == nil {
			_, err = s.index.Apply(ctx, nil, state.Revision, state.Behind...)
		}
	}
	if err == nil {
		s.noted = *state
	}
	return spaces, err
}

// setAside writes what the database has refused together, in ever smaller parts: one object that it does not take ends
// nothing for others. Of that, its name is written. The spaces in which something changes are added to spaces.
func (s *writer) setAside(ctx context.Context, writes []index.Write, spaces sets.Set[tenant.Name]) error {
	if len(writes) == 0 {
		return errRefusedState
	}
	parts := [][]index.Write{writes[:len(writes)/2], writes[len(writes)/2:]}
	if len(writes) == 1 {
		refused.Inc()
		for i := range writes[0].Rows {
			row := &writes[0].Rows[i]
			klog.ErrorS(nil, "Search: the database refuses an object, which is found by its name alone", "space", row.Space, "resource", row.Resource, "namespace", row.Namespace, "name", row.Name)
		}
		parts = [][]index.Write{{writes[0].NameOnly()}}
	}
	for _, part := range parts {
		in, err := s.index.Apply(ctx, part, s.noted.Revision, s.noted.Behind...)
		if err != nil && s.index.Refuses(err) && len(writes) > 1 {
			err = s.setAside(ctx, part, spaces)
		}
		if err != nil {
			return err
		}
		spaces.Insert(in.UnsortedList()...)
	}
	return nil
}

// errRefusedState means that the database refuses what is no object.
var errRefusedState = errors.New("the database refuses how far the search index is")

func (s *writer) lead(ctx context.Context) error {
	leads, err := s.index.Lead(ctx)
	if err == nil && !leads {
		return index.ErrOvertaken
	}
	return err
}

// stand waits until this process is to write the index. Meanwhile it keeps what the one that does has not written.
func (s *writer) stand(ctx context.Context) error {
	ask := time.NewTicker(renewal)
	defer ask.Stop()
	for {
		select {
		case <-ask.C:
		case <-ctx.Done():
			return nil
		}
		leads, err := s.index.Lead(ctx)
		if err != nil && s.index.Passing(err) {
			continue
		}
		if err != nil {
			return err
		}
		p, err := s.index.Progress(ctx)
		switch {
		case err != nil && s.index.Passing(err):
		case err != nil:
			return err
		case leads:
			return s.takeOver(p)
		case p.Complete && p.Source == s.source:
			s.queue.forget(&p)
		}
	}
}

// takeOver goes on where another process has stopped, if everything that it has not written is in the queue.
func (s *writer) takeOver(p index.Progress) error {
	s.queue.forget(&p)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !p.Complete || p.Source != s.source || s.listed == 0 || p.All() < s.listed {
		return errTakeover
	}
	s.leads, s.base, s.noted = true, p, p
	s.mark.decode(p.Mark)
	klog.InfoS("Search: this process writes the index now", "revision", p.All())
	return nil
}

func (s *session) isLeader() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leads
}

// resignTimeout is what a database gets to let another process write.
const resignTimeout = 2 * time.Second

// resign lets another process write at once, if this one did.
func (s *writer) resign() {
	if !s.index.Shared() || !s.isLeader() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), resignTimeout)
	defer cancel()
	if err := s.index.Resign(ctx); err != nil {
		klog.V(2).InfoS("Search: others write the index when this process' lease is over", "err", err)
	}
}

// covered returns the revision up to which an index has everything of a space that is so far: nothing may have happened
// there in between.
func (s *session) covered(p *index.Progress, space tenant.Name) int64 {
	told := s.told.get() // before the queue: what it is told of is in that
	s.mu.Lock()
	begun := s.listed > 0
	s.mu.Unlock()
	has := p.In(space)
	if begun && has >= s.queue.last(space) {
		return max(told, has)
	}
	return has
}

// poll is how often a process that does not write the index asks how far it is, while somebody waits for that.
const poll = 5 * time.Millisecond

// wait waits until the index has everything of a space up to a revision, of which the rights know. Its error is that of
// ctx, or of the database.
func (s *session) wait(ctx context.Context, space tenant.Name, revision int64) error {
	for {
		seen := s.moved.get()
		if s.isLeader() {
			if s.has(space) >= revision {
				return nil
			}
			if err := s.moved.wait(ctx, seen+1); err != nil {
				return err
			}
			continue
		}
		p, err := s.index.Progress(ctx)
		if err != nil {
			return err
		}
		if p.Complete && p.Source == s.source && s.covered(&p, space) >= revision {
			return nil
		}
		if err := signal.Pause(ctx, poll); err != nil {
			return err
		}
	}
}

// has returns the revision up to which this process has written everything of a space.
func (s *session) has(space tenant.Name) int64 {
	told := s.told.get() // before the queue: what it is told of is in that
	if first := s.queue.missing(space); first > 0 {
		return first - 1
	}
	return told
}

// completion is how often a process looks whether an index is complete.
const completion = 50 * time.Millisecond

// complete waits until the index has everything that there was when the stream began, but for spaces that are behind.
func (s *session) complete(ctx context.Context) (int64, error) {
	if err := s.told.wait(ctx, 1); err != nil {
		return 0, fmt.Errorf("waiting for the rights: %w", err)
	}
	s.mu.Lock()
	knew := s.knew
	s.mu.Unlock()
	if err := s.follow(ctx, knew); err != nil {
		return 0, err
	}
	for {
		p, err := s.index.Progress(ctx) // the database may not be there for a while
		if err == nil && p.Complete && p.Source == s.source && p.Revision >= knew {
			return knew, nil
		}
		if err := signal.Pause(ctx, completion); err != nil {
			return 0, err
		}
	}
}

// settle has the database get ready for queries, if this process has filled it.
func (s *session) settle(ctx context.Context) error {
	if !s.isLeader() || s.since > 0 {
		return nil
	}
	return s.index.Settle(ctx)
}
