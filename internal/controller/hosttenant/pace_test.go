package hosttenant

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
				p.enqueue(name, settlePeriod, func() {
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
			p.enqueue(name, settlePeriod, func() { quick.Add(1) })
			p.enqueue(name, settlePeriod, func() { t.Error("two events in a row count twice") })
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

// TestCountsWait checks that the host is not told each time that a tenant uses more or less, and that this makes
// nothing else wait, and nothing sooner than its turn.
func TestCountsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace()
		var looked atomic.Int32
		after := func(d time.Duration) int32 {
			time.Sleep(d)
			synctest.Wait()
			return looked.Load()
		}
		look := func(settle time.Duration) { p.enqueue("acme", settle, func() { looked.Add(1) }) }
		look(countPeriod)
		look(countPeriod)
		if n := after(countPeriod - 1); n != 0 {
			t.Errorf("looked %d times before the period was over", n)
		}
		if n := after(1); n != 1 {
			t.Errorf("looked %d times, want once", n)
		}
		look(countPeriod)
		look(settlePeriod)
		look(countPeriod)
		if n := after(settlePeriod); n != 2 {
			t.Errorf("another change waits for what is counted: looked %d times", n)
		}
		if n := after(2 * countPeriod); n != 2 {
			t.Errorf("looked %d times for changes that were told at once", n)
		}
		p.limit.ReserveN(time.Now(), eventBurst)
		p.limit.ReserveN(time.Now(), eventBurst) // others are before it for ten seconds
		look(countPeriod)
		look(settlePeriod)
		if n := after(eventBurst / eventRate * time.Second); n != 2 {
			t.Errorf("looked %d times before its turn", n)
		}
		if n := after(time.Second); n != 3 {
			t.Errorf("looked %d times when it was its turn", n)
		}
	})
}

// TestSettles checks what the host is told of soon.
func TestSettles(t *testing.T) {
	quota := func(limit, used string) func(*v1alpha1.Tenant) {
		return func(t *v1alpha1.Tenant) {
			t.Status.Quota = &v1alpha1.TenantQuotaStatus{
				Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse(limit)},
				Used: corev1.ResourceList{corev1.ResourcePods: resource.MustParse(used)},
			}
		}
	}
	for name, tc := range map[string]struct {
		change func(*v1alpha1.Tenant)
		want   time.Duration
	}{
		"what it uses":           {quota("5", "2"), countPeriod},
		"what it has stored":     {func(t *v1alpha1.Tenant) { t.Status.Usage = &v1alpha1.TenantUsage{Objects: 1} }, countPeriod},
		"its limits":             {quota("6", "1"), countPeriod},
		"a condition":            {func(t *v1alpha1.Tenant) { t.Status.Conditions[0].Status = metav1.ConditionFalse }, settlePeriod},
		"labels":                 {func(t *v1alpha1.Tenant) { t.Labels = map[string]string{"a": "b"} }, settlePeriod},
		"how far a deletion has": {func(t *v1alpha1.Tenant) { t.Status.Deletion = &v1alpha1.TenantDeletion{Keys: 1} }, settlePeriod},
	} {
		t.Run(name, func(t *testing.T) {
			before := inSpace(hostUID)
			before.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
			quota("5", "1")(before)
			after := before.DeepCopy()
			if tc.change(after); settles(before, after) != 0 {
				t.Error("what the watch says again is a change")
			}
			if after.ResourceVersion += "1"; settles(before, after) != tc.want {
				t.Errorf("it settles after %s, want %s", settles(before, after), tc.want)
			}
		})
	}
}

// TestEventsArePaced checks that events of a control plane wait for their turn, and that one about
// no Tenant of the host is none.
func TestEventsArePaced(t *testing.T) {
	c, _ := newConnections(t, time.Hour, nil)
	p := newPace()
	named := func(name string) *v1alpha1.Tenant { return onHost(named(name)) }
	for _, object := range []any{named("other"), toolscache.DeletedFinalStateUnknown{Obj: named("other")}} {
		if c.enqueue(t.Context(), p, settlePeriod, object); c.queue.Len() > 0 {
			t.Error("somebody looks at a Tenant that the host has not")
		}
	}
	c.enqueue(t.Context(), p, settlePeriod, toolscache.DeletedFinalStateUnknown{Obj: named("acme")})
	request, _ := c.queue.Get()
	if request.Name != "acme" {
		t.Fatalf("somebody looks at %v", request)
	}
	c.queue.Done(request)
	p.limit.ReserveN(time.Now(), eventBurst) // others have had it
	if c.enqueue(t.Context(), p, settlePeriod, named("acme")); c.queue.Len() > 0 || p.waiting() != 1 {
		t.Error("the Tenant does not wait for its turn")
	}
}

// waiting returns how many Tenants wait for their turn.
func (p *pace) waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.delayed)
}
