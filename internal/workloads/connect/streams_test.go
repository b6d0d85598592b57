package connect

import (
	"io"
	"strings"
	"testing"
)

func TestAStreamEndsOnce(t *testing.T) {
	s := streams{most: 2}
	begin := func() func() {
		t.Helper()
		end, ok := s.begin("acme")
		if !ok {
			t.Fatal("a connection is refused that there is room for")
		}
		return end
	}
	log := &countedStream{io.NopCloser(strings.NewReader("")), begin()}
	begin()
	for range 2 {
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
	begin()
	if _, ok := s.begin("acme"); ok {
		t.Error("a tenant has three connections where two are the most, because one was closed twice")
	}
}
