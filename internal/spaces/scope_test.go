package spaces

import (
	"context"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

const (
	namespacesPath = "/tenants/*/api/v1/namespaces"
	secretsPath    = "/tenants/*/api/v1/secrets"
)

func scopedServer(t *testing.T) (*fakeServer, *Factory) {
	t.Helper()
	server := &fakeServer{
		objects: map[string][]any{namespacesPath: {namespaceOf("a", "default")}, secretsPath: {}},
		events:  map[string]chan any{namespacesPath: make(chan any), secretsPath: make(chan any)},
	}
	s := httptest.NewServer(server)
	t.Cleanup(s.Close)
	factory, err := NewInformerFactory(&rest.Config{Host: s.URL}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return server, factory
}

// begun waits until all goroutines of the informer of namespaces have begun: who takes the event is its open watch.
func (s *fakeServer) begun() {
	s.events[namespacesPath] <- map[string]any{"type": watch.Bookmark, "object": namespaceOf("a", "default")}
}

func added(t *testing.T, informer cache.SharedInformer) <-chan string {
	t.Helper()
	seen := make(chan string, 10)
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { seen <- obj.(*corev1.Namespace).Name }})
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

func indexNothing(any) ([]string, error) { return nil, nil }

// TestScope has several scopes, one after the other, of a factory that goes on: each hears of what there is, and of
// nothing when it has ended. What it alone has used ends with it.
func TestScope(t *testing.T) {
	server, factory := scopedServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	own := added(t, factory.Core().V1().Namespaces().Informer())
	factory.StartWithContext(ctx)
	<-own
	var before <-chan string
	for _, name := range []string{"first", "second", "third"} {
		scope := factory.Scope()
		namespaces, secrets := scope.Core().V1().Namespaces().Informer(), scope.Core().V1().Secrets().Informer()
		if err := namespaces.AddIndexers(cache.Indexers{"index": indexNothing}); err != nil {
			t.Fatalf("adding an index that the scope before has added: %v", err)
		}
		if err := namespaces.AddIndexers(cache.Indexers{"index": indexNothing}); err == nil && name == "first" {
			t.Error("two in one scope have added an index of one name")
		}
		seen := added(t, namespaces)
		scope.StartWithContext(ctx)
		if err := scope.WaitForCacheSyncWithContext(ctx).AsError(); err != nil {
			t.Fatal(err)
		}
		<-seen
		server.events[namespacesPath] <- map[string]any{"type": watch.Added, "object": namespaceOf("a", name)}
		for _, heard := range []<-chan string{own, seen} {
			for got := <-heard; got != "a|"+name; got = <-heard {
			}
		}
		if len(before) > 0 {
			t.Errorf("a scope that has ended hears of %q", <-before)
		}
		scope.End()
		before = seen
		if namespaces.IsStopped() {
			t.Error("an informer that the factory keeps has ended")
		}
		if !secrets.IsStopped() {
			t.Error("an informer that nothing uses goes on")
		}
		if _, err := secrets.AddEventHandler(cache.ResourceEventHandlerFuncs{}); err == nil {
			t.Error("a scope that has ended has a new handler")
		}
		if scope.Core().V1().Pods().Informer() == nil {
			t.Error("who asks for an informer afterwards gets none")
		}
	}
	cancel()
	factory.Shutdown()
}

// TestScopesTogether ends one of two scopes: the other goes on with their informer.
func TestScopesTogether(t *testing.T) {
	server, factory := scopedServer(t)
	first, second := factory.Scope(), factory.Scope()
	added(t, first.Core().V1().Namespaces().Informer())
	informer := second.Core().V1().Namespaces().Informer()
	seen := added(t, informer)
	first.StartWithContext(t.Context())
	second.StartWithContext(t.Context())
	<-seen
	first.End()
	server.events[namespacesPath] <- map[string]any{"type": watch.Added, "object": namespaceOf("b", "later")}
	if got := <-seen; got != "b|later" {
		t.Errorf("the other scope hears of %q", got)
	}
	second.End()
	if !informer.IsStopped() {
		t.Error("an informer that nothing uses goes on")
	}
	if len(factory.informers) > 0 {
		t.Errorf("the factory keeps %d informers", len(factory.informers))
	}
}

// TestScopeBeforeItsStart has handlers of scopes of an informer that runs: they hear of nothing before their scope is
// started, then of all in its order, and of nothing if it ends before.
func TestScopeBeforeItsStart(t *testing.T) {
	server, factory := scopedServer(t)
	own := added(t, factory.Core().V1().Namespaces().Informer())
	factory.StartWithContext(t.Context())
	<-own
	server.begun()
	before := informing()
	never, scope := factory.Scope(), factory.Scope()
	defer scope.End()
	unheard, informer := added(t, never.Core().V1().Namespaces().Informer()), scope.Core().V1().Namespaces().Informer()
	seen := added(t, informer)
	server.events[namespacesPath] <- map[string]any{"type": watch.Added, "object": namespaceOf("a", "later")}
	<-own // by now, each handler has been handed the first one
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	never.StartWithContext(ended)
	time.Sleep(100 * time.Millisecond) // time to be called, which makes a mistake seen and no success
	if len(seen)+len(unheard) > 0 {
		t.Error("a handler is called before its scope is started")
	}
	scope.StartWithContext(t.Context())
	for _, want := range []string{"a|default", "a|later"} {
		if got := <-seen; got != want {
			t.Errorf("after the start a handler hears of %q, want %q", got, want)
		}
	}
	late := added(t, informer)
	<-late // one that is added to a scope that is started waits for nothing
	never.End()
	scope.End()
	for deadline := time.Now().Add(time.Minute); informing() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", informing(), before)
		}
	}
	if len(unheard) > 0 {
		t.Error("a handler of a scope that has ended without a start is called")
	}
}

// informing counts the goroutines of informers, and those that a group has started: in the stack of one that has not
// begun yet is nothing else.
func informing() int {
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	n := 0
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(stack, "client-go/tools/cache.") || strings.Contains(stack, "wait.(*Group).Start") {
			n++
		}
	}
	return n
}

// TestScopeLeavesNothing has a hundred scopes, which leave no goroutine behind.
func TestScopeLeavesNothing(t *testing.T) {
	server, factory := scopedServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	added(t, factory.Core().V1().Namespaces().Informer())
	factory.StartWithContext(ctx)
	if err := factory.WaitForCacheSyncWithContext(ctx).AsError(); err != nil {
		t.Fatal(err)
	}
	server.begun()
	before := informing()
	for range 100 {
		scope := factory.Scope()
		added(t, scope.Core().V1().Namespaces().Informer())
		scope.Core().V1().Secrets().Informer()
		scope.StartWithContext(ctx)
		if err := scope.WaitForCacheSyncWithContext(ctx).AsError(); err != nil {
			t.Fatal(err)
		}
		scope.End()
	}
	// Handlers that were removed end by themselves, soon.
	for informing() > before {
		if ctx.Err() != nil {
			t.Fatalf("%d goroutines, %d before", informing(), before)
		}
		runtime.Gosched()
	}
}
