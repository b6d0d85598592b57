package index

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tenantry/tenantry/internal/search/query"
	"github.com/tenantry/tenantry/internal/search/rights"
	"github.com/tenantry/tenantry/internal/tenant"
)

// TestOmitted has a space with more objects than the index takes. Nobody is shown a part of them as if it were all,
// nobody who may not list what is left out is told of it, and all come into the index when there is room.
func TestOmitted(t *testing.T) { onEach(t, testOmitted) }

func testOmitted(t *testing.T, open func(t testing.TB, rows ...Row) *Index) {
	x := open(t)
	x.SetMost(5)
	long := strings.Repeat("long", 150) + "\xff" // no text of a database, and too long for an index
	write := func(space tenant.Name, namespace, name string) Write {
		r := row(space, pods, "Pod", namespace, name)
		r.Labels = map[string]string{"app": name}
		return Write{Key: keyOf(r), Rows: []Row{r}}
	}
	apply(t, x, write("acme", "a", "p0"), write("acme", "a", "p1"), write("acme", "a", "p2"), write("globex", "a", "other"), write("acme", "b", "p3"))
	apply(t, x, write("acme", "b", "p4"), write("acme", "a", "p5"), write("acme", "a", long)) // of which one has room
	for i := range 9 {
		apply(t, x, write(tenant.System, "a", fmt.Sprint("s", i)), Write{Key: fmt.Sprint("shared", i), Rows: []Row{row(Shared, clusterRoles, "ClusterRole", "", fmt.Sprint("r", i))}})
	}
	in := func(set rights.Set) *rights.Set { return &set }
	named := func(names ...string) map[schema.GroupResource]sets.Set[string] {
		return map[schema.GroupResource]sets.Set[string]{pods: sets.New(names...)}
	}
	const omitted = -1
	check := func(what string, space tenant.Name, visible *rights.Set, text string, want int) {
		t.Helper()
		found, err := x.Select(t.Context(), Selection{Scopes: []Scope{{Space: space, Visible: visible}}, Query: parse(t, text), Limit: 100})
		if got := len(found.Rows); want == omitted && !errors.Is(err, ErrOmitted) || want != omitted && (err != nil || got != want) {
			t.Errorf("%s: %d rows, want %d, %v", what, got, want, err)
		}
	}
	group := in(rights.Set{Groups: []rights.Group{{Resources: sets.New(pods), Namespaces: sets.New("b")}}})
	check("everything", "acme", everything, "", omitted)
	check("a filter that may find it", "acme", everything, "label:app=p1", omitted)
	check("a namespace that is whole", "acme", everything, "namespace:b", 2)
	check("a kind that is whole", "acme", everything, "kind:!pod", 0)
	check("who may not list what is left out", "acme", group, "", 2)
	check("nor its namespace", "acme", in(rights.Set{Whole: sets.New(pods), Denied: sets.New("a")}), "", 2)
	check("names that are there", "acme", in(rights.Set{Named: named("p0", "p4", "none")}), "", 2)
	check("a name that is not", "acme", in(rights.Set{Named: named("p0", "p5")}), "", omitted)
	check("a name that is not, in a namespace", "acme", in(rights.Set{NamedIn: map[rights.Range]sets.Set[string]{{Resource: pods, Namespace: "a"}: sets.New(long)}}), "", omitted)
	check("a name in another namespace", "acme", in(rights.Set{NamedIn: map[rights.Range]sets.Set[string]{{Resource: pods, Namespace: "b"}: sets.New("p5")}}), "", 0)
	check("another space", "globex", everything, "", 1)
	check("the system space, which has no bound", tenant.System, everything, "", 9)
	view(t, x, func(ctx context.Context, s *Snapshot) error {
		if _, err := s.Values(ctx, []Scope{{Space: "globex", Visible: everything}, {Space: "acme", Visible: everything}}, query.Query{}, "name", 10); !errors.Is(err, ErrOmitted) {
			t.Errorf("values: %v", err)
		}
		return nil
	})
	expectOmitted := func(what string, missing int64, want ...string) {
		t.Helper()
		keys, err := x.Omitted(t.Context(), 10, "acme", "globex")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(sets.New(want...), sets.New(keys["acme"]...)); diff != "" || len(keys["globex"]) > 0 {
			t.Errorf("%s: %s, %v", what, diff, keys["globex"])
		}
		if n, err := x.Missing(t.Context()); err != nil || n != missing {
			t.Errorf("%s: %d are left out, %v", what, n, err)
		}
	}
	expectOmitted("without room", 2)
	apply(t, x, write("acme", "a", "p5")) // once more
	apply(t, x, Write{Key: keyOf(row("acme", pods, "Pod", "a", "p0")), Rows: []Row{func() Row { r := row("acme", pods, "Pod", "a", "p0"); r.Status = "Running"; return r }()}})
	expectOmitted("after changes", 2)
	check("what has changed, and stays", "acme", in(rights.Set{Named: named("p0")}), "status:Running", 1)
	apply(t, x, Write{Key: keyOf(row("acme", pods, "Pod", "a", "p0"))})
	keys, err := x.Omitted(t.Context(), 10)
	if err != nil || len(keys["acme"]) != 1 {
		t.Fatal(keys, err)
	}
	apply(t, x, Write{Key: keyOf(row("acme", pods, "Pod", "b", "p3"))})
	expectOmitted("with room", 2, "acme/pods/a/p5", "acme/pods/a/"+long)
	apply(t, x, write("acme", "a", "p5"), Write{Key: "acme/pods/a/" + long}) // which has gone meanwhile
	expectOmitted("when all have come", 0)
	check("everything again", "acme", everything, "", 4)
	check("what has come", "acme", everything, "label:app=p5", 1)
	apply(t, x, write("acme", "c", "p6"), write("acme", "c", "p7"))
	check("a range of nothing else", "acme", everything, "namespace:c", omitted)
	apply(t, x, Write{Key: "acme/pods/c/p6"}, Write{Key: "acme/pods/c/p7"})
	check("a range that has gone", "acme", everything, "", 4)
	x.SetMost(0)
	apply(t, x, write("acme", "c", "p6"), write("acme", "c", "p7"), write("acme", "c", "p8"))
	check("without a bound", "acme", everything, "", 7)
}

// TestOmittedSizes compares how many objects are counted, while many are written, with how many there are.
func TestOmittedSizes(t *testing.T) { onEach(t, testOmittedSizes) }

func testOmittedSizes(t *testing.T, open func(t testing.TB, rows ...Row) *Index) {
	x, random := open(t), newRandom()
	x.SetMost(40)
	there := map[string]bool{}
	for range 60 {
		var writes []Write
		for range random.IntN(20) {
			r := row([]tenant.Name{"acme", "globex"}[random.IntN(2)], pods, "Pod", fmt.Sprint("n", random.IntN(3)), fmt.Sprint("p", random.IntN(30)))
			r.Status = fmt.Sprint(random.IntN(3))
			w := Write{Key: keyOf(r)}
			if there[w.Key] = random.IntN(4) > 0; there[w.Key] {
				w.Rows = []Row{r}
			} else {
				delete(there, w.Key)
			}
			writes = append(writes, w)
		}
		if random.IntN(5) == 0 {
			x.sizes = nil // as after a failure
		}
		apply(t, x, writes...)
		want := map[tenant.Name]int64{}
		for key := range there {
			space, _, _ := strings.Cut(key, "/")
			want[tenant.Name(space)]++
		}
		total := int64(0)
		for _, space := range []tenant.Name{"acme", "globex"} {
			var has, lacks int64
			if err := x.read.QueryRowContext(t.Context(), x.bind(`SELECT CAST(coalesce(sum(objects), 0) AS BIGINT), CAST(coalesce(sum(omitted), 0) AS BIGINT) FROM ranges WHERE space = ?`), string(space)).Scan(&has, &lacks); err != nil {
				t.Fatal(err)
			}
			if size, known := x.sizes[space]; has+lacks != want[space] || has > 40 || known && size != has {
				t.Fatalf("space %s: %d, and %d left out, of %d; %d are counted", space, has, lacks, want[space], size)
			}
			total += lacks
		}
		if missing, err := x.Missing(t.Context()); err != nil || missing != total {
			t.Fatal(missing, total, err)
		}
	}
}
