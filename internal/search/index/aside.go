package index

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
	"k8s.io/apimachinery/pkg/util/sets"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Refuses reports whether an error of Apply is about what was to be written: it comes again, and is no failure of the
// database. All of the writes together are refused then, of which one may be why.
func (x *Index) Refuses(err error) bool {
	if file, is := errors.AsType[*sqlite.Error](err); is {
		return slices.Contains([]int{sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH}, file.Code()&0xff)
	}
	var server *pgconn.PgError
	if errors.As(err, &server) { // data, integrity, and what is too large
		return slices.Contains([]string{"22", "23", "54"}, server.Code[:min(2, len(server.Code))])
	}
	return false
}

// NameOnly returns a write of the same objects with nothing but what names them. Answers say so of them.
func (w *Write) NameOnly() Write {
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

// setAside returns how many of the visible objects have nothing but their name.
func (x *Index) setAside(ctx context.Context, tx *sql.Tx, s Selection, v *visible) (int, error) {
	var spaces []string
	for _, scope := range s.scopes() {
		if spaces = append(spaces, string(scope.Space)); scope.Shared && !slices.Contains(spaces, string(Shared)) {
			spaces = append(spaces, string(Shared))
		}
	}
	all := map[int64]int64{} // the homes of objects
	list, args := x.list(`l`, column{`space`, spaces})
	text := `SELECT a.object, a.home FROM ` + list + x.join() + `aside a` + x.by(`aside_space`) + ` ON a.space = l.space`
	err := queryEach(ctx, tx, x.bind(text), args, func(rows *sql.Rows) error {
		var object, home int64
		err := rows.Scan(&object, &home)
		all[object] = home
		return err
	})
	if err != nil || len(all) == 0 {
		return 0, err
	}
	visibleRanges, n := sets.New(v.ranges...), 0
	for _, home := range all {
		if visibleRanges.Has(home) {
			n++
		}
	}
	for _, object := range v.objects { // what all spaces see is there once for each
		if _, is := all[object]; is {
			n++
		}
	}
	return n, nil
}
