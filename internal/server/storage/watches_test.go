package storage

import (
	"fmt"
	goruntime "runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/storage"
	upstream "k8s.io/apiserver/pkg/util/flowcontrol"

	"github.com/tenantry/tenantry/internal/process/signal"
	"github.com/tenantry/tenantry/internal/tenant"
)

const last = "last" // the name of the object that ends a test's events

// eventsUntil reads events up to the creation of the last object.
func eventsUntil(t *testing.T, events watch.Interface) []string {
	t.Helper()
	var found []string
	for event := range events.ResultChan() {
		if event.Type == watch.Error {
			t.Fatalf("watch: %v", event.Object)
		}
		description := describe(event.Object)
		if nameOf(event.Object) == last {
			return found
		}
		found = append(found, string(event.Type)+" "+description)
	}
	t.Fatalf("the watch ended after %q", found)
	return nil
}

func TestWatchesDeliverOneSpace(t *testing.T) {
	b := newBackend(t)
	for _, cached := range []bool{true, false} {
		for _, namespace := range []string{"", "foo"} {
			for _, initial := range []bool{true, false} {
				t.Run(fmt.Sprintf("cached=%v/%q/initial=%v", cached, namespace, initial), func(t *testing.T) {
					s := b.configMaps(t, cached)
					before := ""
					for _, n := range spaces {
						before = version(t, s.create(t, n, "foo", "x"))
					}
					watches := map[tenant.Name]watch.Interface{}
					for _, n := range spaces {
						if initial {
							before = "" // the watch begins with what is there
						}
						watches[n] = s.watch(t, n.Scope(), namespace, from(before, ""))
						if initial {
							event := <-watches[n].ResultChan()
							if diff := cmp.Diff("ADDED "+string(n)+":foo/x", string(event.Type)+" "+describe(event.Object)); diff != "" {
								t.Fatalf("in %q:\n%s", n, diff)
							}
						}
					}
					for _, n := range spaces {
						s.label(t, n, "foo", "x", "y")
						s.remove(t, n, "foo", "x")
						s.create(t, n, "foobar", "x")
						s.remove(t, n, "foobar", "x")
						s.create(t, n, "foo", last)
						s.remove(t, n, "foo", last)
					}
					for _, n := range spaces {
						want := []string{"MODIFIED " + string(n) + ":foo/x", "DELETED " + string(n) + ":foo/x"}
						if namespace == "" {
							want = append(want, "ADDED "+string(n)+":foobar/x", "DELETED "+string(n)+":foobar/x")
						}
						if diff := cmp.Diff(want, eventsUntil(t, watches[n])); diff != "" {
							t.Errorf("in %q:\n%s", n, diff)
						}
					}
				})
			}
		}
	}
}

// Upstream's cache has a rule of its own for the watch of a namespace, whose name it
// compares with the scope of the watch, which is the space here.
func TestWatchOfANamespaceThatIsCalledLikeItsTenant(t *testing.T) {
	s := newBackend(t).store(t, schema.GroupResource{Resource: "namespaces"}, false, true,
		func() runtime.Object { return &corev1.Namespace{} }, func() runtime.Object { return &corev1.NamespaceList{} })
	before := ""
	for _, n := range spaces {
		before = version(t, s.create(t, n, "", "foo"))
	}
	for _, n := range []tenant.Name{"foo", "a", tenant.System} {
		watcher := s.watch(t, n.Scope(), "", named("foo"), from(before, ""))
		for _, writer := range spaces {
			s.label(t, writer, "", "foo", "by "+string(n))
		}
		event := <-watcher.ResultChan()
		if got := describe(event.Object); event.Type != watch.Modified || got != string(n)+":foo" {
			t.Errorf("in %q: %s of %s", n, event.Type, got)
		}
		before = version(t, s.label(t, n, "", "foo", "again"))
		if event := <-watcher.ResultChan(); version(t, event.Object) != before {
			t.Errorf("in %q: %s of %s at %s, want %s", n, event.Type, describe(event.Object), version(t, event.Object), before)
		}
	}
}

// A watcher that does not read is ended as soon as its buffers are full, also by
// events that it is offered and would not have delivered. So a watcher that is
// still there has not been offered the events of another space.
func TestWritesAreNotOfferedToOtherSpaces(t *testing.T) {
	const (
		own     = 12  // events fill the buffer of results and stop the watcher
		foreign = 100 // events are more than fit into its input
	)
	b := newBackend(t)
	s := b.configMaps(t, true)
	for name, tc := range map[string]struct {
		watcher tenant.Scope
		writer  tenant.Name
		change  []func(*storage.ListOptions)
		offered bool
	}{
		"tenant and tenant":         {watcher: "foo", writer: "foobar"},
		"tenant and system space":   {watcher: "foo", writer: tenant.System},
		"system space and tenant":   {watcher: tenant.System.Scope(), writer: "foo"},
		"one object of equal names": {watcher: "a", writer: "a-b", change: []func(*storage.ListOptions){named("busy")}},
		"all tenants and tenant":    {watcher: tenant.All, writer: "foo", offered: true},
	} {
		t.Run(name, func(t *testing.T) {
			before := ""
			for _, n := range spaces {
				before = version(t, s.create(t, n, "foo", "busy"))
			}
			watcher := s.watch(t, tc.watcher, "foo", append(tc.change, from(before, ""))...)
			for i := range own {
				n, one := tc.watcher.Space()
				if !one {
					n = "a"
				}
				s.label(t, n, "foo", "busy", fmt.Sprint(i))
			}
			<-watcher.ResultChan() // so its events come from the buffers, which the cache fills, and no longer from what it has of the past
			// Another watcher tells when the cache has dispatched everything.
			witness := s.watch(t, tc.writer.Scope(), "foo", from(before, ""))
			for i := range foreign {
				s.label(t, tc.writer, "foo", "busy", fmt.Sprint(i))
				<-witness.ResultChan()
			}
			for _, n := range spaces {
				s.remove(t, n, "foo", "busy")
			}
			delivered, deleted := 1, false
			for event := range watcher.ResultChan() {
				delivered++
				if deleted = event.Type == watch.Deleted; deleted {
					break
				}
			}
			switch {
			case tc.offered && deleted:
				t.Error("a watcher with full buffers was not ended: this test cannot tell whether events are offered")
			case !tc.offered && (!deleted || delivered != own+1):
				t.Errorf("the watcher was ended after %d events", delivered)
			}
		})
	}
}

// seatFlag is what upstream's fairness waits for.
type seatFlag struct{ signal.Flag }

func (f seatFlag) Signal() { f.Raise() }

func (f seatFlag) Wait() { <-f.Flag }

// TestWatchesHaveASeatAtFirst checks that a watch which begins with what there is keeps its seat until that has been
// written, as a list does, however few objects there are.
func TestWatchesHaveASeatAtFirst(t *testing.T) {
	b := newBackend(t)
	for _, cached := range []bool{true, false} {
		s := b.configMaps(t, cached)
		const many = 40 // more than there is room for in buffers
		for i := range many {
			s.create(t, spaces[0], "foo", fmt.Sprintf("x%v-%d", cached, i))
			s.create(t, spaces[1], "bar", fmt.Sprintf("x%v-%d", cached, i))
		}
		s.create(t, spaces[1], "foo", fmt.Sprintf("x%v", cached))
		for name, tc := range map[string]struct {
			space  tenant.Name
			events int
			change []func(*storage.ListOptions)
		}{
			"many":          {spaces[0], many, nil},
			"one":           {spaces[1], 1, nil},
			"one of a name": {spaces[0], 1, []func(*storage.ListOptions){named(fmt.Sprintf("x%v-7", cached))}},
		} {
			t.Run(fmt.Sprintf("%s, cached=%v", name, cached), func(t *testing.T) {
				begun := seatFlag{signal.NewFlag()}
				var written WrittenEvents
				ctx := WithWritten(upstream.WithInitializationSignal(s.in(t, tc.space.Scope(), "foo"), begun), &written)
				opts := listOptions(tc.change...)
				key := registry.NamespaceKeyRootFunc(ctx, s.prefix)
				if name, ok := opts.Predicate.MatchesSingle(); ok {
					key, opts.Recursive = s.key("foo", name), false
				}
				watcher, err := s.Watch(ctx, key, opts)
				if err != nil {
					t.Fatal(err)
				}
				defer watcher.Stop()
				for i := range tc.events {
					if event := <-watcher.ResultChan(); event.Type != watch.Added {
						t.Fatalf("%s is not an initial event", event.Type)
					}
					for range 1000 {
						goruntime.Gosched() // to whatever may give the seat back
					}
					if len(begun.Flag) > 0 {
						t.Fatalf("the seat is free when %d of %d events have been written", i, tc.events)
					}
					written.Wrote()
				}
				begun.Wait()
			})
		}
		for i := range many { // for the other storage
			s.remove(t, spaces[0], "foo", fmt.Sprintf("x%v-%d", cached, i))
			s.remove(t, spaces[1], "bar", fmt.Sprintf("x%v-%d", cached, i))
		}
		s.remove(t, spaces[1], "foo", fmt.Sprintf("x%v", cached))
	}
}
