package index

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite" // the database, without cgo

	"github.com/tenantry/tenantry/internal/search/query"
)

// Index is a database of rows. One goroutine writes, and any number read.
type Index struct {
	dir         string
	write, read *sql.DB
}

// Readers is how many queries are answered at once, of as many tenants: some may take long.
const Readers = 16

// The place of an object leads every index by which queries are answered, and its space the place.
// Properties are found by their object.
var tables = []string{
	`CREATE TABLE objects (
		id INTEGER PRIMARY KEY, key TEXT NOT NULL, sum INTEGER NOT NULL,
		space TEXT NOT NULL, resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
		apigroup TEXT NOT NULL, kind TEXT NOT NULL, kindfold TEXT NOT NULL, created INTEGER NOT NULL,
		text TEXT NOT NULL, details TEXT NOT NULL)`,
	`CREATE UNIQUE INDEX objects_place ON objects (space, resource, namespace, name)`,
	`CREATE INDEX objects_name ON objects (space, resource, name)`,
	`CREATE INDEX objects_key ON objects (key)`,
	`CREATE TABLE properties (
		object INTEGER NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL,
		PRIMARY KEY (object, name, value)) WITHOUT ROWID`,
}

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
	x := &Index{dir: dir}
	var err error
	if x.write, err = sql.Open("sqlite", file+"&_pragma=cache_size(-32768)"); err == nil {
		x.write.SetMaxOpenConns(1)
		x.read, err = sql.Open("sqlite", file+"&_pragma=query_only(1)&_pragma=temp_store(MEMORY)&_pragma=cache_size(-4096)")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the search index: %w", err), x.Close())
	}
	x.read.SetMaxOpenConns(Readers)
	for _, table := range tables {
		if _, err := x.write.ExecContext(ctx, table); err != nil {
			return nil, errors.Join(fmt.Errorf("creating the search index: %w", err), x.Close())
		}
	}
	return x, nil
}

// Close ends all queries and removes the database.
func (x *Index) Close() error {
	var errs []error
	for _, db := range []*sql.DB{x.write, x.read} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(append(errs, os.RemoveAll(x.dir))...)
}

// Write says what rows there are of the object at a key of etcd: none of one that has gone.
type Write struct {
	Key  string
	Rows []Row
}

// Apply does writes, all or none. Queries see them when it returns.
func (x *Index) Apply(ctx context.Context, writes []Write) error {
	tx, err := x.write.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("writing the search index: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // is no error after Commit
	w, err := newWriter(ctx, tx)
	if err != nil {
		return fmt.Errorf("writing the search index: %w", err)
	}
	for i := range writes {
		if err := w.replace(ctx, &writes[i]); err != nil {
			return fmt.Errorf("writing %q to the search index: %w", writes[i].Key, err)
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("writing the search index: %w", err)
	}
	return nil
}

// writer has the statements of a transaction.
type writer struct{ find, unset, remove, add, set *sql.Stmt }

func newWriter(ctx context.Context, tx *sql.Tx) (*writer, error) {
	w := &writer{}
	for into, text := range map[**sql.Stmt]string{
		&w.find:   `SELECT id, sum FROM objects WHERE key = ?`,
		&w.unset:  `DELETE FROM properties WHERE object = ?`,
		&w.remove: `DELETE FROM objects WHERE id = ?`,
		&w.add: `INSERT INTO objects (key, sum, space, resource, namespace, name, apigroup, kind, kindfold, created, text, details)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		&w.set: `INSERT OR IGNORE INTO properties (object, name, value) VALUES (?, ?, ?)`,
	} {
		var err error
		if *into, err = tx.PrepareContext(ctx, text); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// replace does one write. Most changes of objects, such as renewed leases, concern nothing that
// is searched.
func (w *writer) replace(ctx context.Context, write *Write) error {
	before, err := w.stored(ctx, write.Key)
	if err != nil {
		return err
	}
	var added []stored
	for _, row := range write.Rows {
		s, err := row.store()
		if err != nil {
			return err
		}
		if _, same := before[s.sum]; same {
			delete(before, s.sum)
		} else {
			added = append(added, s)
		}
	}
	for _, id := range before {
		if _, err := w.unset.ExecContext(ctx, id); err != nil {
			return err
		}
		if _, err := w.remove.ExecContext(ctx, id); err != nil {
			return err
		}
	}
	for i := range added {
		if err := w.insert(ctx, write.Key, &added[i]); err != nil {
			return err
		}
	}
	return nil
}

// stored returns the ids of the rows of a key by their sums.
func (w *writer) stored(ctx context.Context, key string) (map[int64]int64, error) {
	rows, err := w.find.QueryContext(ctx, key)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	ids := map[int64]int64{}
	for rows.Next() {
		var id, sum int64
		if err := rows.Scan(&id, &sum); err != nil {
			return nil, err
		}
		ids[sum] = id
	}
	return ids, rows.Err()
}

func (w *writer) insert(ctx context.Context, key string, s *stored) error {
	result, err := w.add.ExecContext(ctx, key, s.sum, string(s.Space), s.Resource.String(), s.Namespace, s.Name, s.Resource.Group,
		s.Kind, query.Fold(s.Kind), s.Created, s.text(), string(s.details))
	if err != nil {
		return err
	}
	id, err := result.LastInsertId()
	if err != nil {
		return err
	}
	for _, p := range s.properties() {
		if _, err := w.set.ExecContext(ctx, id, p.name, p.value); err != nil {
			return err
		}
	}
	return nil
}
