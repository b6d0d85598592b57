package index

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Write says what rows there are of the object at a key of etcd: none of one that has gone.
type Write struct {
	Key  string
	Rows []Row
}

// Weight is how much there is to write, about: one for the object, and one for each of its properties.
func (w *Write) Weight() int {
	weight := 1
	for i := range w.Rows {
		r := &w.Rows[i]
		weight += len(r.Labels) + len(r.Annotations) + 2*len(r.Properties) + len(r.Links)
	}
	return weight
}

// SetMark has something noted with the revision from now on, by which whoever goes on with the index knows what it is
// of.
func (x *Index) SetMark(mark string) { x.mark = mark }

// Building is the revision of an index that is not complete.
const Building int64 = 0

// Apply does writes, all or none, after which the index has everything up to a revision but for what is behind, or is
// still being built. It returns the spaces of the rows that have come, changed or gone. Queries see them when it
// returns. What was done already is not done again, so that it can be repeated after an error: then the spaces do not
// say what was done before.
func (x *Index) Apply(ctx context.Context, writes []Write, reached int64, behind ...Behind) (sets.Set[tenant.Name], error) {
	tx, err := x.write.BeginTx(ctx, nil)
	if err != nil {
		return nil, x.failed("writing the search index", err)
	}
	defer tx.Rollback() //nolint:errcheck // is no error after Commit
	w := &writer{Index: x, tx: tx, deltas: map[int64]int64{}, omitted: map[int64]int64{}, sizes: map[tenant.Name]int64{}, spaces: sets.New[tenant.Name]()}
	if err := w.apply(ctx, writes, reached, behind); err != nil {
		return nil, x.failed("writing the search index", err)
	}
	x.pending = reached // nobody may say whether it was done
	if err := tx.Commit(); err != nil {
		x.sizes = nil
		return nil, x.failed("writing the search index", err)
	}
	x.last = reached
	x.remember(w.sizes)
	if err := x.trim(ctx); err != nil {
		return nil, x.failed("writing the search index", err)
	}
	return w.spaces, nil
}

// writer is one transaction.
type writer struct {
	*Index
	tx *sql.Tx
	// deltas are by how many objects ranges grow. Each range of which an object comes or goes is among them.
	deltas map[int64]int64
	// omitted are by how many more of them are left out, and sizes how many objects spaces have then.
	omitted map[int64]int64
	sizes   map[tenant.Name]int64
	// spaces are those of the ranges of deltas and omitted.
	spaces sets.Set[tenant.Name]
}

// before is a row that was stored earlier.
type before struct{ id, sum, home int64 }

func (w *writer) apply(ctx context.Context, writes []Write, reached int64, behind []Behind) error {
	keys, removed, added, err := w.changes(ctx, writes)
	if err != nil {
		return err
	}
	if err := w.forget(ctx, keys); err != nil {
		return err
	}
	taken, left, err := w.fit(ctx, removed, added)
	if err != nil {
		return err
	}
	if err := w.remove(ctx, removed); err != nil {
		return err
	}
	if err := w.add(ctx, taken, left); err != nil {
		return err
	}
	if err := w.concern(ctx); err != nil {
		return err
	}
	if err := w.count(ctx); err != nil {
		return err
	}
	return w.note(ctx, reached, behind)
}

// exec executes a statement about a list.
func (w *writer) exec(ctx context.Context, before, after string, columns ...column) error {
	list, args := w.list(`l`, columns...)
	_, err := w.tx.ExecContext(ctx, w.bind(before+list+after), args...)
	return err
}

// query queries with a list.
func (w *writer) query(ctx context.Context, before, after string, each func(*sql.Rows) error, columns ...column) error {
	list, args := w.list(`l`, columns...)
	return queryEach(ctx, w.tx, w.bind(before+list+after), args, each)
}

// queryEach calls each with every row of an answer.
func queryEach(ctx context.Context, tx *sql.Tx, text string, args []any, each func(*sql.Rows) error) error {
	rows, err := tx.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// changes returns what is to be removed and what is to be added. Most changes of objects, such as renewed leases,
// concern nothing that is searched. keys are those of all writes, as stored.
func (w *writer) changes(ctx context.Context, writes []Write) (keys []string, removed []before, added []stored, err error) {
	last := make(map[string]int, len(writes))
	keys = make([]string, 0, len(writes))
	for i := range writes {
		key := storedName(writes[i].Key)
		if _, twice := last[key]; !twice {
			keys = append(keys, key)
		}
		last[key] = i
	}
	there := make(map[string][]before, len(keys))
	if err := w.query(ctx, `SELECT o.key, o.id, o.sum, o.home FROM `, w.join()+`objects o`+w.by(`objects_key`)+` ON o.key = l.key`, func(rows *sql.Rows) error {
		var key string
		var b before
		err := rows.Scan(&key, &b.id, &b.sum, &b.home)
		there[key] = append(there[key], b)
		return err
	}, column{`key`, keys}); err != nil {
		return nil, nil, nil, err
	}
	for _, key := range keys {
		write := &writes[last[key]]
		more, err := difference(key, write.Rows, there[key], &removed)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("%q: %w", key, err)
		}
		for i := range more {
			more[i].raw = write.Key
		}
		added = append(added, more...)
	}
	return keys, removed, added, nil
}

// difference returns the rows of a key that are not there, and adds those that are to go to removed.
func difference(key string, rows []Row, there []before, removed *[]before) (added []stored, err error) {
	same := make(map[int64]bool, len(rows))
	for i := range rows {
		s, err := rows[i].store(key)
		if err != nil {
			return nil, err
		}
		same[s.sum] = false
		added = append(added, s)
	}
	for _, b := range there {
		if found, wanted := same[b.sum]; wanted && !found {
			same[b.sum] = true
			continue
		}
		*removed = append(*removed, b)
	}
	kept := added[:0]
	for i := range added {
		if !same[added[i].sum] {
			kept = append(kept, added[i])
		}
	}
	return kept, nil
}

// remove removes objects with all that is theirs.
func (w *writer) remove(ctx context.Context, removed []before) error {
	if len(removed) == 0 {
		return nil
	}
	ids, homes := make([]int64, len(removed)), make([]int64, len(removed))
	for i, b := range removed {
		ids[i], homes[i] = b.id, b.home
		w.deltas[b.home]--
	}
	for _, from := range []string{`properties WHERE object`, `aside WHERE object`, `bodies WHERE id`, `objects WHERE id`} {
		if err := w.exec(ctx, `DELETE FROM `+from+` IN (SELECT l.id FROM `, `)`, column{`id`, ids}); err != nil {
			return err
		}
	}
	return w.exec(ctx, `DELETE FROM texts WHERE (home, object) IN (SELECT l.home, l.id FROM `, `)`, column{`home`, homes}, column{`id`, ids})
}

// rangeKey names a range as objects do.
type rangeKey struct {
	space                     tenant.Name
	resource, namespace, kind string
}

// home is the range of a rangeKey.
type home struct{ id, area int64 }

// add adds objects with all that is theirs, and notes which are left out.
func (w *writer) add(ctx context.Context, added, left []stored) error {
	if len(added)+len(left) == 0 {
		return nil
	}
	homes, err := w.homes(ctx, slices.Concat(added, left))
	if err != nil {
		return err
	}
	omissions := make([]omission, len(left))
	for i := range left {
		omissions[i] = omission{left[i], homes[left[i].rangeKey()].id}
	}
	if err := w.leaveOut(ctx, omissions); err != nil {
		return err
	}
	objects, bodies, texts := newBatch(objectColumns, len(added)), newBatch(bodyColumns, len(added)), newBatch(textColumns, len(added))
	properties, aside := newBatch(propertyColumns, 8*len(added)), newBatch(asideColumns, 0)
	for i := range added {
		s := &added[i]
		w.object++
		at := homes[s.rangeKey()]
		w.deltas[at.id]++
		text := s.text()
		g := newSignature(text)
		objects.add(w.object, s.key, s.sum, at.id, at.area, storedName(s.Name), s.Created)
		bodies.add(w.object, s.details)
		texts.add(at.id, w.object, s.Created, g[0], g[1], g[2], g[3], text)
		for _, p := range s.stored() {
			properties.add(w.object, at.id, s.Created, p.name, p.value, p.whole)
		}
		if s.Aside {
			aside.add(w.object, string(s.Space), at.id)
		}
	}
	for table, b := range map[string]*batch{`objects`: objects, `bodies`: bodies, `texts`: texts, `properties`: properties, `aside`: aside} {
		if err := b.insert(ctx, w.tx, w.dialect, table); err != nil {
			return err
		}
	}
	return nil
}

// homes returns the ranges of new objects. Those that are not there are made.
func (w *writer) homes(ctx context.Context, added []stored) (map[rangeKey]home, error) {
	homes := map[rangeKey]home{}
	var missing []rangeKey
	for i := range added {
		at := added[i].rangeKey()
		if _, known := homes[at]; !known {
			homes[at] = home{}
			missing = append(missing, at)
		}
	}
	err := w.query(ctx, `SELECT g.id, g.area, g.space, g.resource, g.namespace, g.kind FROM `,
		w.join()+`ranges g`+w.by(`ranges_place`)+` ON g.space = l.space AND g.resource = l.resource AND g.namespace = l.namespace AND g.kind = l.kind`,
		func(rows *sql.Rows) error {
			var h home
			var at rangeKey
			err := rows.Scan(&h.id, &h.area, &at.space, &at.resource, &at.namespace, &at.kind)
			homes[at] = h
			return err
		}, keyColumns(missing)...)
	if err != nil {
		return nil, err
	}
	made := missing[:0]
	for _, at := range missing {
		if homes[at].id == 0 {
			made = append(made, at)
		}
	}
	return homes, w.addRanges(ctx, made, homes)
}

// addRanges adds ranges in which nothing is yet.
func (w *writer) addRanges(ctx context.Context, made []rangeKey, homes map[rangeKey]home) error {
	if len(made) == 0 {
		return nil
	}
	type area struct{ space, resource string }
	areas := map[area]int64{}
	if err := w.query(ctx, `SELECT l.space, l.resource, (SELECT g.area FROM ranges g WHERE g.space = l.space AND g.resource = l.resource LIMIT 1) FROM `, ``,
		func(rows *sql.Rows) error {
			var a area
			var id sql.NullInt64
			err := rows.Scan(&a.space, &a.resource, &id)
			areas[a] = id.Int64
			return err
		}, keyColumns(made)[:2]...); err != nil {
		return err
	}
	added := newBatch(rangeColumns, len(made))
	for _, at := range made {
		a := area{string(at.space), at.resource}
		w.area++
		if areas[a] == 0 {
			areas[a] = w.area
		}
		homes[at] = home{w.area, areas[a]}
		added.add(w.area, areas[a], string(at.space), at.resource, at.namespace, at.kind, int64(0), int64(0))
	}
	return added.insert(ctx, w.tx, w.dialect, `ranges`)
}

func keyColumns(keys []rangeKey) []column {
	spaces, resources, namespaces, kinds := make([]string, len(keys)), make([]string, len(keys)), make([]string, len(keys)), make([]string, len(keys))
	for i, at := range keys {
		spaces[i], resources[i], namespaces[i], kinds[i] = string(at.space), at.resource, at.namespace, at.kind
	}
	return []column{{`space`, spaces}, {`resource`, resources}, {`namespace`, namespaces}, {`kind`, kinds}}
}

// concern notes in which spaces something changes. Of what goes, nobody else may know it.
func (w *writer) concern(ctx context.Context) error {
	homes := slices.AppendSeq(slices.Collect(maps.Keys(w.deltas)), maps.Keys(w.omitted))
	if len(homes) == 0 {
		return nil
	}
	return w.query(ctx, `SELECT DISTINCT g.space FROM `, w.join()+`ranges g ON g.id = l.id`, func(rows *sql.Rows) error {
		var space tenant.Name
		err := rows.Scan(&space)
		w.spaces.Insert(space)
		return err
	}, column{`id`, homes})
}

// count notes how many objects ranges have, and how many are left out. Those that have none go.
func (w *writer) count(ctx context.Context) error {
	var less []int64
	for _, of := range []struct {
		column string
		deltas map[int64]int64
	}{{`objects`, w.deltas}, {`omitted`, w.omitted}} {
		grown := map[int64][]int64{} // few numbers are different
		for id, delta := range of.deltas {
			grown[delta] = append(grown[delta], id)
		}
		for delta, ids := range grown {
			list, args := w.list(`l`, column{`id`, ids})
			text := `UPDATE ranges SET ` + of.column + ` = ` + of.column + ` + ? WHERE id IN (SELECT l.id FROM ` + list + `)`
			if _, err := w.tx.ExecContext(ctx, w.bind(text), append([]any{delta}, args...)...); err != nil {
				return err
			}
			if delta < 0 {
				less = append(less, ids...)
			}
		}
	}
	if len(less) == 0 {
		return nil
	}
	return w.exec(ctx, `DELETE FROM ranges WHERE objects = 0 AND omitted = 0 AND id IN (SELECT l.id FROM `, `)`, column{`id`, less})
}

// note notes how far the index is. It is an error if another process writes it meanwhile, or if the database is not as
// this one has left it, such as after its own failure.
func (w *writer) note(ctx context.Context, reached int64, behind []Behind) error {
	complete, left := 0, ``
	if reached != Building {
		complete = 1
	}
	if len(behind) > 0 {
		encoded, err := json.Marshal(behind)
		if err != nil {
			return err
		}
		left = string(encoded)
	}
	result, err := w.tx.ExecContext(ctx, w.bind(`UPDATE state SET revision = ?, behind = ?, mark = ?, complete = ?, renewed = `+w.now()+
		` WHERE epoch = ? AND holder = ? AND revision = ?`), reached, left, w.mark, complete, w.epoch, w.holder, w.last)
	if err != nil {
		return err
	}
	changed, err := result.RowsAffected()
	if err == nil && changed != 1 {
		err = ErrOvertaken
	}
	return err
}

// batch collects rows of a table.
type batch struct{ columns []column }

var (
	rangeColumns    = []column{{`id`, []int64{}}, {`area`, []int64{}}, {`space`, []string{}}, {`resource`, []string{}}, {`namespace`, []string{}}, {`kind`, []string{}}, {`objects`, []int64{}}, {`omitted`, []int64{}}}
	objectColumns   = []column{{`id`, []int64{}}, {`key`, []string{}}, {`sum`, []int64{}}, {`home`, []int64{}}, {`area`, []int64{}}, {`name`, []string{}}, {`created`, []int64{}}}
	bodyColumns     = []column{{`id`, []int64{}}, {`details`, []string{}}}
	textColumns     = []column{{`home`, []int64{}}, {`object`, []int64{}}, {`created`, []int64{}}, {`g0`, []int64{}}, {`g1`, []int64{}}, {`g2`, []int64{}}, {`g3`, []int64{}}, {`text`, []string{}}}
	asideColumns    = []column{{`object`, []int64{}}, {`space`, []string{}}, {`home`, []int64{}}}
	omittedColumns  = []column{{`key`, []string{}}, {`whole`, []string{}}, {`home`, []int64{}}, {`name`, []string{}}}
	propertyColumns = []column{{`object`, []int64{}}, {`home`, []int64{}}, {`created`, []int64{}}, {`name`, []string{}}, {`value`, []string{}}, {`whole`, []string{}}}
)

func newBatch(columns []column, size int) *batch {
	b := &batch{make([]column, len(columns))}
	for i, c := range columns {
		b.columns[i].name = c.name
		if _, isText := c.values.([]string); isText {
			b.columns[i].values = make([]string, 0, size)
		} else {
			b.columns[i].values = make([]int64, 0, size)
		}
	}
	return b
}

// add adds a row, of int64 and string as the columns are.
func (b *batch) add(values ...any) {
	for i, value := range values {
		switch column := b.columns[i].values.(type) {
		case []string:
			b.columns[i].values = append(column, value.(string)) // as the columns say
		case []int64:
			b.columns[i].values = append(column, value.(int64)) // as the columns say
		}
	}
}

func (b *batch) insert(ctx context.Context, tx *sql.Tx, d dialect, table string) error {
	return d.insert(ctx, tx, table, b.columns...)
}
