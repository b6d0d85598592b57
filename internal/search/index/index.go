package index

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
	_ "modernc.org/sqlite" // the database, without cgo

	"github.com/tenantry/tenantry/internal/tenant"
)

// Index is a database of rows. One goroutine of one process writes, and any number read.
type Index struct {
	dialect
	write, read *sql.DB
	// holder tells this process from others that use the same database, and epoch its turn of writing from others.
	holder string
	epoch  int64
	// last is the revision that was noted last. It is told from what a failed database may have come back with.
	last int64
	// pending is the one that may have been noted since.
	pending int64
	// mark is what is noted with the revision.
	mark string
	// object and area are the last ids that were given.
	object, area int64
	// file is that of an embedded database, empty of others.
	file string
	// reading is taken by each view, and by who empties the log of a file. log is of how many bytes that is done, and
	// tried the size at which it was not possible.
	reading    *semaphore.Weighted
	log, tried int64
	// most is how many objects of a tenant's space are in it at most, zero for any number, and sizes how many some
	// spaces have.
	most  int64
	sizes map[tenant.Name]int64
	// broken is set when the database has said that it is no longer what was written.
	broken atomic.Bool
}

// Readers is how many queries are answered at once, of as many tenants: some may take long.
const Readers = 16

// ErrIncomplete means that the index has not everything yet.
var ErrIncomplete = errors.New("the search index is not complete yet")

// ErrOvertaken means that another process writes the index now.
var ErrOvertaken = errors.New("another process writes the search index")

// Open makes an empty database in a directory, which it makes, too. An index that was there before is lost. It is an
// error if anything else is there.
func Open(ctx context.Context, dir string) (*Index, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the directory of the search index: %w", err)
	}
	if err := removeFiles(dir); err != nil {
		return nil, fmt.Errorf("removing the search index: %w", err)
	}
	x, err := openFile(dir)
	if err == nil {
		err = x.create(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("creating the search index: %w", err), x.Close())
	}
	return x, nil
}

// Reopen opens the database that Open has made in a directory and that was closed. It is an error if there is none, or
// one with other tables.
func Reopen(ctx context.Context, dir string) (*Index, error) {
	if _, err := os.Stat(fileIn(dir)); err != nil {
		return nil, fmt.Errorf("opening the search index: %w", err)
	}
	x, err := openFile(dir)
	if err == nil {
		var found int
		if err = x.write.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&found); err == nil && found != version {
			err = fmt.Errorf("its version is %d, and must be %d", found, version)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the search index: %w", err), x.Close())
	}
	return x, nil
}

// removeFiles removes the files of an embedded database, and nothing if its directory has others.
func removeFiles(dir string) error {
	found, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range found {
		if file := filepath.Join(dir, entry.Name()); entry.IsDir() || !slices.Contains(filesIn(dir), file) {
			return fmt.Errorf("the directory %q has %q, which is not of an index: name one that is empty or is not there", dir, entry.Name())
		}
	}
	for _, file := range filesIn(dir) {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// filesIn returns the files that SQLite makes of a database.
func filesIn(dir string) []string {
	file := fileIn(dir)
	return []string{file, file + "-wal", file + "-shm", file + "-journal"}
}

// fileIn returns the file of an embedded database.
func fileIn(dir string) string { return filepath.Join(dir, "index.db") }

// openFile opens an embedded database. After a failure of the machine it may lack what was written last, and no more:
// what it says of itself holds.
func openFile(dir string) (*Index, error) {
	file := "file:" + fileIn(dir) + "?_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)"
	x := &Index{dialect: embedded, file: fileIn(dir), reading: semaphore.NewWeighted(Readers), log: maxLog}
	var err error
	if x.write, err = sql.Open("sqlite", file+"&_pragma=cache_size(-32768)"); err != nil {
		return x, err
	}
	x.write.SetMaxOpenConns(1)
	if x.read, err = sql.Open("sqlite", file+"&_pragma=query_only(1)&_pragma=temp_store(MEMORY)&_pragma=cache_size(-4096)"); err != nil {
		return x, err
	}
	x.read.SetMaxOpenConns(Readers)
	return x, nil
}

// create makes the tables, and says that nothing is in them.
func (x *Index) create(ctx context.Context) error {
	for _, statement := range append(x.tables(), emptyState, fmt.Sprintf(`PRAGMA user_version = %d`, version)) {
		if _, err := x.write.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// Close ends all queries.
func (x *Index) Close() error {
	var errs []error
	for _, db := range []*sql.DB{x.write, x.read} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

// Progress is how far the index is.
type Progress struct {
	// Source says of what it is an index, empty if it is one of nothing.
	Source string
	// Complete is whether it has everything up to Revision, but for what Behind says.
	Complete bool
	Revision int64
	Behind   []Behind
	// Mark is what SetMark was told.
	Mark string
}

// Behind says that the changes of a space, or of what all spaces see (Shared), are there up to an earlier revision
// only.
type Behind struct {
	Space    tenant.Name `json:"space"`
	Revision int64       `json:"revision"`
	// Unsure is whether some of what is missing may be of the system space.
	Unsure bool `json:"unsure,omitempty"`
}

// In returns the revision up to which it has everything that a space has.
func (p *Progress) In(space tenant.Name) int64 {
	return p.least(func(b *Behind) bool {
		return b.Space == space || b.Space == Shared || space == tenant.System && b.Unsure
	})
}

// Of returns the revision up to which it has the changes of a space, or of what all spaces see.
func (p *Progress) Of(space tenant.Name) int64 {
	return p.least(func(b *Behind) bool { return b.Space == space })
}

// All returns the revision up to which it has everything of all spaces.
func (p *Progress) All() int64 { return p.least(func(*Behind) bool { return true }) }

func (p *Progress) least(counts func(b *Behind) bool) int64 {
	least := p.Revision
	for i := range p.Behind {
		if b := &p.Behind[i]; counts(b) {
			least = min(least, b.Revision)
		}
	}
	return least
}

// Progress returns how far the index is.
func (x *Index) Progress(ctx context.Context) (Progress, error) {
	p, err := progressOf(x.read.QueryRowContext(ctx, progressText))
	if err != nil {
		return p, x.failed("reading the search index", err)
	}
	return p, nil
}

const progressText = `SELECT source, revision, complete <> 0, behind, mark FROM state`

func progressOf(row *sql.Row) (Progress, error) {
	var p Progress
	var behind string
	err := row.Scan(&p.Source, &p.Revision, &p.Complete, &behind, &p.Mark)
	if err == nil && behind != "" {
		err = json.Unmarshal([]byte(behind), &p.Behind)
	}
	return p, err
}

// view calls read with a transaction in which the database stays as it is, and the progress it is of. It is an error if
// that is none of a whole index.
func (x *Index) view(ctx context.Context, read func(tx *sql.Tx, p Progress) error) error {
	options := &sql.TxOptions{ReadOnly: true}
	if x.postgres {
		options.Isolation = sql.LevelRepeatableRead
	}
	if x.reading != nil {
		if err := x.reading.Acquire(ctx, 1); err != nil {
			return x.failed("reading the search index", err)
		}
		defer x.reading.Release(1)
	}
	tx, err := x.read.BeginTx(ctx, options)
	if err != nil {
		return x.failed("reading the search index", err)
	}
	defer tx.Rollback() //nolint:errcheck // nothing is written
	if x.postgres {
		// Emptying the tables waits for this lock. Without it, they could be empty in a state in which they are complete.
		if _, err := tx.ExecContext(ctx, `LOCK TABLE ranges, objects, bodies, texts, properties, aside, omitted IN ACCESS SHARE MODE`); err != nil {
			return x.failed("reading the search index", err)
		}
	}
	p, err := progressOf(tx.QueryRowContext(ctx, progressText))
	if err != nil {
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
