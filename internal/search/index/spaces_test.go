package index

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tenantry/tenantry/internal/search/query"
	"github.com/tenantry/tenantry/internal/search/rights"
	"github.com/tenantry/tenantry/internal/tenant"
)

// TestSpaces compares what is found in several spaces at once with what is found in each, which TestExact is about.
func TestSpaces(t *testing.T) { onEach(t, testSpaces) }

func testSpaces(t *testing.T, open func(t testing.TB, rows ...Row) *Index) {
	x, rows := open(t), manyRows(newRandom())[:4000] // so many that the shortest way is looked for
	for i := range rows {
		rows[i].Space = []tenant.Name{"acme", "globex", "initech", "initrode"}[i%4]
	}
	rows = append(rows, row(Shared, clusterRoles, "ClusterRole", "", "view"), row(Shared, clusterRoles, "ClusterRole", "", "edit"), row("globex", clusterRoles, "Own", "", "view"))
	writes := make([]Write, len(rows))
	for i := range rows {
		writes[i] = Write{Key: keyOf(rows[i]), Rows: rows[i : i+1]}
	}
	for batch := range slices.Chunk(writes, 1000) {
		apply(t, x, batch...)
	}
	some := &rights.Set{
		Whole: sets.New(configMaps, clusterRoles), Groups: []rights.Group{{Resources: sets.New(pods), Namespaces: sets.New("n1", "n3")}},
		Named: map[schema.GroupResource]sets.Set[string]{deployments: sets.New(rows[3].Name, rows[7].Name)},
	}
	scopes := []Scope{{Space: "globex", Shared: true, Visible: some}, {Space: "initech", Visible: &rights.Set{}}, {Space: "acme", Shared: true, Visible: everything}, {Space: "initrode", Shared: true, Visible: some}}
	orders := []query.Order{{Property: "name"}, {Property: "status", Descending: true}, {Property: "space", Descending: true}, {Property: "created"}}
	properties := []string{"kind", "space", "namespace", "status", "name", "created", "label"}
	for i, text := range []string{
		"", "status:Running", "label:app=app-3 status:!Running", "app-3", "glob", "init web", "ob web-1", "status:Running init", "kind:clusterrole",
		"space:acme,globex", "space:!acme label:tier=web", "label:app=app-3 acme",
	} {
		view(t, x, func(ctx context.Context, s *Snapshot) error {
			for _, order := range []query.Order{{}, orders[i%len(orders)]} {
				compareSpaces(ctx, t, s, scopes, text, order)
			}
			for k := range 3 {
				if err := compareValues(ctx, t, s, scopes, text, properties[(i+3*k)%len(properties)]); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// compareValues compares the values that a property has in several spaces with those that it has in each.
func compareValues(ctx context.Context, t *testing.T, s *Snapshot, scopes []Scope, text, property string) error {
	t.Helper()
	var wanted []string
	for _, scope := range scopes {
		values, err := s.Values(ctx, []Scope{scope}, parse(t, text), property, 10_000)
		if err != nil {
			return err
		}
		wanted = append(wanted, values...)
	}
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	for _, limit := range []int{10_000, 5} {
		got, err := s.Values(ctx, scopes, parse(t, text), property, limit)
		if err != nil {
			return err
		}
		if diff := gocmp.Diff(wanted[:min(limit, len(wanted))], got, equalEmpty); diff != "" {
			t.Errorf("%q: %s, %d: %s", text, property, limit, diff)
		}
	}
	return nil
}

var equalEmpty = gocmp.Transformer("all", func(all []string) string { return strings.Join(all, "\n") })

// compareSpaces reads pages of several spaces in an order.
func compareSpaces(ctx context.Context, t *testing.T, s *Snapshot, scopes []Scope, text string, order query.Order) {
	t.Helper()
	selected := func(scopes []Scope, limit, offset int, after *After) Found {
		found, err := s.Select(ctx, Selection{
			Scopes: scopes, Query: parse(t, text), Order: order, Limit: limit, Offset: offset, After: after,
		})
		if err != nil {
			t.Fatal(err)
		}
		s.budget.left = MaxRead
		return found
	}
	var wanted []Row
	for _, scope := range scopes {
		wanted = append(wanted, selected([]Scope{scope}, 10_000, 0, nil).Rows...)
	}
	slices.SortStableFunc(wanted, func(a, b Row) int {
		key, space := strings.Compare(a.Key, b.Key), cmp.Compare(a.Space, b.Space)
		if order.Descending {
			key = -key
		}
		if order.Property == "space" {
			space = -space
		}
		return cmp.Or(key, space)
	})
	places := func(rows []Row) []string {
		all := make([]string, len(rows))
		for i := range rows {
			all[i] = fmt.Sprintf("%s %s %s %s/%s", rows[i].Key, rows[i].Space, rows[i].Resource, rows[i].Namespace, rows[i].Name)
		}
		return all
	}
	var got []Row
	var after *After
	for more := true; more; {
		page := selected(scopes, 900, 0, after)
		if page.Count != int64(len(wanted)) {
			t.Fatalf("%q by %+v: counted %d of %d", text, order, page.Count, len(wanted))
		}
		got = append(got, page.Rows...)
		if more = page.More; more {
			place := got[len(got)-1].Place()
			after = &place
		}
	}
	if diff := gocmp.Diff(places(wanted), places(got), equalEmpty); diff != "" {
		t.Errorf("%q by %+v: %s", text, order, diff)
	}
	if offset := min(5, len(wanted)); len(wanted) > 0 {
		got = selected(scopes, 10, offset, nil).Rows
		if diff := gocmp.Diff(places(wanted[offset:min(offset+10, len(wanted))]), places(got), equalEmpty); diff != "" {
			t.Errorf("%q by %+v, from %d: %s", text, order, offset, diff)
		}
	}
}
