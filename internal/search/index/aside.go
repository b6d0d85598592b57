package index

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Refuses reports whether an error of Apply is about what was to be written: it comes again, and is no failure of the database. All of the
// writes together are refused then, of which one may be why.
func (x *Index) Refuses(err error) bool {
	var file *sqlite.Error
	if errors.As(err, &file) {
		return slices.Contains([]int{sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH}, file.Code()&0xff)
	}
	var server *pgconn.PgError
	if errors.As(err, &server) { // data, integrity, and what is too large
		return slices.Contains([]string{"22", "23", "54"}, server.Code[:min(2, len(server.Code))])
	}
	return false
}

// Identity returns a write of the same objects with nothing but what tells them from others. Answers say so of them.
func (w *Write) Identity() Write {
	bare := Write{Key: w.Key, Rows: make([]Row, len(w.Rows))}
	for i := range w.Rows {
		r := &w.Rows[i]
		bare.Rows[i] = Row{
			Space: r.Space, Resource: r.Resource, Namespace: r.Namespace, Name: r.Name, Kind: r.Kind, Created: r.Created,
			Details: Details{UID: r.UID, Aside: true},
		}
	}
	return bare
}

// setAside returns how many of the visible objects of a space have nothing but their identity.
func (x *Index) setAside(ctx context.Context, tx *sql.Tx, s Selection, v *visible) (int, error) {
	shared := s.Space
	if s.Shared {
		shared = Shared
	}
	all := map[int64]int64{} // the homes of objects
	err := queryEach(ctx, tx, x.bind(`SELECT a.object, a.home FROM aside a WHERE a.space IN (?, ?)`), []any{string(s.Space), string(shared)}, func(rows *sql.Rows) error {
		var object, home int64
		err := rows.Scan(&object, &home)
		all[object] = home
		return err
	})
	if err != nil || len(all) == 0 {
		return 0, err
	}
	visibleRanges, n := make(map[int64]bool, len(v.ranges)), 0
	for _, id := range v.ranges {
		visibleRanges[id] = true
	}
	for object, home := range all {
		if visibleRanges[home] || slices.Contains(v.objects, object) {
			n++
		}
	}
	return n, nil
}
