package index

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"maps"
	"slices"

	"github.com/tenantry/tenantry/internal/tenant"
)

// ErrOmitted means that objects are not in the index that may be seen, and may match: their space has more than the
// index takes.
var ErrOmitted = errors.New("the index has not all objects that may be seen")

// maxSizes is of how many spaces it is kept in memory how many objects they have.
const maxSizes = 10_000

// SetMost has the index take so many objects of each tenant's space at most, any number if it is zero. Of the others it
// has the keys. They come into the index when they are written again and there is room, see Omitted.
func (x *Index) SetMost(objects int64) { x.most = objects }

// omission is an object that is left out.
type omission struct {
	stored
	home int64
}

// forget forgets what was left out of some keys, as stored, which are written again.
func (w *writer) forget(ctx context.Context, keys []string) error {
	var known []string
	err := w.query(ctx, `SELECT o.key, o.home FROM `, w.join()+`omitted o ON o.key = l.key`, func(rows *sql.Rows) error {
		var key string
		var home int64
		err := rows.Scan(&key, &home)
		known = append(known, key)
		w.omitted[home]--
		return err
	}, column{`key`, keys})
	if err != nil || len(known) == 0 {
		return err
	}
	return w.exec(ctx, `DELETE FROM omitted WHERE key IN (SELECT l.key FROM `, `)`, column{`key`, known})
}

// fit divides new objects into those for which there is room in their space, and others.
func (w *writer) fit(ctx context.Context, removed []before, added []stored) (taken, left []stored, err error) {
	if w.most == 0 {
		return added, nil, nil
	}
	if err := w.measure(ctx, removed, added); err != nil {
		return nil, nil, err
	}
	for i := range added {
		space := added[i].Space
		switch {
		case !space.IsSpace() || space == Shared:
		case w.sizes[space] >= w.most:
			left = append(left, added[i])
			continue
		default:
			w.sizes[space]++
		}
		taken = append(taken, added[i])
	}
	return taken, left, nil
}

// measure finds out how many objects spaces have without those that are removed: all of which something is added or
// removed.
func (w *writer) measure(ctx context.Context, removed []before, added []stored) error {
	homes := map[int64]int64{}
	for _, b := range removed {
		homes[b.home]++
	}
	gone := map[tenant.Name]int64{}
	err := w.query(ctx, `SELECT g.id, g.space FROM `, w.join()+`ranges g ON g.id = l.id`, func(rows *sql.Rows) error {
		var home int64
		var space tenant.Name
		err := rows.Scan(&home, &space)
		gone[space] += homes[home]
		return err
	}, column{`id`, slices.Collect(maps.Keys(homes))})
	if err != nil {
		return err
	}
	wanted := maps.Clone(gone)
	for i := range added {
		wanted[added[i].Space] += 0
	}
	var unknown []string
	for space := range wanted {
		if size, known := w.Index.sizes[space]; known {
			w.sizes[space] = size
		} else {
			unknown = append(unknown, string(space))
		}
	}
	if err := w.query(ctx, `SELECT g.space, CAST(sum(g.objects) AS BIGINT) FROM `, w.join()+`ranges g`+w.by(`ranges_place`)+` ON g.space = l.space GROUP BY g.space`,
		func(rows *sql.Rows) error {
			var space tenant.Name
			var size int64
			err := rows.Scan(&space, &size)
			w.sizes[space] = size
			return err
		}, column{`space`, unknown}); err != nil {
		return err
	}
	for space, n := range gone {
		w.sizes[space] -= n
	}
	return nil
}

// remember keeps how many objects spaces have, when that has been written.
func (x *Index) remember(sizes map[tenant.Name]int64) {
	if x.sizes == nil || len(x.sizes) > maxSizes {
		x.sizes = map[tenant.Name]int64{}
	}
	maps.Copy(x.sizes, sizes)
}

// leaveOut notes the keys of objects for which there is no room.
func (w *writer) leaveOut(ctx context.Context, left []omission) error {
	omitted := newBatch(omittedColumns, len(left))
	for i := range left {
		o := &left[i]
		w.omitted[o.home]++
		whole := ``
		if o.raw != o.key {
			whole = hex.EncodeToString([]byte(o.raw))
		}
		omitted.add(o.key, whole, o.home, storedName(o.Name))
	}
	return omitted.insert(ctx, w.tx, w.dialect, `omitted`)
}

// Omitted returns keys of objects that are not in the index although there is room for them: some of each of some
// spaces, of all if there are none. The process that writes the index asks, by its own connection: it waits for no
// query.
func (x *Index) Omitted(ctx context.Context, limit int, spaces ...tenant.Name) (map[tenant.Name][]string, error) {
	with, err := x.omitting(ctx, spaces)
	if err != nil {
		return nil, x.failed("looking for what the search index has left out", err)
	}
	keys := map[tenant.Name][]string{}
	for space, size := range with {
		room := limit
		if x.most > 0 {
			room = int(min(int64(limit), x.most-size))
		}
		if room <= 0 {
			continue
		}
		if keys[space], err = x.omittedIn(ctx, space, room); err != nil {
			return nil, x.failed("looking for what the search index has left out", err)
		}
	}
	return keys, nil
}

// omitting returns those of some spaces, of all if there are none, of which objects are left out, and how many others
// they have.
func (x *Index) omitting(ctx context.Context, spaces []tenant.Name) (map[tenant.Name]int64, error) {
	names := make([]string, len(spaces))
	for i, space := range spaces {
		names[i] = string(space)
	}
	list, args := x.list(`l`, column{`space`, names})
	some := `(SELECT DISTINCT g.space AS space FROM ` + list + x.join() + `ranges g` + x.by(`ranges_omitted`) + ` ON g.space = l.space AND g.omitted > 0) s`
	if len(spaces) == 0 {
		some, args = `(SELECT DISTINCT g.space AS space FROM ranges g`+x.by(`ranges_omitted`)+` WHERE g.omitted > 0) s`, nil
	}
	sizes := map[tenant.Name]int64{}
	rows, err := x.write.QueryContext(ctx, x.bind(`SELECT s.space, CAST((SELECT sum(g.objects) FROM ranges g WHERE g.space = s.space) AS BIGINT) FROM `+some), args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var space tenant.Name
		var size int64
		if err := rows.Scan(&space, &size); err != nil {
			return nil, err
		}
		sizes[space] = size
	}
	return sizes, rows.Err()
}

func (x *Index) omittedIn(ctx context.Context, space tenant.Name, limit int) ([]string, error) {
	rows, err := x.write.QueryContext(ctx, x.bind(`SELECT o.key, o.whole FROM ranges g`+x.by(`ranges_omitted`)+x.join()+`omitted o`+x.by(`omitted_home`)+
		` ON o.home = g.id WHERE g.space = ? AND g.omitted > 0 LIMIT ?`), string(space), limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var keys []string
	for rows.Next() {
		var key, whole string
		if err := rows.Scan(&key, &whole); err != nil {
			return nil, err
		}
		if whole != `` {
			decoded, err := hex.DecodeString(whole)
			if err != nil {
				return nil, err
			}
			key = string(decoded)
		}
		keys = append(keys, key)
	}
	return keys, rows.Err()
}

// misses is an error if single objects are left out that may be seen by their names and match the filters of places.
func (f *finder) misses(ctx context.Context) error {
	if len(f.s.Visible.Named)+len(f.s.Visible.NamedIn) == 0 {
		return nil
	}
	var homes []int64
	var names []string
	if err := queryEach(ctx, f.tx, f.bind(`SELECT g.id, g.resource, g.namespace, g.kind FROM ranges g`+f.by(`ranges_omitted`)+` WHERE g.space = ? AND g.omitted > 0`), []any{string(f.s.Space)}, func(rows *sql.Rows) error {
		var home int64
		p := rangeKey{space: f.s.Space}
		if err := rows.Scan(&home, &p.resource, &p.namespace, &p.kind); err != nil || f.excludes(p) {
			return err
		}
		for _, name := range f.namesAt(p) {
			homes, names = append(homes, home), append(names, storedName(name))
		}
		return nil
	}); err != nil || len(homes) == 0 {
		return err
	}
	list, args := f.list(`l`, column{`home`, homes}, column{`name`, names})
	return queryEach(ctx, f.tx, f.bind(`SELECT 1 FROM `+list+f.join()+`omitted o`+f.by(`omitted_home`)+` ON o.home = l.home AND o.name = l.name LIMIT 1`), args,
		func(*sql.Rows) error { return ErrOmitted })
}

// namesAt returns the names of the single objects that may be seen at a place.
func (f *finder) namesAt(p rangeKey) []string {
	var names []string
	for resource, of := range f.s.Visible.Named {
		if resource.String() == p.resource {
			names = append(names, of.UnsortedList()...)
		}
	}
	for in, of := range f.s.Visible.NamedIn {
		if in.Resource.String() == p.resource && in.Namespace == p.namespace {
			names = append(names, of.UnsortedList()...)
		}
	}
	return names
}

// Missing returns how many objects are left out of the index.
func (x *Index) Missing(ctx context.Context) (int64, error) {
	var n int64
	if err := x.read.QueryRowContext(ctx, `SELECT CAST(coalesce(sum(g.omitted), 0) AS BIGINT) FROM ranges g`+x.by(`ranges_omitted`)+` WHERE g.omitted > 0`).Scan(&n); err != nil {
		return 0, x.failed("counting in the search index", err)
	}
	return n, nil
}
