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
			got[i] = v.GetOrSet("a", i+1)
		})
	}
	all.Wait()
	for _, value := range got {
		if value == 0 || value != got[0] {
			t.Errorf("one key has the values %v", got)
		}
	}
}
