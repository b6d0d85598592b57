package apiservice

import (
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
		services := &inSpaces{served: Served{
			Versions: func(tenant.Name) (builtin, custom []schema.GroupVersion, err error) {
				return []schema.GroupVersion{{Version: "v1"}}, nil, nil
			},
			Changes: func(tenant.Name) (<-chan struct{}, func()) { return nil, func() {} },
		}}
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
