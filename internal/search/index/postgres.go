package index

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// schemaName is that of the tables in PostgreSQL. Those of another version have another one, so that both can be used
// while servers are replaced.
var schemaName = fmt.Sprintf("tenantry_search_%d", version)

// settings are those of each connection. The order of joins is that of the statements, and plans are made for the
// values at hand. A connection whose other end has gone is noticed, so that it keeps no lock.
var settings = map[string]string{
	"application_name": "tenantry-search", "search_path": schemaName,
	"join_collapse_limit": "1", "from_collapse_limit": "1", "plan_cache_mode": "force_custom_plan", "jit": "off",
	"enable_hashjoin": "off", "enable_mergejoin": "off", "enable_seqscan": "off", "max_parallel_workers_per_gather": "0",
	"tcp_keepalives_idle": "10", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "3", "idle_in_transaction_session_timeout": "60000",
}

// OpenPostgres opens the index in the PostgreSQL that the connection string in a file leads to, and makes the tables if
// there are none. The file is read again for each connection, so that its password can be changed.
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
	maps.Copy(config.RuntimeParams, settings)
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
