package spaces

import (
	"runtime"
	"testing"
)

// TestStartLeavesNothing checks that a factory can be started often, as upstream's garbage collector does for each new
// kind.
func TestStartLeavesNothing(t *testing.T) {
	const starts = 1_000
	f := &Factory{}
	stop := make(chan struct{})
	defer close(stop)
	before := runtime.NumGoroutine()
	for range starts {
		f.Start(stop)
	}
	if after := runtime.NumGoroutine(); after >= before+starts {
		t.Errorf("%d goroutines, %d before", after, before)
	}
}
