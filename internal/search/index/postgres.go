package index

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// schemaName is that of the tables in PostgreSQL. Those of another version have another one, so that both can be used
// while servers are replaced.
var schemaName = fmt.Sprintf("tenantry_search_%d", version)

// settings are those of each connection. The order of joins is that of the statements, and plans are made for the values at
// hand. A connection whose other end has gone is noticed, so that it keeps no lock.
var settings = map[string]string{
	"application_name": "tenantry-search", "search_path": schemaName,
	"join_collapse_limit": "1", "from_collapse_limit": "1", "plan_cache_mode": "force_custom_plan", "jit": "off",
	"enable_hashjoin": "off", "enable_mergejoin": "off", "enable_seqscan": "off", "max_parallel_workers_per_gather": "0",
	"tcp_keepalives_idle": "10", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "3", "idle_in_transaction_session_timeout": "60000",
}

// OpenPostgres opens the index in the PostgreSQL that the connection string in a file leads to, and makes the tables if there are none.
// The file is read again for each connection, so that its password can be changed.
//
// holder tells the process from others, see NewHolder.
func OpenPostgres(ctx context.Context, file, holder string) (*Index, error) {
	config, err := readConfig(file)
	if err != nil {
		return nil, err
	}
	renew := stdlib.OptionBeforeConnect(func(_ context.Context, c *pgx.ConnConfig) error {
		now, err := readConfig(file)
		if err == nil {
			c.User, c.Password = now.User, now.Password
		}
		return err
	})
	x := &Index{dialect: shared, holder: holder}
	x.write, x.read = stdlib.OpenDB(*config, renew), stdlib.OpenDB(*config, renew)
	x.write.SetMaxOpenConns(1)
	x.read.SetMaxOpenConns(Readers)
	x.read.SetMaxIdleConns(Readers)
	if err := x.createOnce(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("creating the search index in PostgreSQL: %w", err), x.Close())
	}
	return x, nil
}

// NewHolder returns what tells a process from all others.
func NewHolder() string { return rand.Text() }

func readConfig(file string) (*pgx.ConnConfig, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading how to connect to PostgreSQL: %w", err)
	}
	config, err := pgx.ParseConfig(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("file %s has no connection string of PostgreSQL, such as postgres://user:password@host/database: %w", file, err)
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	for name, value := range settings {
		config.RuntimeParams[name] = value
	}
	return config, nil
}

const connectTimeout = 5 * time.Second

// createOnce makes the tables, of several processes in one.
func (x *Index) createOnce(ctx context.Context) error {
	tx, err := x.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()       //nolint:errcheck // is no error after Commit
	const lock = 0x7e4a4e7279 // is that of nobody else
	if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, lock); err != nil {
		return err
	}
	var exists bool
	if err := tx.QueryRowContext(ctx, `SELECT to_regclass($1) IS NOT NULL`, schemaName+`.state`).Scan(&exists); err != nil || exists {
		return err
	}
	for _, statement := range append([]string{`CREATE SCHEMA IF NOT EXISTS ` + schemaName}, x.tables()...) {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, emptyState); err != nil {
		return err
	}
	return tx.Commit()
}

// lease is for how long a process writes after it has last said so. By then, another one may.
const lease = 5 * time.Second

// now is the time of the database, in milliseconds, where several processes use it.
func (d dialect) now() string {
	return d.either(`0`, `(extract(epoch FROM clock_timestamp()) * 1000)::bigint`)
}

// Lead has this process write the index, and reports whether it does: of several processes one does at a time. It must be called again
// before a lease has passed. Its error is ErrOvertaken if the database is not as this process has left it.
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

// Reset empties the index, which becomes one of what identity says, and is not complete. Lead has been called.
func (x *Index) Reset(ctx context.Context, identity string) error {
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
	if _, err := tx.ExecContext(ctx, x.bind(`UPDATE state SET identity = ?`), identity); err != nil {
		return x.failed("emptying the search index", err)
	}
	if err := tx.Commit(); err != nil {
		return x.failed("emptying the search index", err)
	}
	x.last, x.sizes = Building, nil
	return nil
}

// Passing reports whether an error may pass by itself: the database cannot be reached, is ending, or has no room.
func (x *Index) Passing(err error) bool {
	var server *pgconn.PgError
	switch {
	case !x.postgres || errors.Is(err, ErrOvertaken):
		return false
	case errors.As(err, &server):
		class := server.Code[:min(2, len(server.Code))]
		return slices.Contains([]string{"08", "40", "53", "55", "57", "58"}, class)
	default:
		return true
	}
}

// Broken reports whether the database has said that it is no longer what was written, and must be made anew.
func (x *Index) Broken() bool { return x.broken.Load() }

// failed says what failed, and notes whether that is for good.
func (x *Index) failed(doing string, err error) error {
	var file *sqlite.Error
	if errors.As(err, &file) {
		switch file.Code() & 0xff {
		case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN:
			x.broken.Store(true)
		}
	}
	var server *pgconn.PgError
	if errors.As(err, &server) && (server.Code == "42P01" || strings.HasPrefix(server.Code, "XX00")) { // no such table; corrupted
		x.broken.Store(true)
	}
	return fmt.Errorf("%s: %w", doing, err)
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
