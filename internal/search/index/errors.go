package index

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

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
	if file, is := errors.AsType[*sqlite.Error](err); is {
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
