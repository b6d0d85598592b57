package apiservice

import (
	"fmt"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/util/flowcontrol"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestWatchTakesNoSeat checks that upstream's fairness is told when a watch has begun: a
// watch would otherwise have a seat of its tenant for as long as it is open.
func TestWatchTakesNoSeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		services := newInSpaces(nil, Served{
			Versions: func(tenant.Name) (builtin, custom []schema.GroupVersion, err error) {
				return []schema.GroupVersion{{Version: "v1"}}, nil, nil
			},
			Changes: func(tenant.Name) (<-chan struct{}, func()) { return nil, func() {} },
		})
		begun := flowcontrol.NewInitializationSignal()
		ctx := flowcontrol.WithInitializationSignal(tenant.WithSpace(t.Context(), "acme"), begun)
		w, err := services.Watch(ctx, "/apiservices", storage.ListOptions{Predicate: storage.Everything, Recursive: true})
		if err != nil {
			t.Fatal(err)
		}
		seatIsFree := make(chan struct{})
		go func() {
			begun.Wait()
			close(seatIsFree)
		}()
		synctest.Wait()
		select {
		case <-seatIsFree:
		default:
			t.Error("the watch keeps its seat")
			begun.Signal()
		}
		w.Stop()
	})
}

// TestWatchesShareWhatThereIs has many watches look at what a definition has changed, which is nothing but an
// annotation at first: APIServices are made once for all of a space.
func TestWatchesShareWhatThereIs(t *testing.T) {
	custom := map[tenant.Name][]schema.GroupVersion{"acme": {{Group: "a.example.com", Version: "v1"}}}
	s := newInSpaces(nil, Served{Versions: func(n tenant.Name) (_, _ []schema.GroupVersion, err error) {
		return []schema.GroupVersion{{Version: "v1"}}, custom[n], nil
	}})
	after := func(n tenant.Name, known *services) *services {
		t.Helper()
		found, err := s.after(n, known)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	first := after("acme", nil)
	for i := range maxRecent { // others have the places of those of late
		after(tenant.Name(fmt.Sprint("other-", i)), nil)
	}
	if again := after("acme", first); again != first {
		t.Error("they are made again though nothing has changed")
	}
	custom["acme"] = append(custom["acme"], schema.GroupVersion{Group: "b.example.com", Version: "v1"})
	changed := after("acme", first)
	if changed == first || len(changed.services) != 3 || after("acme", first) != changed {
		t.Errorf("after a change there are %d, made once for all watches: %v", len(changed.services), after("acme", first) == changed)
	}
	if other := after("globex", nil); other == changed || len(other.services) != 1 {
		t.Errorf("another space has %d", len(other.services))
	}
}
