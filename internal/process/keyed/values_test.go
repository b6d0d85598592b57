package keyed

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestValues(t *testing.T) {
	var v Values[string, int]
	v.Delete("none")
	v.DeleteIf("none", func(int) bool { return true })
	v.Clear()
	if got := []int{v.Get("a"), v.GetOrSet("a", 1), v.GetOrSet("a", 2), v.Set("a", 3), v.Set("b", 4), v.Get("a")}; !cmp.Equal(got, []int{0, 1, 1, 1, 0, 3}) {
		t.Errorf("the values were %v", got)
	}
	if got := v.Change("a", func(value int) int { return value + 10 }); got != 13 || v.Change("new", func(value int) int { return value + 1 }) != 1 || v.Delete("new") != 1 {
		t.Errorf("changed to %d and %v", got, v.All())
	}
	v.Set("a", 3)
	all := v.All()
	if !cmp.Equal(all, map[string]int{"a": 3, "b": 4}) {
		t.Errorf("all are %v", all)
	}
	delete(all, "a")
	v.DeleteIf("a", func(value int) bool { return value == 1 })
	v.DeleteIf("b", func(value int) bool { return value == 4 })
	if v.Len() != 1 || v.Get("a") != 3 {
		t.Errorf("of %d values, that of a is %d", v.Len(), v.Get("a"))
	}
	v.Delete("a")
	v.Set("c", 5)
	if v.Clear(); v.Len() > 0 {
		t.Errorf("%d values stay", v.Len())
	}
}

// TestManyValues has many use one key at once, for the race detector: one of them gives it its value.
func TestManyValues(t *testing.T) {
	var v Values[string, int]
	var all sync.WaitGroup
	got := make([]int, 50)
	for i := range got {
		all.Go(func() {
			v.Set("other", i)
			v.Change("sum", func(sum int) int { return sum + 1 })
			got[i] = v.GetOrSet("a", i+1)
		})
	}
	all.Wait()
	if sum := v.Get("sum"); sum != len(got) {
		t.Errorf("%d of %d changes", sum, len(got))
	}
	for _, value := range got {
		if value == 0 || value != got[0] {
			t.Errorf("one key has the values %v", got)
		}
	}
}
