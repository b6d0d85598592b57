package until

import (
	"testing"
	"time"
)

// limit is longer than anything takes that comes at all.
const limit = time.Minute

// True waits until something is so, which another goroutine does, and fails the test if it never is. what says
// what is waited for.
func True(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
