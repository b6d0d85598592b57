package index

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tenantry/tenantry/internal/search/rights"
	"github.com/tenantry/tenantry/internal/tenant"
)

// TestBehind notes of which spaces something is missing.
func TestBehind(t *testing.T) {
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			x := d.open(t)
			behind := []Behind{{"acme", 5, true}, {"globex", 7, false}}
			x.SetMark("m")
			if _, err := x.Apply(t.Context(), nil, 9, behind...); err != nil {
				t.Fatal(err)
			}
			p, err := x.Progress(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(Progress{Source: "test", Complete: true, Revision: 9, Behind: behind, Mark: "m"}, p); diff != "" {
				t.Error(diff)
			}
			for space, want := range map[tenant.Name]int64{"acme": 5, "globex": 7, "initech": 9, tenant.System: 5} {
				if got := p.In(space); got != want {
					t.Errorf("in %s: %d, want %d", space, got, want)
				}
			}
			if p.All() != 5 || p.Of(tenant.System) != 9 || p.Of("acme") != 5 {
				t.Errorf("of all %d, of the system %d", p.All(), p.Of(tenant.System))
			}
			p.Behind = []Behind{{Space: Shared, Revision: 3}}
			if p.In("initech") != 3 || p.In(tenant.System) != 3 || p.Of("initech") != 9 {
				t.Error("what all spaces see is not missing everywhere")
			}
			if _, err := x.Apply(t.Context(), nil, 10); err != nil {
				t.Fatal(err)
			}
			if p, err := x.Progress(t.Context()); err != nil || len(p.Behind) > 0 || p.All() != 10 {
				t.Errorf("%+v, %v", p, err)
			}
		})
	}
}

// TestOpenRemovesNothingElse checks that nothing is removed of a directory that has more than an index.
func TestOpenRemovesNothingElse(t *testing.T) {
	for name, path := range map[string]string{"a file": "ca.crt", "a directory": "etcd/db"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, file := range []string{"index.db", path} {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, file), []byte("kept"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := Open(t.Context(), dir); err == nil || !strings.Contains(err.Error(), dir) {
				t.Errorf("opened: %v", err)
			}
			for _, file := range []string{"index.db", path} {
				if content, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(content) != "kept" {
					t.Errorf("%s: %q, %v", file, content, err)
				}
			}
		})
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), file); err == nil {
		t.Error("in the place of a file")
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

// TestReopen goes on with a file that was left.
func TestReopen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "search")
	if _, err := Reopen(t.Context(), dir); err == nil {
		t.Error("what is not there is opened")
	}
	x, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if leads, err := x.Lead(t.Context()); err != nil || !leads {
		t.Fatal(leads, err)
	}
	if err := x.Reset(t.Context(), "this"); err != nil {
		t.Fatal(err)
	}
	write := func(x *Index, name string, revision int64) {
		t.Helper()
		r := row("acme", pods, "Pod", "default", name)
		if _, err := x.Apply(t.Context(), []Write{{Key: keyOf(r), Rows: []Row{r}}}, revision); err != nil {
			t.Fatal(err)
		}
	}
	write(x, "web", 5)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if x, err = Reopen(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if p, err := x.Progress(t.Context()); err != nil || !p.Complete || p.Source != "this" || p.Revision != 5 {
		t.Fatalf("%+v, %v", p, err)
	}
	if leads, err := x.Lead(t.Context()); err != nil || !leads {
		t.Fatal(leads, err)
	}
	write(x, "db", 6) // whose ids are new
	if found := selectOne(t, x, Selection{Scopes: []Scope{{Space: "acme", Visible: everything}}, Limit: 10}, ""); found.Count != 2 || found.Revision != 6 {
		t.Errorf("%+v", found)
	}
	if _, err := x.write.ExecContext(t.Context(), `PRAGMA user_version = 1`); err != nil {
		t.Fatal(err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Reopen(t.Context(), dir); err == nil {
		t.Error("a file with other tables is opened")
	}
	if err := os.WriteFile(fileIn(dir), []byte("no database"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Reopen(t.Context(), dir); err == nil {
		t.Error("a file that is no database is opened")
	}
}

// TestRefused has an object whose labels the database does not take. Its name is there, and who may see it is told so.
func TestRefused(t *testing.T) {
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			x := d.open(t)
			r := row("acme", pods, "Pod", "default", "bad")
			r.Labels = map[string]string{"a": "b\x00"} // which NewRow would not return
			refuse := Write{Key: keyOf(r), Rows: []Row{r}}
			if !x.postgres {
				if _, err := x.write.ExecContext(t.Context(), `CREATE TRIGGER refuse BEFORE INSERT ON properties WHEN NEW.name = 'label' BEGIN SELECT RAISE(ABORT, 'refused'); END`); err != nil {
					t.Fatal(err)
				}
			}
			_, err := x.Apply(t.Context(), []Write{refuse}, x.last+1)
			if err == nil || !x.Refuses(err) || x.Passing(err) {
				t.Fatalf("it is not refused: %v", err)
			}
			apply(t, x, refuse.NameOnly())
			for namespace, want := range map[string]int{"default": 1, "other": 0} {
				s := Selection{Scopes: []Scope{{Space: "acme", Visible: &rights.Set{Groups: []rights.Group{{Resources: sets.New(pods), Namespaces: sets.New(namespace)}}}}}, Limit: 10}
				if found := selectOne(t, x, s, ""); found.Aside != want || found.Count != int64(want) || want == 1 && found.Rows[0].Name != "bad" {
					t.Errorf("in %s: %+v", namespace, found)
				}
			}
			if found := selectOne(t, x, Selection{Scopes: []Scope{{Space: "acme", Visible: everything}}, Limit: 10}, "label:a=b"); found.Aside != 1 || found.Count != 0 {
				t.Errorf("by what is not there: %+v", found)
			}
			if found := selectOne(t, x, Selection{Scopes: []Scope{{Space: "acme", Visible: everything}}, Limit: 10}, "kind:secret"); found.Aside != 0 {
				t.Errorf("of another kind: %+v", found)
			}
			r.Labels = nil
			apply(t, x, Write{Key: keyOf(r), Rows: []Row{r}})
			if found := selectOne(t, x, Selection{Scopes: []Scope{{Space: "acme", Visible: everything}}, Limit: 10}, ""); found.Aside != 0 || found.Count != 1 {
				t.Errorf("when it is taken: %+v", found)
			}
		})
	}
}
