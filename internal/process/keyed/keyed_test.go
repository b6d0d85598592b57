package keyed

import (
	"sync"
	"testing"
)

func TestMap(t *testing.T) {
	var m Map[string, *int]
	made := 0
	use := func(key string) (*int, int, func()) {
		return m.Use(key, func() *int { made++; return new(int) })
	}
	a, first, leave := use("a")
	same, second, leaveAgain := use("a")
	if other, _, leaveOther := use("b"); a != same || a == other || made != 2 || m.Len() != 2 {
		t.Errorf("%d values of %d keys were made", made, m.Len())
	} else {
		leaveOther()
	}
	if first != 1 || second != 2 {
		t.Errorf("%d and %d users", first, second)
	}
	leave()
	if still, users, leaveStill := use("a"); still != a || users != 2 {
		t.Errorf("another value with %d users while one uses the first", users)
	} else {
		leaveStill()
	}
	if leaveAgain(); m.Len() != 0 {
		t.Errorf("%d keys are kept", m.Len())
	}
	if later, _, _ := use("a"); later == a {
		t.Error("the value outlives its users")
	}
}

// TestMany has many use one key at once, for the race detector.
func TestMany(t *testing.T) {
	var m Map[int, chan struct{}]
	var all sync.WaitGroup
	inside := 0
	for range 50 {
		all.Go(func() {
			for range 50 {
				one, _, leave := m.Use(1, func() chan struct{} { return make(chan struct{}, 1) })
				one <- struct{}{}
				inside++
				<-one
				leave()
			}
		})
	}
	all.Wait()
	if inside != 2500 || m.Len() != 0 {
		t.Errorf("%d were inside, %d keys are kept", inside, m.Len())
	}
}

func TestNested(t *testing.T) {
	all := map[string]map[string]int{}
	Delete(all, "acme", "none")
	Set(all, "acme", "a", 1)
	Set(all, "acme", "b", 2)
	Set(all, "acme", "b", 3)
	Set(all, "globex", "a", 4)
	Delete(all, "acme", "a")
	Delete(all, "globex", "a")
	if len(all) != 1 || len(all["acme"]) != 1 || all["acme"]["b"] != 3 {
		t.Errorf("there are %v", all)
	}
}
