package index

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"
)

// TestLog has queries that overlap while much is written. The log stays short, and all that was written is there.
func TestLog(t *testing.T) {
	x := openSQLite(t)
	x.log = 256 << 10
	ctx, stop := context.WithCancel(t.Context())
	var reading sync.WaitGroup
	begun := make(chan struct{})
	for range 2 {
		reading.Go(func() {
			for ctx.Err() == nil {
				err := x.View(t.Context(), func(*Snapshot) error {
					select { // until the other one has begun, or cannot
					case begun <- struct{}{}:
					case <-begun:
					case <-time.After(20 * time.Millisecond):
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	const count, times = 100, 50
	largest := int64(0)
	for i := range times {
		writes := manyWrites(0, count)
		for k := range writes {
			writes[k].Rows[0].Labels["time"] = fmt.Sprint(i)
		}
		apply(t, x, writes...)
		info, err := os.Stat(x.file + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		largest = max(largest, info.Size())
	}
	stop()
	reading.Wait()
	if largest >= fullLogs*x.log {
		t.Errorf("the log has %d bytes after a write, and may have %d", largest, fullLogs*x.log)
	}
	found := selectOne(t, x, Selection{Scopes: []Scope{{Space: "acme", Visible: everything}}, Limit: 2 * count}, fmt.Sprint("label:time=", times-1))
	if found.Count != count {
		t.Errorf("%d of %d rows are there", found.Count, count)
	}
}
