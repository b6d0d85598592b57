package hosttenant

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	toolscache "k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// TestPace checks how often Tenants are looked at when everything changes all the time, and that
// what follows a change of the host does not wait.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tenants, seconds = 1000, 60
		p := newPace()
		var mu sync.Mutex // of what timers count
		looked := map[string]int{}
		total := 0
		storm := func() {
			for i := range tenants {
				name := fmt.Sprint("t", i)
				p.enqueue(name, func() {
					mu.Lock()
					defer mu.Unlock()
					looked[name]++
					total++
				})
			}
		}
		for range 10 * seconds {
			storm()
			time.Sleep(time.Second / 10)
			synctest.Wait()
		}
		mu.Lock()
		if most := eventBurst + (seconds+1)*eventRate; total > most || total < most/2 {
			t.Errorf("looked %d times in %d s, want at most %d", total, seconds, most)
		}
		if waiting := p.waiting(); waiting > tenants {
			t.Errorf("%d Tenants wait", waiting)
		}
		for _, times := range looked {
			if times > 2+total/tenants {
				t.Errorf("one Tenant was looked at %d times, of %d of all", times, total)
			}
		}
		mu.Unlock()

		time.Sleep(2 * tenants / eventRate * time.Second)
		p.limit.ReserveN(time.Now(), eventBurst) // others have had it
		var quick atomic.Int32
		look := func(name string) int {
			p.enqueue(name, func() { quick.Add(1) })
			p.enqueue(name, func() { t.Error("two events in a row count twice") })
			time.Sleep(settlePeriod)
			synctest.Wait()
			return int(quick.Load())
		}
		p.changed(onHost())
		p.changed(onHost()) // what the servers have thrown away
		for i := range looksOfChange {
			if look("acme") != i+1 {
				t.Fatalf("looked %d times after a change of the host", quick.Load())
			}
		}
		p.limit.ReserveN(time.Now(), eventBurst)
		if look("acme") != looksOfChange {
			t.Error("one change counts twice")
		}
		p.forget("acme")
		p.changed(onHost(func(t *v1alpha1.Tenant) { t.Generation++ }))
		if look("other") != looksOfChange+1 {
			t.Error("a new change does not count")
		}
		time.Sleep(2 * tenants / eventRate * time.Second)
		synctest.Wait()
		if waiting := p.waiting(); waiting > 0 {
			t.Errorf("%d Tenants wait for ever", waiting)
		}
	})
}

// TestEventsArePaced checks that events of a control plane wait for their turn, and that one about
// no Tenant of the host is none.
func TestEventsArePaced(t *testing.T) {
	c, _ := newConnections(t, time.Hour, nil)
	p := newPace()
	named := func(name string) *v1alpha1.Tenant { return onHost(named(name)) }
	for _, object := range []any{named("other"), toolscache.DeletedFinalStateUnknown{Obj: named("other")}} {
		if c.enqueue(t.Context(), p, object); c.queue.Len() > 0 {
			t.Error("somebody looks at a Tenant that the host has not")
		}
	}
	c.enqueue(t.Context(), p, toolscache.DeletedFinalStateUnknown{Obj: named("acme")})
	request, _ := c.queue.Get()
	if request.Name != "acme" {
		t.Fatalf("somebody looks at %v", request)
	}
	c.queue.Done(request)
	p.limit.ReserveN(time.Now(), eventBurst) // others have had it
	if c.enqueue(t.Context(), p, named("acme")); c.queue.Len() > 0 || p.waiting() != 1 {
		t.Error("the Tenant does not wait for its turn")
	}
}

// waiting returns how many Tenants wait for their turn.
func (p *pace) waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.delayed)
}
