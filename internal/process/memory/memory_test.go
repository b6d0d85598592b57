package memory

import (
	"os"
	"runtime"
	"testing"
)

func TestIdleAndWasteful(t *testing.T) {
	const mb = 1 << 20
	for name, test := range map[string]struct {
		last, now      heap
		idle, wasteful bool
	}{
		"idle and small":       {heap{0, 100 * mb, 110 * mb}, heap{10 * mb, 100 * mb, 150 * mb}, true, false},
		"idle after a peak":    {heap{0, 100 * mb, 300 * mb}, heap{10 * mb, 100 * mb, 300 * mb}, true, true},
		"at work":              {heap{0, 100 * mb, 300 * mb}, heap{3000 * mb, 100 * mb, 300 * mb}, false, true},
		"idle, large and tidy": {heap{0, 1000 * mb, 1200 * mb}, heap{10 * mb, 1000 * mb, 1200 * mb}, true, false},
	} {
		if got := isIdle(test.last, test.now); got != test.idle {
			t.Errorf("%s: idle is %v", name, got)
		}
		if got := test.now.wasteful(); got != test.wasteful {
			t.Errorf("%s: wasteful is %v", name, got)
		}
	}
}

func TestGarbage(t *testing.T) {
	const mb = 1 << 20
	for name, test := range map[string]struct {
		allocated, live uint64 // the former since the last time
		percent         int
	}{
		"idle":                 {2 * mb, 100 * mb, 100},
		"at work":              {40 * mb, 100 * mb, 100},
		"hard at work":         {200 * mb, 100 * mb, 400},
		"as hard as it can":    {1000 * mb, 100 * mb, 500},
		"hard, and large":      {200 * mb, 1000 * mb, 100},
		"as hard, and half so": {1000 * mb, 500 * mb, 100},
		"nothing alive":        {0, 0, 100},
	} {
		if got := garbage(heap{allocated: mb}, heap{allocated: mb + test.allocated, live: test.live}, 512*mb); got != test.percent {
			t.Errorf("%s: %d percent, want %d", name, got, test.percent)
		}
	}
}

// TestRead checks what is sure of a heap with something alive in it, whatever else the
// process does.
func TestRead(t *testing.T) {
	const size = 16 << 20
	before := read()
	alive := make([]byte, size)
	runtime.GC()
	now := read()
	if now.allocated < before.allocated+size || now.live < size || now.held < size {
		t.Errorf("before: %+v, with %d bytes more, and alive: %+v", before, size, now)
	}
	runtime.KeepAlive(alive)
}

// TestContainerLimit checks what a cgroup says of its memory.
func TestContainerLimit(t *testing.T) {
	for content, want := range map[string]int64{"4294967296\n": 4 << 30, "max\n": 0, "": 0} {
		if got := containerLimit([]byte(content), nil); got != want {
			t.Errorf("%q: %d, want %d", content, got, want)
		}
	}
	if got := containerLimit([]byte("1"), os.ErrNotExist); got != 0 {
		t.Errorf("without a cgroup: %d", got)
	}
}
