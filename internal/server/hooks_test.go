package server

import (
	"context"
	"errors"
	"testing"

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
