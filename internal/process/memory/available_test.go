package memory

import (
	"math"
	"testing"
)

func TestLeastOf(t *testing.T) {
	for want, limits := range map[int64][]int64{
		0: {0, math.MaxInt64},
		2: {0, 3, 2, math.MaxInt64},
	} {
		if least := leastOf(limits); least != want {
			t.Errorf("of %v: %d, want %d", limits, least, want)
		}
	}
}

func TestAvailable(t *testing.T) {
	all := Available()
	if all <= 0 {
		t.Fatalf("the machine has %d bytes", all)
	}
	t.Setenv("GOMEMLIMIT", "1GiB") // which Go has read at its start: no limit
	if limited := Available(); limited != all {
		t.Errorf("with a limit that is none, %d of %d bytes", limited, all)
	}
}
