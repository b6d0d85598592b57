package signal

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func TestBroadcast(t *testing.T) { synctest.Test(t, testBroadcast) }

func testBroadcast(t *testing.T) {
	var b Broadcast
	b.Tell() // nobody waits
	if b.Awaited() {
		t.Error("somebody waits")
	}
	var is atomic.Int32
	waited := make(chan error)
	for want := range int32(2) {
		go func() { waited <- b.Await(t.Context(), func() bool { return is.Load() > want }) }()
	}
	synctest.Wait() // until both wait
	if !b.Awaited() {
		t.Error("nobody waits")
	}
	first, second := b.Next(), b.Next()
	is.Store(2)
	b.Tell()
	<-first
	<-second
	for range 2 {
		if err := <-waited; err != nil {
			t.Error(err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Await(ended, func() bool { return true }); err != nil {
		t.Errorf("of what is true: %v", err)
	}
	if err := b.Await(ended, func() bool { return false }); !errors.Is(err, context.Canceled) {
		t.Errorf("of what is not true: %v", err)
	}
}
