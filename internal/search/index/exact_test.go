package index

import (
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tenantry/tenantry/internal/search/query"
	"github.com/tenantry/tenantry/internal/search/rights"
	"github.com/tenantry/tenantry/internal/tenant"
)

// TestExact compares what is found among many rows, by every way to them, with what is said of each row in Go.
func TestExact(t *testing.T) { onEach(t, testExact) }

func testExact(t *testing.T, open func(t testing.TB, rows ...Row) *Index) {
	random := newRandom()
	x, rows := open(t), manyRows(random)
	writes := make([]Write, len(rows))
	for i := range rows {
		writes[i] = Write{Key: keyOf(rows[i]), Rows: rows[i : i+1]}
	}
	for batch := range slices.Chunk(writes, 700) {
		apply(t, x, batch...)
	}
	for i := 0; i < len(rows); i += 9 { // some change, and some go
		rows[i].Status, rows[i].Created = "Failed", rows[i].Created+1
		apply(t, x, Write{Key: keyOf(rows[i]), Rows: rows[i : i+1]})
	}
	for i := 0; i < 50; i++ {
		apply(t, x, Write{Key: keyOf(rows[i])})
	}
	rows = rows[50:]
	some := &rights.Set{
		Whole:  sets.New(configMaps),
		Groups: []rights.Group{{Resources: sets.New(pods), Namespaces: sets.New("n1", "n3")}},
		Named:  map[schema.GroupResource]sets.Set[string]{pods: sets.New("web-17", "web-18"), deployments: sets.New("web-3")},
		Denied: sets.New("n5"),
	}
	for _, visible := range []*rights.Set{everything, some} {
		for _, text := range []string{
			"", "status:Running", "status:Failed", "label:app=app-3", "label:app=app-3 status:Running", "label:app=app-3 status:!Running", "label:app=*-3", "label:!tier=web",
			"status:Running,Failed label:tier=web", "name:web-1*", "name:web-17", "kind:pod", "kind:!pod status:Running", "namespace:n1,n2 label:tier=web",
			"label:app*", "label:app=app-1* status:Running", "label:app* web-1", "label:app*,tier*", "image:a*", "image:*", "image:long-*", "image:" + long[:197] + "*", "image:" + long[:198] + "*", "image:" + long[:201] + "*", "image:" + long[:1000] + "3",
			"app-3", "eb-17", "17", "web running", "eb-17 5", "7 5", "created:>=2024-01-02 created:<2024-01-04", "zzz", "status:None", "n3 tier=web", "configmap",
		} {
			wanted := expect(t, rows, visible, text)
			var got []string
			var after *After
			for more := true; more; {
				found := selectOne(t, x, Selection{Scopes: []Scope{{Space: "acme", Visible: visible}}, Limit: 333, After: after}, text)
				if found.Count != int64(len(wanted)) {
					t.Fatalf("%q: counted %d of %d", text, found.Count, len(wanted))
				}
				for i := range found.Rows {
					r := &found.Rows[i]
					got = append(got, r.Resource.String()+" "+r.Namespace+"/"+r.Name)
					after = &After{Resource: r.Resource.String(), Namespace: r.Namespace, Name: r.Name}
				}
				more = found.More
			}
			if diff := cmp.Diff(wanted, got); diff != "" {
				t.Errorf("%q: %s", text, diff)
			}
		}
	}
}

func manyRows(random *rand.Rand) []Row {
	var rows []Row
	for i := range 7000 {
		resource, kind := pods, "Pod"
		switch random.IntN(10) {
		case 0:
			resource, kind = configMaps, "ConfigMap"
		case 1:
			resource, kind = deployments, []string{"Deployment", "Renamed"}[random.IntN(2)]
		}
		r := row([]tenant.Name{"acme", "acme", "acme", "globex"}[random.IntN(4)], resource, kind, fmt.Sprint("n", random.IntN(6)), fmt.Sprint("web-", i))
		r.Created = time.Date(2024, 1, 1+random.IntN(5), 0, 0, 0, 0, time.UTC).Unix()
		r.Labels = map[string]string{"app": fmt.Sprint("app-", random.IntN(40))}
		if random.IntN(2) == 0 {
			r.Labels["tier"] = "web"
		}
		if random.IntN(3) == 0 {
			r.Labels["approved"] = fmt.Sprint(random.IntN(3))
		}
		if random.IntN(20) == 0 {
			r.Properties = []query.Property{{Name: "image", Value: long[:1000] + fmt.Sprint(random.IntN(9))}, {Name: "image", Value: "a"}, {Name: "image", Value: "b"}}
		}
		if r.Space == "globex" {
			r.Labels["of"], r.Properties = "globex", append(r.Properties, query.Property{Name: "secret", Value: "of globex"})
		}
		r.Status = []string{"Running", "Pending", ""}[random.IntN(3)]
		rows = append(rows, r)
	}
	return rows
}

func parse(t *testing.T, text string) query.Query {
	t.Helper()
	q, err := query.Parse(text, time.Date(2024, 6, 1, 0, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func selectOne(t *testing.T, x *Index, s Selection, text string) Found {
	t.Helper()
	s.Query = parse(t, text)
	found, err := x.Select(t.Context(), s)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return found
}

// expect returns the places of the rows that match, in their order.
func expect(t *testing.T, rows []Row, visible *rights.Set, text string) []string {
	t.Helper()
	q := parse(t, text)
	var found []Row
	for i := range rows {
		r := &rows[i]
		if r.Space == "acme" && visible.Allows(r.Resource, r.Namespace, r.Name) && rowMatches(r, q) {
			found = append(found, *r)
		}
	}
	slices.SortFunc(found, func(a, b Row) int {
		return strings.Compare(a.Resource.String()+"\x00"+a.Namespace+"\x00"+a.Name, b.Resource.String()+"\x00"+b.Namespace+"\x00"+b.Name)
	})
	var places []string
	for i := range found {
		places = append(places, found[i].Resource.String()+" "+found[i].Namespace+"/"+found[i].Name)
	}
	return places
}

func rowMatches(r *Row, q query.Query) bool {
	for _, keyword := range q.Keywords {
		if !strings.Contains(r.text(), keyword) {
			return false
		}
	}
	for _, f := range q.Filters {
		values := map[string][]string{"kind": {r.Kind}, "namespace": {r.Namespace}, "name": {r.Name}}[f.Property]
		for _, p := range r.properties() {
			if p.name == f.Property {
				values = append(values, p.value)
			}
		}
		has := func(v query.Value) bool { return slices.ContainsFunc(values, v.Matches) }
		switch {
		case f.Property == query.Created:
			at := time.Unix(r.Created, 0)
			if f.Any[0].Is == query.NotBefore && at.Before(f.Any[0].Time) || f.Any[0].Is == query.Before && !at.Before(f.Any[0].Time) {
				return false
			}
		case len(f.Any) > 0 && !slices.ContainsFunc(f.Any, has), slices.ContainsFunc(f.None, has):
			return false
		}
	}
	return true
}

// long is too long for an index.
var long = strings.Repeat("long-", 1000)

// TestOddText has names and values that are no text for databases, or too long for their indexes.
func TestOddText(t *testing.T) { onEach(t, testOddText) }

func testOddText(t *testing.T, open func(t testing.TB, rows ...Row) *Index) {
	names := []string{"a\x00b", "a b", "a\xffb", "a\ufffdb", "\n", long + "1", long + "2", "\u00e9", "e\u0301", "plain", `%_\'"`}
	var rows []Row
	for _, name := range names {
		r := row("acme", clusterRoles, "ClusterRole", "", name)
		r.Annotations = map[string]string{"about": long + query.Text(name)}
		rows = append(rows, r)
	}
	x := open(t, rows...)
	found := selectOne(t, x, Selection{Scopes: []Scope{{Space: "acme", Visible: everything}}, Limit: 100}, "")
	var got []string
	for i := range found.Rows {
		got = append(got, found.Rows[i].Name)
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(names)), slices.Sorted(slices.Values(got))); diff != "" {
		t.Error(diff)
	}
	for i, name := range names {
		visible := &rights.Set{Named: map[schema.GroupResource]sets.Set[string]{clusterRoles: sets.New(name)}}
		one := selectOne(t, x, Selection{Scopes: []Scope{{Space: "acme", Visible: visible}}, Limit: 100}, "")
		if one.Count != 1 || one.Rows[0].Name != name {
			t.Errorf("by the name %.20q: %+v", name, one)
		}
		r := &found.Rows[i]
		rest := selectOne(t, x, Selection{Scopes: []Scope{{Space: "acme", Visible: everything}}, Limit: 100, After: &After{Resource: r.Resource.String(), Name: r.Name}}, "")
		if len(rest.Rows) != len(names)-i-1 {
			t.Errorf("%d rows behind %.20q", len(rest.Rows), r.Name)
		}
	}
	for text, count := range map[string]int64{
		"annotation:about=" + long[:3500] + "*": 11, "annotation:about=" + long[:100] + "*": 11, "annotation:about=" + long[:190] + "*": 11, "annotation:about=lonh*": 0,
		`"annotation:about=*long-plain"`: 0, `annotation:"about=` + long[:20] + `*-plain"`: 1, "name:plain": 1, "long-plain": 1,
	} {
		if found := selectOne(t, x, Selection{Scopes: []Scope{{Space: "acme", Visible: everything}}, Limit: 100}, text); found.Count != count {
			t.Errorf("%.40q: %d", text, found.Count)
		}
	}
}

// TestIncomplete has an index that is being built.
func TestIncomplete(t *testing.T) { onEach(t, testIncomplete) }

func testIncomplete(t *testing.T, open func(t testing.TB, rows ...Row) *Index) {
	x := open(t, row("acme", pods, "Pod", "default", "web"))
	if err := x.Reset(t.Context(), "other"); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Apply(t.Context(), []Write{{Key: "1", Rows: []Row{row("acme", pods, "Pod", "default", "web")}}}, Building); err != nil {
		t.Fatal(err)
	}
	if found, err := x.Select(t.Context(), Selection{Scopes: []Scope{{Space: "acme", Visible: everything}}, Limit: 1}); !errors.Is(err, ErrIncomplete) {
		t.Errorf("%+v, %v", found, err)
	}
	if _, err := x.Apply(t.Context(), nil, 7); err != nil {
		t.Fatal(err)
	}
	found, err := x.Select(t.Context(), Selection{Scopes: []Scope{{Space: "acme", Visible: everything}}, Limit: 1})
	if p, _ := x.Progress(t.Context()); err != nil || found.Revision != 7 || found.Count != 1 || p.Source != "other" {
		t.Errorf("%+v, %v, %+v", found, err, p)
	}
}

// another opens the database of an index as another process.
func another(t *testing.T, file string) *Index {
	t.Helper()
	x, err := OpenPostgres(t.Context(), file, NewHolder())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	return x
}

// TestOneWrites has two processes that use one PostgreSQL.
func TestOneWrites(t *testing.T) {
	file := databaseFile(t)
	first, second := another(t, file), another(t, file)
	lead := func(x *Index, want bool) {
		t.Helper()
		if leads, err := x.Lead(t.Context()); err != nil || leads != want {
			t.Fatalf("leads: %v, %v", leads, err)
		}
	}
	lead(first, true)
	lead(second, false)
	if err := first.Reset(t.Context(), "test"); err != nil {
		t.Fatal(err)
	}
	web := []Write{{Key: "1", Rows: []Row{row("acme", pods, "Pod", "default", "web")}}}
	if _, err := first.Apply(t.Context(), web, 5); err != nil {
		t.Fatal(err)
	}
	if _, err := second.Apply(t.Context(), web, 6); !errors.Is(err, ErrOvertaken) {
		t.Errorf("who does not lead writes: %v", err)
	}
	// The lease of the first has passed.
	if _, err := second.write.ExecContext(t.Context(), `UPDATE state SET renewed = 0`); err != nil {
		t.Fatal(err)
	}
	lead(second, true)
	if _, err := first.Apply(t.Context(), nil, 6); !errors.Is(err, ErrOvertaken) {
		t.Errorf("two write: %v", err)
	}
	if _, err := second.Apply(t.Context(), append(web, Write{Key: "2", Rows: []Row{row("acme", pods, "Pod", "default", "db")}}), 6); err != nil {
		t.Fatal(err)
	}
	if err := second.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	third := another(t, file)
	lead(third, true)
	found := selectOne(t, third, Selection{Scopes: []Scope{{Space: "acme", Visible: everything}}, Limit: 10}, "")
	if found.Count != 2 || found.Revision != 6 {
		t.Errorf("%+v", found)
	}
	// The database comes back as it was before.
	if _, err := third.write.ExecContext(t.Context(), `UPDATE state SET revision = 5`); err != nil {
		t.Fatal(err)
	}
	if _, err := third.Apply(t.Context(), nil, 7); !errors.Is(err, ErrOvertaken) {
		t.Errorf("what is lost is not noticed: %v", err)
	}
}

// TestEmptiedWhileRead has an index that is emptied while somebody reads it.
func TestEmptiedWhileRead(t *testing.T) {
	file := databaseFile(t)
	writer, reader := another(t, file), another(t, file)
	if leads, err := writer.Lead(t.Context()); err != nil || !leads {
		t.Fatal(leads, err)
	}
	if _, err := writer.Apply(t.Context(), []Write{{Key: "1", Rows: []Row{row("acme", pods, "Pod", "default", "web")}}}, 5); err != nil {
		t.Fatal(err)
	}
	emptied := make(chan error, 1)
	err := reader.view(t.Context(), func(tx *sql.Tx, _ Progress) error {
		go func() { emptied <- writer.Reset(t.Context(), "other") }()
		for waits := false; !waits; { // until it waits, or is done
			if err := reader.read.QueryRowContext(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted)`).Scan(&waits); err != nil {
				return err
			}
			waits = waits || len(emptied) > 0
		}
		var rows int
		if err := tx.QueryRowContext(t.Context(), `SELECT count(*) FROM objects`).Scan(&rows); err != nil {
			return err
		}
		if rows != 1 {
			t.Errorf("%d rows of a whole index", rows)
		}
		return nil
	})
	if err := errors.Join(err, <-emptied); err != nil {
		t.Error(err)
	}
}

func newRandom() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) } // is to be repeated
