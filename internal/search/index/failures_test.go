package index

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

func manyWrites(from, to int) []Write {
	var writes []Write
	for i := from; i < to; i++ {
		r := row("acme", pods, "Pod", "default", fmt.Sprint("web-", i))
		r.Labels = map[string]string{"app": fmt.Sprint("app-", i%10)}
		writes = append(writes, Write{Key: keyOf(r), Rows: []Row{r}})
	}
	return writes
}

// TestCorruptFile overwrites the file of the index. What is answered is right, or an error that says that the index
// must be made anew.
func TestCorruptFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "search")
	opened, err := Open(t.Context(), dir)
	x := led(t, opened, err)
	const count = 3000
	apply(t, x, manyWrites(0, count)...)
	if _, err := x.write.ExecContext(t.Context(), `PRAGMA wal_checkpoint(TRUNCATE)`); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(filepath.Join(dir, "index.db"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		t.Fatal(err)
	}
	wrong := make([]byte, 4096)
	for i := range wrong {
		wrong[i] = byte(i*7 + 1)
	}
	for at := int64(4096); at+4096 <= size; at += 4096 { // all but the first page
		if _, err := file.WriteAt(wrong, at); err != nil {
			t.Fatal(err)
		}
	}
	for range Readers + 1 { // each connection remembers pages
		found, err := x.Select(t.Context(), Selection{Scopes: []Scope{{Space: "acme", Visible: everything}}, Limit: count, Query: parse(t, "web")})
		if err == nil && found.Count != count {
			t.Fatalf("%d of %d rows are presented as all", found.Count, count)
		}
	}
	if !x.Broken() {
		t.Error("nobody notices")
	}
}

// TestFullDisk has no room for a write: nothing of it is there, and what was there before is.
func TestFullDisk(t *testing.T) {
	x := openSQLite(t)
	apply(t, x, manyWrites(0, 100)...)
	var pages int
	if err := x.write.QueryRowContext(t.Context(), `PRAGMA page_count`).Scan(&pages); err != nil {
		t.Fatal(err)
	}
	if _, err := x.write.ExecContext(t.Context(), fmt.Sprintf(`PRAGMA max_page_count = %d`, pages+10)); err != nil {
		t.Fatal(err)
	}
	before := x.last
	if _, err := x.Apply(t.Context(), manyWrites(100, 5000), before+1); err == nil {
		t.Fatal("it fits")
	}
	found := selectOne(t, x, Selection{Scopes: []Scope{{Space: "acme", Visible: everything}}, Limit: 1000}, "")
	if found.Count != 100 || found.Revision != before {
		t.Errorf("%d rows at revision %d", found.Count, found.Revision)
	}
}

// TestPassing tells errors that pass by themselves from those that an index is made anew for.
func TestPassing(t *testing.T) {
	x := &Index{dialect: shared}
	for _, tc := range []struct {
		err     error
		passing bool
	}{
		{&pgconn.PgError{Code: "57P01"}, true},                            // it is ended
		{&pgconn.PgError{Code: "53100"}, true},                            // its disk is full
		{fmt.Errorf("writing: %w", &pgconn.PgError{Code: "08006"}), true}, // no connection
		{io.ErrUnexpectedEOF, true},                                       // nor here
		{&pgconn.PgError{Code: "22021"}, false},                           // is no text
		{&pgconn.PgError{Code: "42P01"}, false},                           // no table
		{ErrOvertaken, false},
	} {
		if got := x.Passing(tc.err); got != tc.passing {
			t.Errorf("%v: %v", tc.err, got)
		}
	}
	if (&Index{dialect: embedded}).Passing(context.DeadlineExceeded) {
		t.Error("a file fails for a while")
	}
	if err := (&Index{dialect: shared}).failed("reading", &pgconn.PgError{Code: "42P01"}); !errors.As(err, new(*pgconn.PgError)) {
		t.Error(err)
	}
}
