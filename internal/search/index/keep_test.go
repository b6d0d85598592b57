package index

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestKeep has an index compared with what there is: what is the same stays as it is, what has gone goes, and there are
// no answers meanwhile.
func TestKeep(t *testing.T) { onEach(t, testKeep) }

func testKeep(t *testing.T, open func(t testing.TB, rows ...Row) *Index) {
	x := open(t)
	x.SetMost(4)
	write := func(name, status string) Write {
		r := row("acme", pods, "Pod", "a", name)
		r.Status = status
		return Write{Key: keyOf(r), Rows: []Row{r}}
	}
	apply(t, x, write("same", ""), write("other", ""), write("gone", ""), write("odd\xff", ""), write("left-out", ""), write("left-out-and-gone", ""))
	ids := func() map[string]int64 {
		all := map[string]int64{}
		rows, err := x.read.QueryContext(t.Context(), `SELECT name, id FROM objects`)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var name string
			var id int64
			if err := rows.Scan(&name, &id); err != nil {
				t.Fatal(err)
			}
			all[name] = id
		}
		return all
	}
	was := ids()
	if err := x.Recheck(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Select(t.Context(), Selection{Scopes: []Scope{{Space: "acme", Visible: everything}}, Limit: 1}); !errors.Is(err, ErrIncomplete) {
		t.Errorf("while it is compared: %v", err)
	}
	keys, writes := &Keys{}, []Write{write("same", ""), write("other", "Running"), write("odd\xff", ""), write("left-out", ""), write("new", "")}
	for _, w := range writes {
		keys.Add(w.Key)
	}
	if _, err := x.Apply(t.Context(), writes, Building); err != nil {
		t.Fatal(err)
	}
	if err := x.Keep(t.Context(), keys); err != nil {
		t.Fatal(err)
	}
	apply(t, x)
	missing, err := x.Omitted(t.Context(), 10)
	if err != nil || fmt.Sprint(missing) != "map[acme:[acme/pods/a/left-out]]" && fmt.Sprint(missing) != "map[acme:[acme/pods/a/new]]" {
		t.Errorf("left out: %v, %v", missing, err)
	}
	x.SetMost(0)
	apply(t, x, write("left-out", ""), write("new", ""))
	if diff := cmp.Diff([]string{"pods a/left-out", "pods a/new", "pods a/odd\xff", "pods a/other", "pods a/same"}, sortedText(find(t, x, Selection{Scopes: []Scope{{Visible: everything}}}, ""))); diff != "" {
		t.Error(diff)
	}
	now := ids()
	for name, same := range map[string]bool{"same": true, "other": false, storedName("odd\xff"): true} {
		if (was[name] == now[name]) != same || now[name] == 0 {
			t.Errorf("%q was %d, and is %d", name, was[name], now[name])
		}
	}
	if n, err := x.Rows(t.Context()); err != nil || n != 5 {
		t.Errorf("%d are counted, %v", n, err)
	}
}

func sortedText(all []string) []string {
	slices.Sort(all)
	return all
}
