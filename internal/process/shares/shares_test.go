package shares

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// workers are those of the controllers in these tests; two of them are a share.
const workers = 8

func newOf(workers int) *Shares[string] { return New[string](workers, errors.New("refused")) }

func TestLateItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newOf(workers)
		for range 2 {
			if _, _, err := s.Enter(t.Context(), "a", "owner"); err != nil {
				t.Fatalf("in parallel: %v", err)
			}
		}
		time.Sleep(WaitThreshold)
		synctest.Wait()
		if _, _, err := s.Enter(t.Context(), "a", "owner"); err == nil {
			t.Error("one more worker waits for the same item")
		}
		if _, _, err := s.Enter(t.Context(), "a", ""); err != nil {
			t.Errorf("one more item, within the share: %v", err)
		}
	})
}

func TestFewWorkers(t *testing.T) {
	const answer = 1500 * time.Millisecond
	for _, workers := range []int{1, 3} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newOf(workers)
				for range 3 {
					var ended atomic.Int32
					var requests sync.WaitGroup
					for range workers {
						requests.Go(func() {
							ctx, leave, err := s.Enter(t.Context(), "a", "")
							if err != nil {
								t.Error(err)
								return
							}
							defer leave()
							select {
							case <-time.After(answer):
								ended.Add(1)
							case <-ctx.Done():
							}
						})
					}
					requests.Wait()
					if got := ended.Load(); got != 1 {
						t.Errorf("%d of %d requests had their answer, want one", got, workers)
					}
					if _, _, err := s.Enter(t.Context(), "a", ""); err == nil {
						t.Error("it is not the others' turn")
					}
					if _, leave, err := s.Enter(t.Context(), "b", ""); err != nil {
						t.Errorf("another tenant: %v", err)
					} else {
						leave()
					}
					time.Sleep(MaxSlowTime) // the debt is paid
					synctest.Wait()
				}
			})
		})
	}
}

func TestOneWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const took = 3 * MaxSlowTime
		s := newOf(1)
		_, leave, err := s.Enter(t.Context(), "a", "")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(took)
		leave()
		time.Sleep(took - time.Second)
		if _, _, err := s.Enter(t.Context(), "a", ""); err == nil {
			t.Error("it is not the others' turn")
		}
		time.Sleep(time.Second)
		_, leave, err = s.Enter(t.Context(), "a", "")
		if err != nil {
			t.Fatalf("the debt is paid: %v", err)
		}
		leave()
	})
}

func TestAccounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newOf(workers)
		accounts := func() int {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.accounts)
		}
		for range 3 {
			_, leave, err := s.Enter(t.Context(), "a", "item")
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(WaitThreshold)
			synctest.Wait()
			leave()
		}
		if n := accounts(); n != 1 {
			t.Errorf("%d accounts, want that of the debt", n)
		}
		time.Sleep(MaxSlowTime)
		synctest.Wait()
		if n := accounts(); n != 0 {
			t.Errorf("%d accounts are left", n)
		}
	})
}

func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = workers - workers/Divisor
		s := newOf(workers)
		waiting := map[string]int{}
		var mu sync.Mutex
		wait := func(n string) {
			ctx, leave, err := s.Enter(t.Context(), n, "")
			if err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			waiting[n]++
			mu.Unlock()
			go func() {
				<-ctx.Done()
				leave()
				mu.Lock()
				defer mu.Unlock()
				waiting[n]--
			}()
		}
		for _, n := range []string{"a", "a", "b", "b", "c", "c", "d", "e", "f", "g"} {
			wait(n)
			time.Sleep(WaitThreshold + time.Millisecond)
			synctest.Wait()
		}
		total := 0
		for n, items := range waiting {
			total += items
			if want := 1; n != "g" && items != want {
				t.Errorf("%d items of %s wait, want %d", items, n, want)
			}
		}
		if total != most || waiting["g"] > 0 {
			t.Errorf("%d items wait, want %d; of the last tenant, which finds each with one, %d", total, most, waiting["g"])
		}
		if s.waiting != most {
			t.Errorf("%d items count as waiting, want %d", s.waiting, most)
		}
	})
}
