package search

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/search/index"
)

// renewal is how often a process says that it writes the index, or asks whether it is to. It is less than a lease of the index.
const renewal = time.Second

// errTakeover means that this process is to write an index that another one has not left as it can go on with.
var errTakeover = errors.New("the process that wrote the search index has left it behind")

// write keeps the index as the queue says, if this process is the one that does, until ctx ends or that fails.
func (s *session) write(ctx context.Context) error {
	defer s.resign()
	if !s.isLeader() {
		if err := s.stand(ctx); err != nil || ctx.Err() != nil {
			return err
		}
	} else if err := s.index.Reset(ctx, s.identity); err != nil {
		return err
	}
	if err := s.apply(ctx, s.defaultWrites(), s.progress()); err != nil {
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

// writeNext writes what is in the queue, or waits for something.
func (s *session) writeNext(ctx context.Context, renew <-chan time.Time) error {
	jobs := s.take()
	if len(jobs) == 0 {
		select {
		case <-s.filled:
		case <-renew:
			return s.renew(ctx)
		case <-ctx.Done():
		}
		return nil
	}
	writes, spaces, err := s.writes(ctx, jobs)
	if err != nil {
		return err
	}
	reached := s.progress()
	for _, j := range jobs {
		reached = max(reached, j.reached)
	}
	// Most progress is that nothing has happened. Whoever reads knows that from the stream.
	if len(writes) > 0 || s.written.get() == 0 {
		if err := s.apply(ctx, writes, reached); err != nil {
			return err
		}
	}
	s.written.note(reached)
	s.changed(spaces)
	return nil
}

// progress is the revision up to which everything is written.
func (s *session) progress() int64 { return max(s.written.get(), s.floor) }

// renew says that this process still writes, and how far it is.
func (s *session) renew(ctx context.Context) error {
	if !s.index.Shared() {
		return nil
	}
	if reached := s.written.get(); reached > 0 {
		return s.apply(ctx, nil, reached)
	}
	return s.lead(ctx)
}

// apply writes. If the database cannot be reached it waits, and the queue and those who search with it.
func (s *session) apply(ctx context.Context, writes []index.Write, reached int64) error {
	err := s.index.Apply(ctx, writes, reached)
	for err != nil && s.index.Passing(err) && ctx.Err() == nil {
		klog.ErrorS(err, "Search: the index cannot be written; it is tried again")
		select {
		case <-time.After(renewal):
		case <-ctx.Done():
			return nil
		}
		if err = s.lead(ctx); err == nil {
			err = s.index.Apply(ctx, writes, reached)
		}
	}
	return err
}

func (s *session) lead(ctx context.Context) error {
	leads, err := s.index.Lead(ctx)
	if err == nil && !leads {
		return index.ErrOvertaken
	}
	return err
}

// stand waits until this process is to write the index. Meanwhile it keeps what the one that does has not written.
func (s *session) stand(ctx context.Context) error {
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
		case p.Complete && p.Identity == s.identity:
			s.forget(p.Revision)
		}
	}
}

// takeOver goes on where another process has stopped, if everything that it has not written is in the queue.
func (s *session) takeOver(p index.Progress) error {
	s.forget(p.Revision)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !p.Complete || p.Identity != s.identity || s.listed == 0 || p.Revision < s.listed {
		return errTakeover
	}
	s.leads, s.floor = true, p.Revision
	klog.InfoS("Search: this process writes the index now", "revision", p.Revision)
	return nil
}

// forget drops what has been written.
func (s *session) forget(revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for ; n < len(s.queue); n++ {
		j := s.queue[n]
		if j.change != nil && j.change.Revision > revision || j.change == nil && j.reached > revision {
			break
		}
		if j.change != nil {
			s.bytes -= j.change.Bytes()
		}
	}
	s.queue = append([]job(nil), s.queue[n:]...)
	select {
	case s.emptied <- struct{}{}:
	default:
	}
}

func (s *session) isLeader() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leads
}

// resignTimeout is what a database gets to let another process write.
const resignTimeout = 2 * time.Second

// resign lets another process write at once, if this one did.
func (s *session) resign() {
	if !s.index.Shared() || !s.isLeader() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), resignTimeout)
	defer cancel()
	if err := s.index.Resign(ctx); err != nil {
		klog.V(2).InfoS("Search: others write the index when this process' lease is over", "err", err)
	}
}

// covered returns the revision up to which an index that has everything up to another one has everything: nothing may
// have happened in between.
func (s *session) covered(revision int64) int64 {
	told := s.told.get() // before last: what it is told of is in that
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listed > 0 && revision >= s.last {
		return max(told, revision)
	}
	return revision
}

// follow is how often a process that does not write the index asks how far it is, while somebody waits for that.
const follow = 5 * time.Millisecond

// wait waits until the index has everything up to a revision, of which the rights know. Its error is that of ctx, or of the database.
func (s *session) wait(ctx context.Context, revision int64) error {
	if s.isLeader() {
		return s.written.wait(ctx, revision)
	}
	for {
		p, err := s.index.Progress(ctx)
		if err != nil {
			return err
		}
		if p.Complete && p.Identity == s.identity && s.covered(p.Revision) >= revision {
			return nil
		}
		select {
		case <-time.After(follow):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// complete waits until the index has everything that there was when the stream began, which is told
// of no revision before.
func (s *session) complete(ctx context.Context) (int64, error) {
	if err := s.told.wait(ctx, 1); err != nil {
		return 0, fmt.Errorf("waiting for the rights: %w", err)
	}
	revision := s.told.get()
	for {
		err := s.wait(ctx, revision)
		if err == nil || ctx.Err() != nil {
			return revision, err
		}
		select {
		case <-time.After(renewal): // the database cannot be read
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// settle has the database get ready for queries, if this process has filled it.
func (s *session) settle(ctx context.Context) error {
	if !s.isLeader() {
		return nil
	}
	return s.index.Settle(ctx)
}
