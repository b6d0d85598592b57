package server

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	genericapiserver "k8s.io/apiserver/pkg/server"
)

// Upstream ends the process when a hook fails.
func TestPatientHook(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var attempts []context.Context
	hook := patient("test", func(hook genericapiserver.PostStartHookContext) error {
		attempts = append(attempts, hook.Context)
		if len(attempts) < 3 {
			return errors.New("timed out")
		}
		return nil
	}, 1)
	if err := hook(genericapiserver.PostStartHookContext{Context: ctx}); err != nil {
		t.Fatal(err)
	}
	for i, attempt := range attempts {
		// What a failed attempt has started ends; what the last one has goes on.
		if ended := attempt.Err() != nil; ended != (i < 2) {
			t.Errorf("attempt %d has ended: %v", i+1, ended)
		}
	}
	end()
	<-attempts[2].Done()
}

func TestPatientHookEndsWithTheServer(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	hook := patient("test", func(hook genericapiserver.PostStartHookContext) error {
		end()
		return hook.Err()
	}, 1)
	server := genericapiserver.PostStartHookContext{Context: ctx}
	if err := hook(server); err != nil {
		t.Errorf("got error %v", err)
	}
	if err := waitUntil(server, func() bool { return false }); err != nil {
		t.Errorf("got error %v", err)
	}
}

// TestEndWhileStarting checks that a server which is to end while it starts does not interrupt the hooks that upstream
// cannot have interrupted, and that it does not wait for them for ever.
func TestEndWhileStarting(t *testing.T) {
	for name, tc := range map[string]struct {
		given bool // before the end
		after time.Duration
		want  time.Duration // from the end of ctx to that of the server
	}{
		"started":  {given: true},
		"starting": {after: time.Second, want: time.Second},
		"stuck":    {after: time.Hour, want: startTime},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithCancel(t.Context())
				first, second := make(chan struct{}), make(chan struct{})
				close(first)
				if tc.given {
					close(second)
				}
				serving, stop := notBefore(ctx, map[string]<-chan struct{}{"first": first, "second": second}, startTime)
				defer stop()
				synctest.Wait()
				if serving.Err() != nil {
					t.Fatal("it has ended by itself")
				}
				began := time.Now()
				end()
				if !tc.given {
					time.AfterFunc(tc.after, func() { close(second) })
				}
				<-serving.Done()
				if took := time.Since(began); took != tc.want {
					t.Errorf("it ends after %s, want %s", took, tc.want)
				}
			})
		})
	}
}
