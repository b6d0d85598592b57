package server

import (
	"errors"
	"testing"
	"time"
)

func TestPreShutdown(t *testing.T) {
	failed, never := errors.New("failed"), make(chan struct{})
	defer close(never)
	for name, tc := range map[string]struct {
		hooks   func() error
		timeout time.Duration
		want    error
		late    bool
	}{
		"ends":         {hooks: func() error { return nil }, timeout: time.Hour},
		"fails":        {hooks: func() error { return failed }, timeout: time.Hour, want: failed},
		"does not end": {hooks: func() error { <-never; return failed }, late: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := &preShutdown{hooks: tc.hooks, timeout: tc.timeout}
			if err := f.run(); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if got := f.err() != nil; got != tc.late {
				t.Errorf("got %v, want an error: %v", f.err(), tc.late)
			}
		})
	}
}
