package sync

import (
	"container/heap"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/tenantry/tenantry/internal/tenant"
)

// kind is what an item of the queue is about.
type kind uint8

const (
	podItem kind = iota
	configMapItem
	secretItem
	// certificateItem is a Secret as Ingresses have it.
	certificateItem
	hostNamespaceItem
	eventItem
	policyItem
	budgetItem
	ingressItem
	// routeItem is an HTTPRoute.
	routeItem
	serviceItem
	// slicesItem is the EndpointSlices of a Service.
	slicesItem
	claimItem
	// nodeItem is a node of the host, which the system space shows.
	nodeItem
	// wantedItem is a namespace of a space for which a server wants the host's.
	wantedItem
	// receiptItem is a life of a tenant of which nothing is to be on the host, by its UID.
	receiptItem
	// staleItem is a namespace of the host with slices to look at, see enqueueStale. It is in a queue of its own.
	staleItem

	// Those that follow stand for many others, see enqueueMany: all that there is of a tenant; what is in a namespace
	// of a space, and of the host (name) for it; what had no room there; pods that wait for a claim; claims that wait
	// for a class; the slices of Services that select a pod.
	tenantItem
	contentsItem
	roomItem
	claimantsItem
	classItem
	selectingItem
)

// isFirst reports whether items of a kind come before others of their tenant. By these, what a Tenant is not granted
// any more leaves the host: names and addresses that somebody else may have by then. Pods, of which one write of a
// tenant has all looked at, come after them.
func (k kind) isFirst() bool {
	switch k {
	case tenantItem, contentsItem, hostNamespaceItem, ingressItem, certificateItem, routeItem, serviceItem, slicesItem, selectingItem:
		return true
	default:
		return false
	}
}

// item is something to look at. Of a namespace of the host, or a node, name is all there is.
type item struct {
	kind      kind
	tenant    tenant.Name
	namespace tenant.Flat
	name      string
}

// itemFor returns the item of what has a name in a namespace of a space.
func itemFor(k kind, namespace tenant.Flat, name string) item {
	return item{k, namespace.Space(), namespace, name}
}

// itemOf returns the item of an object of a space.
func itemOf(k kind, o metav1.Object) item {
	return itemFor(k, tenant.Flat(o.GetNamespace()), o.GetName())
}

const (
	minBackoff = 50 * time.Millisecond
	// maxBackoff is how long what the host refuses waits at most.
	maxBackoff = 5 * time.Minute
)

type queue struct {
	workqueue.TypedRateLimitingInterface[item]
	turns *turns
}

// newQueue returns a queue for so many workers, with a name for its metrics.
func newQueue(name string, workers int) *queue {
	t := &turns{most: max(1, workers/4), waiting: map[tenant.Name]*lane{}, active: map[tenant.Name]int{}, spent: map[tenant.Name]time.Duration{}}
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[item](minBackoff, maxBackoff)
	return &queue{turns: t, TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[item]{
		DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[item]{
			Name: name, Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[item]{Name: name, Queue: t}),
		}),
	})}
}

// after has an item looked at after some time, if there is any to wait for, and reports whether there is.
func (q *queue) after(i item, wait time.Duration) bool {
	if wait > 0 {
		q.AddAfter(i, wait)
	}
	return wait > 0
}

// finished says that a worker has done with an item, after some time.
func (q *queue) finished(i item, took time.Duration) {
	q.turns.finished(i.tenant, took)
	q.Done(i)
}

// end ends a queue that has no workers any more, and takes out what is left: its depth is a metric of the process,
// which may begin another one of the name.
func (q *queue) end() {
	q.ShutDown()
	for {
		i, shutdown := q.Get()
		if shutdown {
			return
		}
		q.finished(i, 0)
	}
}

// turns has tenants take turns, by the time that workers spend for them: it implements workqueue.Queue. A tenant
// that has a quarter of the workers waits while another does.
type turns struct {
	mu   sync.Mutex
	most int
	// waiting are the tenants that have items, and order has them in the order of their turns.
	waiting map[tenant.Name]*lane
	order   lanes
	// active is how many workers each tenant has.
	active map[tenant.Name]int
	length int
	// spent is the time that workers have spent for each tenant since something last waited, and least what the last
	// one had that got a turn: who comes later begins with that.
	spent map[tenant.Name]time.Duration
	least time.Duration
	// arrived is how often a tenant has come to the end of the order.
	arrived int64
}

// lane has the items of a tenant that wait: those that come first, and the others.
type lane struct {
	tenant       tenant.Name
	first, later []item
	// hasShare is whether the tenant has its share of the workers, and spent what they have spent for it.
	hasShare bool
	spent    time.Duration
	arrived  int64
	at       int // in the order
}

// lanes is a heap: first those of tenants without their share, then by the time spent, then as they have come.
type lanes []*lane

func (l lanes) Len() int { return len(l) }

func (l lanes) Less(i, j int) bool {
	a, b := l[i], l[j]
	switch {
	case a.hasShare != b.hasShare:
		return b.hasShare
	case a.spent != b.spent && !a.hasShare:
		return a.spent < b.spent
	default:
		return a.arrived < b.arrived
	}
}

func (l lanes) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].at, l[j].at = i, j
}

// Push implements heap.Interface.
func (l *lanes) Push(x any) {
	of := x.(*lane)
	of.at = len(*l)
	*l = append(*l, of)
}

// Pop implements heap.Interface.
func (l *lanes) Pop() any {
	last := (*l)[len(*l)-1]
	(*l)[len(*l)-1] = nil
	*l = (*l)[:len(*l)-1]
	return last
}

// Touch implements workqueue.Queue.
func (t *turns) Touch(item) {}

// Push implements workqueue.Queue.
func (t *turns) Push(i item) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.waiting[i.tenant]
	if of == nil {
		of = &lane{tenant: i.tenant}
		t.waiting[i.tenant] = of
		t.enqueue(of)
	}
	if i.kind.isFirst() {
		of.first = append(of.first, i)
	} else {
		of.later = append(of.later, i)
	}
	t.length++
}

// enqueue puts a tenant at the end of those that have been worked for as long.
func (t *turns) enqueue(of *lane) {
	t.arrived++
	of.arrived = t.arrived
	t.note(of)
	heap.Push(&t.order, of)
}

// note notes what the order of a tenant is by.
func (t *turns) note(of *lane) {
	of.spent = max(t.spent[of.tenant], t.least)
	of.hasShare = t.active[of.tenant] >= t.most
}

// Len implements workqueue.Queue.
func (t *turns) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.length
}

// Pop implements workqueue.Queue: it returns an item of a tenant that has less than its share of the workers, of the
// one for which they have spent the least time or, if all have their share, of the first one.
func (t *turns) Pop() item {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := heap.Pop(&t.order).(*lane)
	t.least = max(t.least, t.spent[of.tenant])
	t.length--
	t.active[of.tenant]++
	next := of.take()
	if len(of.first)+len(of.later) == 0 {
		delete(t.waiting, of.tenant)
	} else {
		t.enqueue(of)
	}
	return next
}

// take returns the item of a tenant whose turn it is.
func (l *lane) take() item {
	from := &l.first
	if len(*from) == 0 {
		from = &l.later
	}
	next := (*from)[0]
	(*from)[0] = item{}
	*from = (*from)[1:]
	return next
}

func (t *turns) finished(n tenant.Name, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spent[n] = max(t.spent[n], t.least) + took
	if t.length == 0 {
		t.spent, t.least = map[tenant.Name]time.Duration{}, 0
	}
	if t.active[n]--; t.active[n] <= 0 {
		delete(t.active, n)
	}
	if of := t.waiting[n]; of != nil {
		t.note(of)
		heap.Fix(&t.order, of.at)
	}
}
