package search

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/internal/search/index"
	"github.com/tenantry/tenantry/internal/server/storage"
	"github.com/tenantry/tenantry/internal/tenant"
)

// stored is a source of objects, which are nothing but their places.
type stored struct {
	// decode, if set, is what Decode does.
	decode func() error
	// read are the keys that were read again, at a revision.
	read     []string
	revision int64
}

func (s *stored) Decode(_ context.Context, change *storage.StoredChange) (runtime.Object, storage.ObjectKey, error) {
	if s.decode != nil {
		if err := s.decode(); err != nil {
			return nil, storage.ObjectKey{}, err
		}
	}
	object := &unstructured.Unstructured{}
	object.SetName(change.Object.Name)
	return object, change.Object, nil
}

func (s *stored) Read(_ context.Context, change *storage.StoredChange) (int64, error) {
	s.read = append(s.read, change.Key)
	*change = storage.StoredChange{Key: change.Key, Revision: s.revision, Resource: change.Resource, Object: change.Object}
	return s.revision, nil
}

func (s *stored) Revision(context.Context) (int64, error) { return s.revision, nil }

// At knows keys as secretIn makes them.
func (s *stored) At(key string, revision int64) (storage.StoredChange, bool, error) {
	parts := strings.Split(key, "/")
	if len(parts) != 6 {
		return storage.StoredChange{}, false, nil
	}
	change := secretIn(tenant.Name(parts[3]), parts[5], revision)
	change.Drop()
	return change, true, nil
}

// secretIn returns a change of a Secret in a space.
func secretIn(space tenant.Name, name string, revision int64) storage.StoredChange {
	return storage.StoredChange{
		Key: fmt.Sprintf("/registry/secrets/%s/a/%s", space, name), Revision: revision, Resource: secrets, Object: storage.ObjectKey{Space: space, Namespace: "a", Name: name},
	}
}

// largeIn is secretIn with a name of a megabyte, as its key has it.
func largeIn(space tenant.Name, revision int64) storage.StoredChange {
	change := secretIn(space, fmt.Sprint(revision), revision)
	change.Key += strings.Repeat("x", 1<<20)
	return change
}

func (q *queue) addAll(changes ...storage.StoredChange) {
	for i := range changes {
		q.add(&changes[i], nil, changes[i].Revision)
	}
}

// taken returns what is taken, by space, and in its order.
func taken(turn []*lane) map[tenant.Name][]int64 {
	revisions := map[tenant.Name][]int64{}
	for _, l := range turn {
		for _, j := range l.taken {
			revisions[l.name] = append(revisions[l.name], j.change.Revision)
		}
	}
	return revisions
}

// TestLanes has a tenant whose changes take long: others' are written with the first of them, and theirs wait for as
// long as they take.
func TestLanes(t *testing.T) {
	q := newQueue()
	revision := int64(1)
	next := func(space tenant.Name, n int) {
		for range n {
			revision++
			q.addAll(secretIn(space, fmt.Sprint(revision), revision))
		}
	}
	// spend writes one turn, of which each change of acme takes a while, because it has many properties.
	const many = 1000
	spend := func() map[tenant.Name][]int64 {
		turn := q.take()
		got, took, weights := taken(turn), make([]time.Duration, len(turn)), make([]int, len(turn))
		for i, l := range turn {
			took[i], weights[i] = time.Duration(len(l.taken))*10*time.Microsecond, len(l.taken)
			if l.name == "acme" {
				took[i], weights[i] = time.Duration(len(l.taken))*20*time.Millisecond, len(l.taken)*many
			}
		}
		q.done(turn, took, weights)
		return got
	}
	next("acme", 5000)
	for range 5 {
		spend()
	}
	next("globex", 50)
	got := spend()
	if len(got["globex"]) != 50 || len(got["acme"]) > turnWeight/many || len(got["acme"]) == 0 {
		t.Errorf("%d changes of the one that has few, with %d of the other", len(got["globex"]), len(got["acme"]))
	}
	// Both have much: 5,000 small ones take as long as a few large ones.
	next("globex", 5000)
	all := map[tenant.Name]int{}
	for all["globex"] < 5000 {
		for space, revisions := range spend() {
			all[space] += len(revisions)
		}
	}
	if all["acme"] > 10 {
		t.Errorf("%d of the other are written meanwhile", all["acme"])
	}
	for !q.isEmpty() {
		spend()
	}
	if len(q.lanes) != 0 || q.size != 0 || q.idle != revision {
		t.Errorf("%d lanes and %d bytes are left, idle since %d", len(q.lanes), q.size, q.idle)
	}
}

// TestWhoComesLater has a tenant whose changes have taken long, and one that comes later: what it has not used before
// does not give it all turns.
func TestWhoComesLater(t *testing.T) {
	q := newQueue()
	revision := int64(1)
	next := func(space tenant.Name, n int) {
		for range n {
			revision++
			q.addAll(secretIn(space, fmt.Sprint(revision), revision))
		}
	}
	spend := func() map[tenant.Name][]int64 {
		turn := q.take()
		took, weights := make([]time.Duration, len(turn)), make([]int, len(turn))
		for i, l := range turn {
			took[i], weights[i] = time.Duration(len(l.taken))*time.Second, len(l.taken)*turnWeight // one is a turn
		}
		got := taken(turn)
		q.done(turn, took, weights)
		return got
	}
	next("acme", 5000)
	for range 100 {
		spend()
	}
	next("globex", 5000)
	all := map[tenant.Name]int{}
	for range 30 {
		for space, revisions := range spend() {
			all[space] += len(revisions)
		}
	}
	if all["acme"] < 10 || all["globex"] == 0 {
		t.Errorf("turns are %v", all)
	}
}

// TestSharedFirst has what all spaces see written before anything else, and the changes of a space in their order.
func TestSharedFirst(t *testing.T) {
	q := newQueue()
	q.addAll(secretIn("acme", "a", 5), secretIn("acme", "b", 6), secretIn("acme", "a", 7), secretIn(tenant.System, "s", 8),
		storage.StoredChange{Key: "d", Revision: 9, Resource: definitions, Object: storage.ObjectKey{Space: tenant.System, Name: "x.y"}})
	turn := q.take()
	if turn[0].name != index.Shared {
		t.Errorf("%q comes first", turn[0].name)
	}
	if diff := cmp.Diff(map[tenant.Name][]int64{"acme": {5, 6, 7}, tenant.System: {8}, index.Shared: {9}}, taken(turn)); diff != "" {
		t.Error(diff)
	}
}

// TestMissing says what is missing of which space.
func TestMissing(t *testing.T) {
	q := newQueue()
	q.begin(10)
	q.addAll(secretIn("acme", "a", 11), secretIn("globex", "g", 12), secretIn("acme", "b", 13))
	missing := func() map[tenant.Name]int64 {
		return map[tenant.Name]int64{"acme": q.missing("acme"), "globex": q.missing("globex"), "initech": q.missing("initech"), tenant.System: q.missing(tenant.System)}
	}
	if diff := cmp.Diff(map[tenant.Name]int64{"acme": 11, "globex": 12, "initech": 0, tenant.System: 0}, missing()); diff != "" {
		t.Error(diff)
	}
	if got := []int64{q.last("acme"), q.last("globex"), q.last("initech")}; !cmp.Equal(got, []int64{13, 12, 10}) {
		t.Errorf("the last ones are %v", got)
	}
	turn := q.take()
	if got := q.missing("acme"); got != 11 {
		t.Errorf("what is being written is taken for written: %d", got)
	}
	q.done(turn, make([]time.Duration, len(turn)), make([]int, len(turn)))
	if diff := cmp.Diff(map[tenant.Name]int64{"acme": 0, "globex": 0, "initech": 0, tenant.System: 0}, missing()); diff != "" {
		t.Error(diff)
	}
	if q.last("acme") != 13 {
		t.Errorf("the last one is %d", q.last("acme"))
	}
	// What all spaces see is missing everywhere.
	q.addAll(storage.StoredChange{Key: "r", Revision: 14, Resource: clusterRoles, Object: storage.ObjectKey{Space: tenant.System, Name: "view"}})
	if diff := cmp.Diff(map[tenant.Name]int64{"acme": 14, "globex": 14, "initech": 14, tenant.System: 14}, missing()); diff != "" {
		t.Error(diff)
	}
	// So is, in the system space, what may be of it.
	q = newQueue()
	q.lanes["acme"] = &lane{name: "acme", jobs: []*job{{since: 20}}, unsure: 21, last: 22}
	if got := []int64{q.missing(tenant.System), q.missing("globex"), q.last(tenant.System)}; !cmp.Equal(got, []int64{20, 0, 22}) {
		t.Errorf("got %v", got)
	}
}

// TestShedding has more wait than there is room for: it is the one who writes much whose objects are read again, each
// once.
func TestShedding(t *testing.T) {
	q := newQueue()
	q.addAll(secretIn("globex", "g", 2))
	for revision := int64(3); revision < 200; revision++ {
		change := largeIn("acme", revision)
		if revision%2 == 0 {
			change.Key = "hot"
		}
		q.addAll(change)
	}
	dropped := map[tenant.Name]int{}
	seen := map[string]bool{}
	for len(q.ready) > 0 {
		turn := q.take()
		for _, l := range turn {
			for _, j := range l.taken {
				if j.change.IsDropped() {
					dropped[l.name]++
					if seen[j.change.Key] {
						t.Errorf("%.10q is read twice", j.change.Key)
					}
					seen[j.change.Key] = true
				}
			}
		}
		q.done(turn, make([]time.Duration, len(turn)), make([]int, len(turn)))
	}
	if dropped["globex"] != 0 || dropped["acme"] < 60 || q.size != 0 {
		t.Errorf("dropped %v, %d bytes left", dropped, q.size)
	}
}

// TestRightsDoNotWait has more changes of objects than there is room for, and nobody who writes them. A right that is
// taken away behind them is.
func TestRightsDoNotWait(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for revision := int64(11); revision < 111; revision++ {
		if err := f.session.Changed(ctx, []storage.StoredChange{largeIn("globex", revision)}); err != nil {
			t.Fatal(err)
		}
	}
	gone := storage.StoredChange{
		Key: "b", Revision: 111, Deleted: true, Object: storage.ObjectKey{Space: "acme", Namespace: "a", Name: "b"}, Resource: schema.GroupResource{Group: rbacv1.GroupName, Resource: "rolebindings"},
	}
	if err := f.session.Changed(ctx, []storage.StoredChange{gone}); err != nil {
		t.Fatal(err)
	}
	if version, stable := f.session.rights.Version("acme", "acme"); version.Revision != 111 || !stable {
		t.Errorf("the rights are as of %d", version.Revision)
	}
}

// TestOthersDoNotWait has a tenant of which much waits to be written, and nobody who writes it. Others' searches after
// a change of their rights wait for their own changes alone.
func TestOthersDoNotWait(t *testing.T) {
	f := newFixture(t)
	f.service.config.Limits.Time = 100 * time.Millisecond
	if err := f.session.Changed(t.Context(), []storage.StoredChange{secretIn("globex", "g", 11)}); err != nil {
		t.Fatal(err)
	}
	f.bind(true, 12)
	f.revision.Store(12)
	f.session.Reached(12)
	if got := f.search(""); got != "a" {
		t.Errorf("with changes of another tenant, got %q", got)
	}
	if got := f.search("?minRevision=12"); got != "a" {
		t.Errorf("with changes of another tenant before a revision, got %q", got)
	}
	if err := f.session.Changed(t.Context(), []storage.StoredChange{secretIn("acme", "new", 13)}); err != nil {
		t.Fatal(err)
	}
	f.bind(true, 14)
	f.revision.Store(14)
	f.session.Reached(14)
	if got := f.search(""); got != "ServiceUnavailable" {
		t.Errorf("with an own change that is not written, got %q", got)
	}
	for !f.session.queue.isEmpty() {
		if err := f.session.writer.writeNext(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := f.search(""); got != "a,a" {
		t.Errorf("when it is written, got %q", got)
	}
}

// TestReadAgain has an object that was let go. It is written when the rights are as new as it.
func TestReadAgain(t *testing.T) {
	f := newFixture(t)
	source := &stored{revision: 30}
	f.session.stream = source
	f.session.revisions.read = func(context.Context) (int64, error) {
		if f.session.index.Broken() || f.session.told.get() != 12 {
			return 0, errors.New("asked too late")
		}
		f.session.Reached(30)
		return 30, nil
	}
	change := secretIn("acme", "new", 12)
	f.session.Reached(12)
	f.session.queue.addAll(change)
	f.session.queue.mu.Lock()
	f.session.queue.shed()
	f.session.queue.mu.Unlock()
	if err := f.session.writer.writeNext(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if f.session.told.get() != 30 || !cmp.Equal(source.read, []string{change.Key}) {
		t.Errorf("read %v, and the rights are as of %d", source.read, f.session.told.get())
	}
	f.session.revisions.read = source.Revision
	if got := f.search(""); got != "a,a" {
		t.Errorf("got %q", got)
	}
}

// TestBehind has an index that says of which spaces it lacks something.
func TestBehind(t *testing.T) {
	f := newFixture(t)
	f.session.queue.addAll(secretIn("acme", "a", 12), secretIn("globex", "g", 13))
	f.session.Reached(14)
	if diff := cmp.Diff(index.Progress{Revision: 14, Behind: []index.Behind{{Space: "acme", Revision: 11}, {Space: "globex", Revision: 12}}}, f.session.writer.state()); diff != "" {
		t.Error(diff)
	}
	f.session.queue.take()
	if diff := cmp.Diff(index.Progress{Revision: 14}, f.session.writer.state(), cmp.Transformer("none", func(b []index.Behind) int { return len(b) })); diff != "" {
		t.Error(diff)
	}
	other := standby(t)
	p := index.Progress{Complete: true, Source: "this", Revision: 14, Behind: []index.Behind{{Space: "acme", Revision: 11}}}
	if err := other.Changed(t.Context(), []storage.StoredChange{secretIn("acme", "a", 12), secretIn("globex", "g", 13)}); err != nil {
		t.Fatal(err)
	}
	other.Reached(15)
	for space, want := range map[tenant.Name]int64{"acme": 11, "globex": 15, "initech": 15, tenant.System: 15} {
		if got := other.covered(&p, space); got != want {
			t.Errorf("%s is covered up to %d, want %d", space, got, want)
		}
	}
}
