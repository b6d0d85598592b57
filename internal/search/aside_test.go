package search

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tenantry/tenantry/internal/server/storage"
)

// labelled is a source of objects with a label.
type labelled struct{ stored }

func (*labelled) Decode(_ context.Context, change *storage.StoredChange) (runtime.Object, storage.ObjectKey, error) {
	object := &unstructured.Unstructured{}
	object.SetName(change.Object.Name)
	object.SetLabels(map[string]string{"is": change.Object.Name})
	return object, change.Object, nil
}

// refuse has the database refuse objects that are labelled as bad.
func refuse(t *testing.T, f *fixture) {
	t.Helper()
	other, err := sql.Open("sqlite", "file:"+filepath.Join(f.dir, "index.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.ExecContext(t.Context(), `CREATE TRIGGER refuse BEFORE INSERT ON properties WHEN NEW.value = 'is=bad' BEGIN SELECT RAISE(ABORT, 'refused'); END`); err != nil {
		t.Fatal(err)
	}
}

// TestSetAside has a database that refuses an object among others. These are found, and so is that one, by its name,
// with a message.
func TestSetAside(t *testing.T) {
	f := newFixture(t)
	f.session.stream = &labelled{}
	refuse(t, f)
	for i, name := range []string{"x", "y", "bad", "z"} {
		f.session.queue.addAll(secretIn("acme", name, int64(11+i)))
	}
	f.session.Reached(14)
	f.revision.Store(14)
	if err := f.session.writer.writeNext(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{"": "a,a,a,a,a", "?q=label:is=*": "a,a,a", "?q=name:bad": "a", "?q=label:is=bad": ""} {
		if got := f.search(query); got != want {
			t.Errorf("%s: got %q, want %q", query, got, want)
		}
	}
	ask := func(where string) string {
		return f.graphql(`{"query":"{ search(input: [{` + where + `}]) { count } messages { id description } }"}`)
	}
	if got := ask(""); !strings.Contains(got, `"count":5`) || !strings.Contains(got, "1 objects that you may list") {
		t.Error(got)
	}
	// Who cannot see it is told nothing of it.
	f.bind(false, 15)
	f.session.Reached(15)
	f.revision.Store(15)
	if got := ask(""); got != `{"search":[{"count":0}],"messages":[]}` {
		t.Error(got)
	}
}
