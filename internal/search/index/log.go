package index

import (
	"context"
	"fmt"
	"os"
	"time"
)

const (
	// maxLog is how many bytes the log of an embedded database may have before it is emptied. SQLite does that by
	// itself only at a moment without queries, which does not come where they overlap.
	maxLog = 64 << 20
	// fullLogs is at how many times that it waits for all queries, however long they take.
	fullLogs = 4
	// patience is for how long it waits for queries, and new ones with it, before that.
	patience = 100 * time.Millisecond
)

// trim empties the log of an embedded database that has become long. It has new queries wait until those have ended
// that have begun.
func (x *Index) trim(ctx context.Context) error {
	if x.file == "" {
		return nil
	}
	info, err := os.Stat(x.file + "-wal")
	if err != nil {
		return fmt.Errorf("reading the size of its log: %w", err)
	}
	size := info.Size()
	if size < x.log {
		x.tried = 0
	}
	full := size >= fullLogs*x.log
	if size < x.tried+x.log && !full {
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if full {
		waiting = ctx
	}
	if err := x.reading.Acquire(waiting, Readers); err != nil {
		x.tried = size
		return ctx.Err()
	}
	defer x.reading.Release(Readers)
	var busy, frames, moved int64
	if err := x.write.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &frames, &moved); err != nil {
		return fmt.Errorf("emptying its log: %w", err)
	}
	if x.tried = 0; busy != 0 { // by a query that is no view, and is short
		x.tried = size
	}
	return nil
}
