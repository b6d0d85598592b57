package search

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tenantry/tenantry/internal/search/index"
	"github.com/tenantry/tenantry/internal/search/rights"
	"github.com/tenantry/tenantry/internal/server/storage"
	"github.com/tenantry/tenantry/internal/tenant"
)

// early is a session of a process that does not write, whose stream has not begun.
func early() *session {
	return newSession(parts{stream: &stored{}, rights: rights.NewState(rights.Config{}), options: &Options{}, watches: &watches{}, source: "this"}, false, index.Progress{}, nil)
}

// standby is a session of a process that does not write, whose stream began at revision 10.
func standby(t *testing.T) *session {
	t.Helper()
	s := early()
	changed(t, s, 3, 9) // what there was
	s.Listed(10, 10)
	s.Reached(10)
	return s
}

// changed tells a session of changes at revisions.
func changed(t *testing.T, s *session, revisions ...int64) {
	t.Helper()
	for _, revision := range revisions {
		if err := s.Changed(t.Context(), []storage.StoredChange{secretIn("acme", fmt.Sprint(revision), revision)}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTakeover has a process that is to write an index where another one has stopped.
func TestTakeover(t *testing.T) {
	for name, tc := range map[string]struct {
		p     index.Progress
		takes bool
	}{
		"as far as the stream's beginning": {index.Progress{Source: "this", Complete: true, Revision: 10}, true},
		"farther":                          {index.Progress{Source: "this", Complete: true, Revision: 12}, true},
		"farther, but for its space":       {index.Progress{Source: "this", Complete: true, Revision: 13, Behind: []index.Behind{{Space: "acme", Revision: 11}}}, true},
		"not so far in a space":            {index.Progress{Source: "this", Complete: true, Revision: 13, Behind: []index.Behind{{Space: "globex", Revision: 9}}}, false},
		"not so far":                       {index.Progress{Source: "this", Complete: true, Revision: 9}, false},
		"of something else":                {index.Progress{Source: "other", Complete: true, Revision: 12}, false},
		"incomplete":                       {index.Progress{Source: "this", Revision: 12}, false},
	} {
		s := standby(t)
		changed(t, s, 11, 12, 13)
		s.Reached(13)
		if err := s.writer.takeOver(tc.p); (err == nil) != tc.takes || err != nil && !errors.Is(err, errTakeover) {
			t.Errorf("%s: %v", name, err)
		}
		if !tc.takes {
			continue
		}
		// What the other one has not written is written next, and nothing that it has.
		w, err := s.writer.writes(t.Context(), s.queue.take())
		if err != nil || len(w.writes) != int(13-tc.p.All()) {
			t.Errorf("%s: %d writes, %v", name, len(w.writes), err)
		}
	}
	if err := early().writer.takeOver(index.Progress{Source: "this", Complete: true, Revision: 12}); !errors.Is(err, errTakeover) {
		t.Errorf("before the stream has begun: %v", err)
	}
}

// TestForget drops what another process has written.
func TestForget(t *testing.T) {
	s := standby(t)
	changed(t, s, 11, 12, 13)
	s.queue.forget(&index.Progress{Revision: 12})
	left := s.queue.lanes["acme"].jobs
	if len(left) != 1 || left[0].change.Revision != 13 || s.queue.size != left[0].size {
		t.Errorf("%+v, %d bytes", left, s.queue.size)
	}
	if s.queue.forget(&index.Progress{Revision: 13}); len(s.queue.lanes)+len(s.queue.ready)+s.queue.size != 0 || s.queue.last("acme") != 13 {
		t.Errorf("%+v", s.queue)
	}
}

// TestCovered says up to where an index is current in which nothing has changed.
func TestCovered(t *testing.T) {
	s := standby(t)
	s.Reached(20) // and nothing has happened
	for revision, want := range map[int64]int64{9: 9, 10: 20, 15: 20, 25: 25} {
		if got := s.covered(&index.Progress{Revision: revision}, "acme"); got != want {
			t.Errorf("%d covers %d", revision, got)
		}
	}
	changed(t, s, 21)
	if got := s.covered(&index.Progress{Revision: 20}, "acme"); got != 20 {
		t.Errorf("it covers %d, before a change that it has not", got)
	}
}

// TestDatabaseComesBack has a database that comes back in an earlier state than the one that was written.
func TestDatabaseComesBack(t *testing.T) {
	f := newFixture(t)
	f.service.config.Limits.Time = 50 * time.Millisecond
	f.bind(true, 11)
	f.session.queue.begin(11)
	f.session.Reached(11) // and the database is as of 10
	f.revision.Store(11)
	if got := f.search(""); got != "ServiceUnavailable" {
		t.Errorf("got %q", got)
	}
}

// TestWoken tells those who watch the space of a custom resource that goes, which its key does not say, and nobody
// else.
func TestWoken(t *testing.T) {
	f := newFixture(t)
	source := &placed{space: "acme"}
	f.session.stream = source
	watching := map[tenant.Name]*watched{}
	for _, n := range []tenant.Name{"acme", "globex", "initech"} {
		own, release, err := f.session.watches.begin(&asker{userTenant: n, space: n})
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		watching[n] = own
	}
	write := func(deleted bool, names ...string) {
		t.Helper()
		turn := &lane{name: "acme"}
		for _, name := range names {
			turn.taken = append(turn.taken, &job{change: &storage.StoredChange{Key: name, Revision: 11, Resource: widgets, Custom: true, Deleted: deleted}})
		}
		if err := f.session.writer.writeTurn(t.Context(), []*lane{turn}); err != nil {
			t.Fatal(err)
		}
	}
	told := func(when string, want ...tenant.Name) {
		t.Helper()
		woken := sets.New[tenant.Name]()
		for n, own := range watching {
			select {
			case <-own.signal:
				woken.Insert(n)
			default:
			}
		}
		if !woken.Equal(sets.New(want...)) {
			t.Errorf("%s: %q are told, not %q", when, sets.List(woken), want)
		}
	}
	write(false, "a", "b", "c", "d")
	told("when they come", "acme")
	write(true, "a")
	told("when one goes", "acme")
	write(true, "a", "unknown")
	told("when none goes")
	source.space = "globex" // whose the key is when the definition has changed
	write(false, "b")
	told("when one moves", "acme", "globex")
	write(true, "b", "c")
	told("when some of two spaces go", "acme", "globex")
	refuse(t, f)
	turn := &lane{name: "acme", taken: []*job{
		{change: &storage.StoredChange{Key: "d", Revision: 12, Resource: widgets, Custom: true, Deleted: true}},
		{change: &storage.StoredChange{Key: "bad", Revision: 12, Resource: widgets, Custom: true}},
	}}
	if err := f.session.writer.writeTurn(t.Context(), []*lane{turn}); err != nil {
		t.Fatal(err)
	}
	told("when one goes beside one that is refused", "acme", "globex")
}

// TestRefill has objects come into the index when there is room for them: those that were left out are read again,
// without anybody's doing.
func TestRefill(t *testing.T) {
	f := newFixture(t)
	f.session.index.SetMost(4) // of which two are there
	source := &stored{revision: 12}
	f.session.stream = source
	write := func() {
		t.Helper()
		for turn := f.session.queue.take(); len(turn) > 0; turn = f.session.queue.take() {
			if err := f.session.writer.writeTurn(t.Context(), turn); err != nil {
				t.Fatal(err)
			}
		}
	}
	expect := func(what, want string, omitted int64) {
		t.Helper()
		missing, err := f.session.index.Missing(t.Context())
		if got := f.search("?q=namespace:a"); got != want || err != nil || missing != omitted {
			t.Errorf("%s: %s, and %d are left out, %v", what, got, missing, err)
		}
	}
	gone := func(name string) {
		change := secretIn("acme", name, 12)
		change.Deleted = true
		f.session.queue.addAll(change)
		write()
	}
	f.revision.Store(12)
	f.session.Reached(12)
	f.session.queue.addAll(secretIn("acme", "x1", 11), secretIn("acme", "x2", 11), secretIn("acme", "x3", 12), secretIn("acme", "x4", 12))
	write()
	expect("with two too many", "InsufficientStorage", 2)
	gone("x1")
	expect("with one too many", "InsufficientStorage", 1)
	gone("x2")
	expect("with room for all", "a,a,a", 0)
	if len(source.read) != 2 {
		t.Errorf("read again: %q", source.read)
	}
}

// widgets are custom resources.
var widgets = schema.GroupResource{Group: "example.com", Resource: "widgets"}

// placed is a source of objects of one space, as what is stored says.
type placed struct {
	stored
	space tenant.Name
}

func (s *placed) Decode(_ context.Context, change *storage.StoredChange) (runtime.Object, storage.ObjectKey, error) {
	object := &unstructured.Unstructured{}
	object.SetName(change.Key)
	object.SetLabels(map[string]string{"is": change.Key})
	return object, storage.ObjectKey{Space: s.space, Namespace: "a", Name: change.Key}, nil
}
