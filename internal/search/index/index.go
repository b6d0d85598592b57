package index

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	_ "modernc.org/sqlite" // the database, without cgo
)

// Index is a database of rows. One goroutine of one process writes, and any number read.
type Index struct {
	dialect
	write, read *sql.DB
	// release lets what the database is made of go.
	release func() error
	// holder tells this process from others that use the same database, and epoch its turn of writing from others.
	holder string
	epoch  int64
	// last is the revision that was noted last. It is told from what a failed database may have come back with.
	last int64
	// pending is the one that may have been noted since.
	pending int64
	// object and area are the last ids that were given.
	object, area int64
	// broken is set when the database has said that it is no longer what was written.
	broken atomic.Bool
}

// Readers is how many queries are answered at once, of as many tenants: some may take long.
const Readers = 16

// ErrIncomplete means that the index has not everything yet.
var ErrIncomplete = errors.New("the search index is not complete yet")

// ErrOvertaken means that another process writes the index now.
var ErrOvertaken = errors.New("another process writes the search index")

// Open makes an empty database in a directory, which it makes, too, and in which nothing else may be.
// What was there before is lost.
func Open(ctx context.Context, dir string) (*Index, error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("removing the search index: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the directory of the search index: %w", err)
	}
	file := "file:" + filepath.Join(dir, "index.db") + "?_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)"
	x := &Index{dialect: embedded, release: func() error { return os.RemoveAll(dir) }}
	var err error
	if x.write, err = sql.Open("sqlite", file+"&_pragma=cache_size(-32768)"); err == nil {
		x.write.SetMaxOpenConns(1)
		x.read, err = sql.Open("sqlite", file+"&_pragma=query_only(1)&_pragma=temp_store(MEMORY)&_pragma=cache_size(-4096)")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the search index: %w", err), x.Close())
	}
	x.read.SetMaxOpenConns(Readers)
	if err := x.create(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("creating the search index: %w", err), x.Close())
	}
	return x, nil
}

// create makes the tables, and says that nothing is in them.
func (x *Index) create(ctx context.Context) error {
	for _, table := range x.tables() {
		if _, err := x.write.ExecContext(ctx, table); err != nil {
			return err
		}
	}
	_, err := x.write.ExecContext(ctx, emptyState)
	return err
}

// Close ends all queries. An embedded database is removed.
func (x *Index) Close() error {
	var errs []error
	for _, db := range []*sql.DB{x.write, x.read} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(append(errs, x.release())...)
}

// Progress is how far the index is.
type Progress struct {
	// Identity says of what it is an index, empty if it is one of nothing.
	Identity string
	// Complete is whether it has everything up to Revision.
	Complete bool
	Revision int64
}

// Progress returns how far the index is.
func (x *Index) Progress(ctx context.Context) (Progress, error) {
	var p Progress
	err := x.read.QueryRowContext(ctx, progressText).Scan(&p.Identity, &p.Revision, &p.Complete)
	if err != nil {
		return p, x.failed("reading the search index", err)
	}
	return p, nil
}

const progressText = `SELECT identity, revision, complete <> 0 FROM state`

// view calls read with a transaction in which the database stays as it is, and the progress it is of. It is an error if
// that is none of a whole index.
func (x *Index) view(ctx context.Context, read func(tx *sql.Tx, p Progress) error) error {
	options := &sql.TxOptions{ReadOnly: true}
	if x.postgres {
		options.Isolation = sql.LevelRepeatableRead
	}
	tx, err := x.read.BeginTx(ctx, options)
	if err != nil {
		return x.failed("reading the search index", err)
	}
	defer tx.Rollback() //nolint:errcheck // nothing is written
	if x.postgres {
		// Who empties the tables waits for this. Without it, they could be empty in a state in which they are complete.
		if _, err := tx.ExecContext(ctx, `LOCK TABLE ranges, objects, bodies, properties IN ACCESS SHARE MODE`); err != nil {
			return x.failed("reading the search index", err)
		}
	}
	var p Progress
	if err := tx.QueryRowContext(ctx, progressText).Scan(&p.Identity, &p.Revision, &p.Complete); err != nil {
		return x.failed("reading the search index", err)
	}
	if !p.Complete {
		return ErrIncomplete
	}
	if err := read(tx, p); err != nil {
		return x.failed("reading the search index", err)
	}
	return nil
}

// Shared reports whether several processes use the database.
func (x *Index) Shared() bool { return x.postgres }

// Rows returns how many objects the index has.
func (x *Index) Rows(ctx context.Context) (int64, error) {
	var n int64
	if err := x.read.QueryRowContext(ctx, `SELECT CAST(coalesce(sum(objects), 0) AS BIGINT) FROM ranges`).Scan(&n); err != nil {
		return 0, x.failed("counting in the search index", err)
	}
	return n, nil
}
