package server

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/klog/v2"
)

// hookRetry is how long a hook that has failed rests.
const hookRetry = time.Second

// patientHooks are the hooks of one of upstream's API groups. Some fail when they
// have not succeeded for half a minute, and upstream ends the process when one
// does: a server with much to read at its start would be ended for ever.
type patientHooks struct {
	genericapiserver.PostStartHookProvider
}

// PostStartHook implements genericapiserver.PostStartHookProvider.
func (p patientHooks) PostStartHook() (string, genericapiserver.PostStartHookFunc, error) {
	name, hook, err := p.PostStartHookProvider.PostStartHook()
	if err != nil || hook == nil {
		return name, hook, err
	}
	return name, patient(name, hook, hookRetry), nil
}

// patient returns a hook that is tried again until it succeeds or the server ends.
// Until then the server is not ready, and says because of which hook.
func patient(name string, hook genericapiserver.PostStartHookFunc, pause time.Duration) genericapiserver.PostStartHookFunc {
	return func(server genericapiserver.PostStartHookContext) error {
		// Its error is that of a server which ends; that is no failure of the hook.
		_ = wait.PollUntilContextCancel(server, pause, true, func(context.Context) (bool, error) {
			attempt, end := context.WithCancel(server)
			err := hook(genericapiserver.PostStartHookContext{LoopbackClientConfig: server.LoopbackClientConfig, Context: attempt})
			if err == nil {
				context.AfterFunc(server, end) // what the hook has started goes on
				return true, nil
			}
			end() // and what a failed one has started does not
			if server.Err() == nil {
				klog.ErrorS(err, "Hook failed; trying again", "hook", name)
			}
			return false, nil
		})
		return nil
	}
}

// startTime is how long a server that is to end goes on starting.
const startTime = 10 * time.Second

// notBefore returns a context that ends with ctx, but not before all signals were given or, after ctx has ended, a time
// is over. The hook of upstream that gives the signal of definitions ends the process, with all stacks, if it is
// interrupted.
func notBefore(ctx context.Context, signals map[string]<-chan struct{}, limit time.Duration) (context.Context, context.CancelFunc) {
	later, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		defer end()
		over := time.NewTimer(limit)
		defer over.Stop()
		for _, given := range signals {
			select {
			case <-given:
			case <-over.C:
				return
			case <-later.Done():
				return
			}
		}
	})
	return later, func() { stop(); end() }
}

// syncPoll is how often a starting server looks whether its views have read everything.
const syncPoll = 20 * time.Millisecond

// waitUntil returns when synced does so, or the server ends: which is no failure of
// the hook that waits, and must not end the process before it has drained.
func waitUntil(server genericapiserver.PostStartHookContext, synced func() bool) error {
	_ = wait.PollUntilContextCancel(server, syncPoll, true, func(context.Context) (bool, error) { return synced(), nil })
	return nil
}
