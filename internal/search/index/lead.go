package index

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"
)

// lease is for how long a process writes after it has last said so. By then, another one may.
const lease = 5 * time.Second

// now is the time of the database, in milliseconds, where several processes use it.
func (d dialect) now() string {
	return d.either(`0`, `(extract(epoch FROM clock_timestamp()) * 1000)::bigint`)
}

// Lead has this process write the index, and reports whether it does: of several processes one does at a time. It must
// be called again before a lease has passed. Its error is ErrOvertaken if the database is not as this process has left
// it.
func (x *Index) Lead(ctx context.Context) (leads bool, err error) {
	var epoch, revision int64
	err = x.write.QueryRowContext(ctx, x.bind(`UPDATE state SET epoch = CASE WHEN holder = ? THEN epoch ELSE epoch + 1 END, holder = ?, renewed = `+x.now()+
		` WHERE holder = ? OR renewed < `+x.now()+` - ? RETURNING epoch, revision`), x.holder, x.holder, x.holder, lease.Milliseconds()).Scan(&epoch, &revision)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		x.epoch = 0
		return false, nil
	case err != nil:
		return false, x.failed("electing who writes the search index", err)
	case x.epoch == epoch && (revision == x.last || revision == x.pending):
		x.last = revision
		return true, nil
	case x.epoch != 0:
		return false, ErrOvertaken
	}
	x.sizes = nil // others have written
	err = x.write.QueryRowContext(ctx, `SELECT coalesce((SELECT max(id) FROM objects), 0), coalesce((SELECT max(id) FROM ranges), 0)`).Scan(&x.object, &x.area)
	if err != nil {
		return false, x.failed("electing who writes the search index", err)
	}
	x.epoch, x.last = epoch, revision
	return true, nil
}

// Resign lets another process write at once.
func (x *Index) Resign(ctx context.Context) error {
	_, err := x.write.ExecContext(ctx, x.bind(`UPDATE state SET renewed = 0 WHERE epoch = ? AND holder = ?`), x.epoch, x.holder)
	x.epoch = 0
	if err != nil {
		return x.failed("letting others write the search index", err)
	}
	return nil
}

// Reset empties the index, which becomes one of what source says, and is not complete. Lead has been called.
func (x *Index) Reset(ctx context.Context, source string) error {
	tx, err := x.write.BeginTx(ctx, nil)
	if err != nil {
		return x.failed("emptying the search index", err)
	}
	defer tx.Rollback() //nolint:errcheck // is no error after Commit
	empty := []string{`TRUNCATE ` + strings.Join(filled, `, `)}
	if !x.postgres {
		empty = empty[:0]
		for _, table := range filled {
			empty = append(empty, `DELETE FROM `+table)
		}
	}
	for _, statement := range empty {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return x.failed("emptying the search index", err)
		}
	}
	w := &writer{Index: x, tx: tx}
	if err := w.note(ctx, Building, nil); err != nil {
		return x.failed("emptying the search index", err)
	}
	if _, err := tx.ExecContext(ctx, x.bind(`UPDATE state SET source = ?`), source); err != nil {
		return x.failed("emptying the search index", err)
	}
	if err := tx.Commit(); err != nil {
		return x.failed("emptying the search index", err)
	}
	x.last, x.sizes = Building, nil
	return nil
}

// Settle has the database get ready for queries when the index has been built. Nobody waits for it.
func (x *Index) Settle(ctx context.Context) error {
	if !x.postgres {
		return nil
	}
	if _, err := x.read.ExecContext(ctx, `VACUUM (ANALYZE) `+strings.Join(filled, `, `)); err != nil {
		return x.failed("settling the search index", err)
	}
	return nil
}
