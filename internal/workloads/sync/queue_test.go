package sync

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestTurns checks that a tenant with much to do keeps nobody waiting.
func TestTurns(t *testing.T) {
	q := newQueue("test", 8).turns // two workers are a share
	push := func(n tenant.Name, names ...string) {
		for _, name := range names {
			q.Push(item{tenant: n, name: name})
		}
	}
	pop := func(times int) (got []string) {
		for range times {
			i := q.Pop()
			got = append(got, string(i.tenant)+i.name)
		}
		return got
	}
	push("a", "1", "2", "3", "4", "5")
	push("b", "1")
	if diff := cmp.Diff([]string{"a1", "b1", "a2", "a3"}, pop(4)); diff != "" {
		t.Errorf("alone it goes on: %s", diff)
	}
	push("c", "1", "2")
	if diff := cmp.Diff([]string{"c1", "c2", "a4"}, pop(3)); diff != "" {
		t.Errorf("a has its share: %s", diff)
	}
	push("b", "2")
	for range 3 {
		q.finished("a", 0)
	}
	if diff := cmp.Diff([]string{"a5", "b2"}, pop(2)); diff != "" {
		t.Errorf("a has less than its share: %s", diff)
	}
	for n, times := range map[tenant.Name]int{"a": 2, "b": 2, "c": 2} {
		for range times {
			q.finished(n, 0)
		}
	}
	if q.Len() != 0 || len(q.waiting) != 0 || len(q.active) != 0 || len(q.order) != 0 {
		t.Errorf("of idle tenants there are %v, %v, %v", q.waiting, q.active, q.order)
	}
}

// TestGrantsFirst checks that what takes a grant away does not wait for the pods of its tenant, and that others still
// have their turns.
func TestGrantsFirst(t *testing.T) {
	w := newWorld(t, hostSpace(), spaceIngress(nil), spaceRoute(), spaceService(nil))
	for i := range 9 {
		w.queue.Add(item{podItem, "acme", "acme|shop", fmt.Sprint(i)})
	}
	w.queue.Add(item{kind: tenantItem, tenant: "acme"})
	w.queue.Add(item{podItem, "globex", "globex|shop", "web-0"})
	var got []kind
	for _, i := range w.items()[:6] {
		if got = append(got, i.kind); i.kind == podItem && i.tenant != "globex" {
			t.Errorf("a pod is looked at before: %v", got)
		}
	}
	for _, k := range []kind{podItem, ingressItem, routeItem, serviceItem, hostNamespaceItem} {
		if !slices.Contains(got, k) {
			t.Errorf("of the first %v are none of the kind %v", got, k)
		}
	}
}

// TestTurnsByTime checks that a tenant whose items take long has fewer turns, and none that has been saved up.
func TestTurnsByTime(t *testing.T) {
	q := newQueue("test", 8).turns
	pop := func(took time.Duration, times int) (got string) {
		for range times {
			i := q.Pop()
			got += string(i.tenant)
			if i.tenant == "slow" {
				q.finished(i.tenant, took)
			} else {
				q.finished(i.tenant, time.Second)
			}
			got += " "
		}
		return got
	}
	for range 9 {
		q.Push(item{tenant: "slow"})
		q.Push(item{tenant: "b"})
	}
	if got := pop(4*time.Second, 6); got != "slow b b b b slow " {
		t.Errorf("turns: %s", got)
	}
	for range 9 {
		q.Push(item{tenant: "new"})
	}
	if got := pop(4*time.Second, 4); strings.Count(got, "new") != 2 {
		t.Errorf("who comes later: %s", got)
	}
	for q.Len() > 0 {
		pop(time.Second, 1)
	}
	if len(q.spent) != 0 || q.least != 0 {
		t.Errorf("of idle tenants there are %v", q.spent)
	}
}

// TestTurnsAmongMany has many tenants come, wait and be worked for: each turn is that of one without its share of the
// workers, and of these of one for which the least time was spent.
func TestTurnsAmongMany(t *testing.T) {
	const seed = 7
	random := rand.New(rand.NewPCG(seed, seed))
	q := newQueue("test", 8).turns
	working := map[tenant.Name]int{}
	spent := func(n tenant.Name) time.Duration { return max(q.spent[n], q.least) }
	for range 10_000 {
		n := tenant.Name(fmt.Sprint("t", random.IntN(30)))
		switch random.IntN(3) {
		case 0:
			q.Push(item{tenant: n})
		case 1:
			if working[n] > 0 {
				working[n]--
				q.finished(n, time.Duration(random.IntN(1000)))
			}
		case 2:
			if q.Len() == 0 {
				continue
			}
			wants, least := false, time.Duration(math.MaxInt64)
			for n := range q.waiting {
				if working[n] < q.most {
					wants, least = true, min(least, spent(n))
				}
			}
			before := map[tenant.Name]time.Duration{}
			for n := range q.waiting {
				before[n] = spent(n)
			}
			got := q.Pop().tenant
			if wants && (working[got] >= q.most || before[got] != least) {
				t.Fatalf("the turn is that of %s, for which %d work, after %s; the least is %s", got, working[got], before[got], least)
			}
			working[got]++
		}
	}
}

// TestQueue checks that an item is worked on once at a time.
func TestQueue(t *testing.T) {
	q := newQueue("test", 4)
	defer q.ShutDown()
	i := item{tenant: "a", name: "x"}
	q.Add(i)
	q.Add(i)
	got, _ := q.Get()
	q.Add(i)
	if got != i || q.Len() != 0 {
		t.Errorf("got %v, and %d wait", got, q.Len())
	}
	q.finished(i, 0)
	if q.Len() != 1 {
		t.Errorf("%d wait", q.Len())
	}
}

// TestFailuresAreReported checks that what fails again and again is an error in the log, whichever queue it is in.
func TestFailuresAreReported(t *testing.T) {
	w := newWorld(t)
	pods := corev1.Resource("pods")
	terminating := apierrors.NewForbidden(corev1.Resource("tenants"), "acme", errors.New("it is being deleted"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, tc := range map[string]struct {
		queue *queue
		times int
		err   error
		want  bool
	}{
		"items":                     {w.queue, loudRequeues, errors.New("away"), true},
		"stale slices":              {w.stale, loudRequeues, errors.New("away"), true},
		"a conflict":                {w.queue, loudRequeues, fmt.Errorf("writing: %w", apierrors.NewConflict(pods, "web-0", errors.New("changed"))), false},
		"a stale cache":             {w.queue, loudRequeues, fmt.Errorf("%w: the pod is there", errBehind), false},
		"a tenant that goes":        {w.queue, loudRequeues, fmt.Errorf("writing: %w", terminating), false},
		"one that is gone":          {w.queue, loudRequeues, fmt.Errorf("finding it: %w", errNoHome), false},
		"a refusal":                 {w.queue, loudRequeues, apierrors.NewForbidden(pods, "web-0", errors.New("no")), true},
		"the first that may not go": {w.queue, 0, fmt.Errorf("removing it: %w", haltedError{errors.New("too many"), true}), true},
		"another that may not go":   {w.queue, patientRequeues, haltedError{errors.New("too many"), false}, false},
		"a long conflict":           {w.queue, patientRequeues, apierrors.NewConflict(pods, "web-0", errors.New("changed")), true},
	} {
		logger := ktesting.NewLogger(ktesting.NopTL{}, ktesting.NewConfig(ktesting.BufferLogs(true)))
		i := staleItemOfHome
		i.name += name
		for range tc.times {
			tc.queue.AddRateLimited(i)
		}
		tc.queue.Add(i)
		w.work(klog.NewContext(t.Context(), logger), tc.queue, time.Minute, func(context.Context, item) error { return tc.err })
		if said := logger.GetSink().(ktesting.Underlier).GetBuffer().String(); strings.Contains(said, "fails again and again") != tc.want {
			t.Errorf("%s: the log says %q", name, said)
		}
	}
}

// TestQueueEnds checks that nothing is left in a queue that has ended, whose name another one may have.
func TestQueueEnds(t *testing.T) {
	q := newQueue("ended", 4)
	for _, n := range []tenant.Name{"a", "b"} {
		for i := range 3 {
			q.Add(item{tenant: n, name: fmt.Sprint(i)})
		}
	}
	i, _ := q.Get()
	q.Add(i) // it comes again when it is finished
	q.finished(i, time.Second)
	if q.end(); q.Len() > 0 || len(q.turns.active) > 0 {
		t.Errorf("%d items are left, and workers of %v", q.Len(), q.turns.active)
	}
}
