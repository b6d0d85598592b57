package index

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/tenantry/tenantry/test/env/postgres"
)

// server is the PostgreSQL of the tests of this package, which is started when the first of them needs it.
var server = sync.OnceValues(func() (*postgres.Server, error) { return postgres.Start(context.Background()) })

var started bool

func TestMain(m *testing.M) {
	code := m.Run()
	if started {
		if s, err := server(); err == nil {
			_ = s.Remove()
		}
	}
	os.Exit(code)
}

// database is a kind of database.
type database struct {
	name string
	open func(t testing.TB) *Index
}

// databases are the kinds of which each test of the index is run.
var databases = []database{{"SQLite", openSQLite}, {"PostgreSQL", openPostgres}}

func openSQLite(t testing.TB) *Index {
	t.Helper()
	x, err := Open(t.Context(), filepath.Join(t.TempDir(), "search"))
	return led(t, x, err)
}

func openPostgres(t testing.TB) *Index {
	t.Helper()
	x, err := OpenPostgres(t.Context(), databaseFile(t), NewHolder())
	return led(t, x, err)
}

// databaseFile returns the file with the connection string of a new database.
func databaseFile(t testing.TB) string {
	t.Helper()
	started = true
	s, err := server()
	if errors.Is(err, postgres.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s.Database(t)
}

// led returns an index that this process writes, and that is complete and empty.
func led(t testing.TB, x *Index, err error) *Index {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	if leads, err := x.Lead(t.Context()); err != nil || !leads {
		t.Fatal(leads, err)
	}
	if err := x.Reset(t.Context(), "test"); err != nil {
		t.Fatal(err)
	}
	apply(t, x)
	return x
}

// onEach runs a test with each kind of database.
func onEach(t *testing.T, test func(t *testing.T, open func(t testing.TB, rows ...Row) *Index)) {
	t.Helper()
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			test(t, func(t testing.TB, rows ...Row) *Index {
				t.Helper()
				x := d.open(t)
				for i := range rows {
					apply(t, x, Write{Key: keyOf(rows[i]), Rows: rows[i : i+1]})
				}
				return x
			})
		})
	}
}
