package search

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tenantry/tenantry/internal/search/index"
	"github.com/tenantry/tenantry/internal/search/rights"
	"github.com/tenantry/tenantry/internal/server/storage"
)

// standby is a session of a process that does not write, whose stream began at revision 10.
func standby(t *testing.T) *session {
	t.Helper()
	s := newSession(nil, rights.NewState(rights.Config{}), nil, &Options{}, false)
	s.identity = "this"
	changed(t, s, 3, 9) // what there was
	reach(t, s, 10)
	return s
}

// changed tells a session of changes at revisions.
func changed(t *testing.T, s *session, revisions ...int64) {
	t.Helper()
	for _, revision := range revisions {
		if err := s.Changed(t.Context(), []storage.StoredChange{{Key: string(rune('a' + revision)), Revision: revision, Resource: secrets}}); err != nil {
			t.Fatal(err)
		}
	}
}

func reach(t *testing.T, s *session, revision int64) {
	t.Helper()
	if err := s.Reached(t.Context(), revision); err != nil {
		t.Fatal(err)
	}
}

// TestTakeover has a process that is to write an index where another one has stopped.
func TestTakeover(t *testing.T) {
	for name, tc := range map[string]struct {
		p     index.Progress
		takes bool
	}{
		"as far as the stream's beginning": {index.Progress{Identity: "this", Complete: true, Revision: 10}, true},
		"farther":                          {index.Progress{Identity: "this", Complete: true, Revision: 12}, true},
		"not so far":                       {index.Progress{Identity: "this", Complete: true, Revision: 9}, false},
		"of something else":                {index.Progress{Identity: "other", Complete: true, Revision: 12}, false},
		"incomplete":                       {index.Progress{Identity: "this", Revision: 12}, false},
	} {
		s := standby(t)
		changed(t, s, 11, 12, 13)
		reach(t, s, 13)
		if err := s.takeOver(tc.p); (err == nil) != tc.takes || err != nil && !errors.Is(err, errTakeover) {
			t.Errorf("%s: %v", name, err)
		}
		if !tc.takes {
			continue
		}
		// What the other one has not written is written next, and nothing that it has.
		s.decode = func(_ context.Context, change *storage.StoredChange) (runtime.Object, storage.Place, error) {
			return &unstructured.Unstructured{}, storage.Place{Space: "acme", Name: change.Key}, nil
		}
		writes, _, err := s.writes(t.Context(), s.take())
		if err != nil || len(writes) != int(13-tc.p.Revision) {
			t.Errorf("%s: %d writes, %v", name, len(writes), err)
		}
	}
	early := newSession(nil, rights.NewState(rights.Config{}), nil, &Options{}, false)
	early.identity = "this"
	if err := early.takeOver(index.Progress{Identity: "this", Complete: true, Revision: 12}); !errors.Is(err, errTakeover) {
		t.Errorf("before the stream has begun: %v", err)
	}
}

// TestForget drops what another process has written.
func TestForget(t *testing.T) {
	s := standby(t)
	changed(t, s, 11, 12, 13)
	s.forget(12)
	if len(s.queue) != 1 || s.queue[0].change.Revision != 13 || s.bytes != s.queue[0].change.Bytes() {
		t.Errorf("%+v, %d bytes", s.queue, s.bytes)
	}
}

// TestCovered says up to where an index is current in which nothing has changed.
func TestCovered(t *testing.T) {
	s := standby(t)
	reach(t, s, 20) // and nothing has happened
	for revision, want := range map[int64]int64{9: 9, 10: 20, 15: 20, 25: 25} {
		if got := s.covered(revision); got != want {
			t.Errorf("%d covers %d", revision, got)
		}
	}
	changed(t, s, 21)
	if got := s.covered(20); got != 20 {
		t.Errorf("it covers %d, before a change that it has not", got)
	}
}

// TestDatabaseComesBack has a database that comes back in an earlier state than the one that was written.
func TestDatabaseComesBack(t *testing.T) {
	f := newFixture(t)
	f.bind(true, 11)
	f.session.last = 11
	f.session.told.note(11)
	f.session.written.note(11) // and the database is as of 10
	f.revision.Store(11)
	if got := f.search(""); got != "ServiceUnavailable" {
		t.Errorf("got %q", got)
	}
}
