package workers

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/component-base/metrics/testutil"
)

// TestOnDone has several workers work at the same time, each on items of its own queue and of a common one.
func TestOnDone(t *testing.T) {
	const workers, each = 4, 50
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[int]{Name: "test"})
	for i := range workers * each {
		queue.Add(i)
	}
	queue.ShutDown()
	var mu sync.Mutex
	ended := map[int]int{}
	var working sync.WaitGroup
	for range workers {
		working.Go(func() {
			for {
				i, shutdown := queue.Get()
				if shutdown {
					return
				}
				note := func(took time.Duration, _ bool) {
					mu.Lock()
					defer mu.Unlock()
					if took < 0 {
						t.Errorf("item %d took %s", i, took)
					}
					ended[i]++
				}
				if i%2 == 0 {
					if first, again := OnDone(note), OnDone(note); !first || again {
						t.Errorf("item %d is noted %v, and %v again", i, first, again)
					}
				}
				mu.Lock()
				if ended[i] > 0 {
					t.Errorf("item %d ended before it was done", i)
				}
				mu.Unlock()
				queue.Done(i)
			}
		})
	}
	working.Wait()
	for i := range workers * each {
		if want := 1 - i%2; ended[i] != want {
			t.Errorf("item %d ended %d times, want %d", i, ended[i], want)
		}
	}
	if items.Len() > 0 {
		t.Errorf("%d items are still known", items.Len())
	}
	if n, err := testutil.GetHistogramMetricCount(workDuration.WithLabelValues("test")); err != nil || n != workers*each {
		t.Errorf("the metric has %d items, want %d (%v)", n, workers*each, err)
	}
}

// TestWorked checks that only the worker of an item is told for how long it has worked on it.
func TestWorked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		OnDone(func(time.Duration, bool) {})
		time.Sleep(time.Second)
		if got := Worked(); got != time.Second {
			t.Errorf("worked for %v", got)
		}
		var other sync.WaitGroup
		other.Go(func() {
			if got := Worked(); got != 0 {
				t.Errorf("another worked for %v", got)
			}
		})
		other.Wait()
		end()
		if got := Worked(); got != 0 {
			t.Errorf("worked for %v when done", got)
		}
	})
}

// TestFailed checks that an item has failed that a worker has come again after a failure, and no other.
func TestFailed(t *testing.T) {
	queue := workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.NewTypedItemFastSlowRateLimiter[string](time.Hour, time.Hour, 0),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: "failed"})
	defer queue.ShutDown()
	for name, tc := range map[string]struct {
		work func(item string)
		want bool
	}{
		"done":    {func(string) {}, false},
		"failed":  {func(item string) { queue.AddRateLimited(item) }, true},
		"waiting": {func(item string) { queue.AddAfter(item, time.Hour) }, false},
		"elsewhere": {func(item string) {
			var other sync.WaitGroup
			other.Go(func() { queue.AddRateLimited(item) })
			other.Wait()
		}, false},
	} {
		queue.Add(name)
		item, _ := queue.Get()
		var got []bool
		OnDone(func(_ time.Duration, failed bool) { got = append(got, failed) })
		tc.work(item)
		queue.Done(item)
		if len(got) != 1 || got[0] != tc.want {
			t.Errorf("%s: failed is %v, want %v", name, got, tc.want)
		}
	}
}

// TestOthers notes items for goroutines that are no workers, which never are done.
func TestOthers(t *testing.T) {
	defer items.Clear()
	var others sync.WaitGroup
	for range 2 * maxItems {
		others.Go(func() { OnDone(func(time.Duration, bool) { t.Error("done") }) })
	}
	others.Wait()
	if items.Len() != maxItems {
		t.Errorf("%d items are known, want %d", items.Len(), maxItems)
	}
}

// BenchmarkItem is an item of a queue, whose worker is measured or not.
func BenchmarkItem(b *testing.B) {
	for name, measured := range map[string]bool{"measured": true, "not measured": false} {
		b.Run(name, func(b *testing.B) {
			queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "bench"})
			defer queue.ShutDown()
			for b.Loop() {
				queue.Add("item")
				item, _ := queue.Get()
				if measured {
					OnDone(func(time.Duration, bool) {})
				}
				queue.Done(item)
			}
		})
	}
}
