package index

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Keys is a set of keys of objects, in 16 bytes for each. The zero value is empty.
type Keys struct{ sums [][16]byte }

func sumOf(stored string) [16]byte {
	sum := sha256.Sum256([]byte(stored))
	return [16]byte(sum[:16])
}

// Add adds a key.
func (k *Keys) Add(key string) { k.sums = append(k.sums, sumOf(storedName(key))) }

func compareSums(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) }

// keepBatch is how many objects are looked at in one transaction.
const keepBatch = 5000

// Recheck says that the index is not complete, and leaves what is in it, of which Keep removes what has gone. Lead has
// been called.
func (x *Index) Recheck(ctx context.Context) error {
	if err := x.alter(ctx, func(*writer) error { return nil }); err != nil {
		return x.failed("opening the search index anew", err)
	}
	x.last = Building
	return nil
}

// Keep removes all objects of an index that is not complete but those of some keys.
func (x *Index) Keep(ctx context.Context, keys *Keys) error {
	slices.SortFunc(keys.sums, compareSums)
	isKept := func(stored string) bool {
		_, kept := slices.BinarySearchFunc(keys.sums, sumOf(stored), compareSums)
		return kept
	}
	if err := x.keepObjects(ctx, isKept); err != nil {
		return x.failed("removing from the search index what has gone", err)
	}
	if err := x.keepOmitted(ctx, isKept); err != nil {
		return x.failed("removing from the search index what has gone", err)
	}
	return nil
}

func (x *Index) keepObjects(ctx context.Context, isKept func(stored string) bool) error {
	last, more := int64(0), true
	for more {
		more = false
		if err := x.alter(ctx, func(w *writer) error {
			var removed []before
			err := queryEach(ctx, w.tx, w.bind(`SELECT o.id, o.home, o.key FROM objects o WHERE o.id > ? ORDER BY o.id LIMIT ?`), []any{last, keepBatch}, func(rows *sql.Rows) error {
				var b before
				var key string
				err := rows.Scan(&b.id, &b.home, &key)
				if last, more = b.id, true; !isKept(key) {
					removed = append(removed, b)
				}
				return err
			})
			if err != nil {
				return err
			}
			return w.remove(ctx, removed)
		}); err != nil {
			return err
		}
	}
	return nil
}

func (x *Index) keepOmitted(ctx context.Context, isKept func(stored string) bool) error {
	last, more := "", true
	for more {
		more = false
		if err := x.alter(ctx, func(w *writer) error {
			var gone []string
			err := queryEach(ctx, w.tx, w.bind(`SELECT o.key FROM omitted o WHERE o.key > ? ORDER BY o.key LIMIT ?`), []any{last, keepBatch}, func(rows *sql.Rows) error {
				err := rows.Scan(&last)
				if more = true; !isKept(last) {
					gone = append(gone, last)
				}
				return err
			})
			if err != nil || len(gone) == 0 {
				return err
			}
			return w.forget(ctx, gone)
		}); err != nil {
			return err
		}
	}
	return nil
}

// alter changes an index that is not complete in one transaction.
func (x *Index) alter(ctx context.Context, change func(w *writer) error) error {
	tx, err := x.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // is no error after Commit
	x.sizes = nil
	w := &writer{Index: x, tx: tx, deltas: map[int64]int64{}, omitted: map[int64]int64{}, sizes: map[tenant.Name]int64{}, spaces: sets.New[tenant.Name]()}
	if err := change(w); err != nil {
		return err
	}
	if err := w.count(ctx); err != nil {
		return err
	}
	if err := w.note(ctx, Building, nil); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("committing: %w", err)
	}
	return x.trim(ctx)
}
