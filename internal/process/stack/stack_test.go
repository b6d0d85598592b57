package stack

import (
	"reflect"
	"sync"
	"testing"
)

func TestGoroutine(t *testing.T) {
	own := Goroutine()
	if again := Goroutine(); own == "" || again != own {
		t.Errorf("this goroutine is %q, and then %q", own, again)
	}
	var other sync.WaitGroup
	other.Go(func() {
		if is := Goroutine(); is == own {
			t.Errorf("another one is %q, too", is)
		}
	})
	other.Wait()
}

type queue struct{ asks func() bool }

func (q *queue) AddRateLimited() bool { return q.AddAfter() }
func (q *queue) AddAfter() bool       { return q.asks() }

func TestRequeues(t *testing.T) {
	q := &queue{Requeues}
	if !q.AddRateLimited() || q.AddAfter() {
		t.Error("it is not told from others what is tried again after a failure")
	}
}

func TestWithin(t *testing.T) {
	within := reflect.TypeFor[queue]().PkgPath() + ".(*queue).AddRate"
	q := &queue{func() bool { return Within(within) }}
	if !q.AddRateLimited() || q.AddAfter() {
		t.Error("it is not known who has called")
	}
}
