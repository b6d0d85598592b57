package search

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/internal/process/signal"
	"github.com/tenantry/tenantry/internal/search/index"
	"github.com/tenantry/tenantry/internal/server/storage"
	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// queueBytes is how much of objects waits for the index. What is more is let go, of the space that has the most,
	// and read again when it is written: the stream never waits, because rights come by it.
	queueBytes = 64 << 20
	// jobBytes is what a job takes beside its object and its key, about.
	jobBytes = 300
	// batch is how many changes are written in one transaction, and turnWeight how many properties they have, about, as
	// far as it is known: who comes meanwhile waits for it. Time bounds no transaction, because each takes some,
	// whatever is written in it: the longer that is, the more is to be written at once.
	batch      = 2000
	turnWeight = 10_000
	// firstCost is what a change of a space takes, and firstWeight how many properties it has, before one was written.
	// leastCost is what each takes at least.
	firstCost   = time.Millisecond
	firstWeight = 100
	leastCost   = time.Microsecond
	// maxBehind is of how many spaces the index says by itself how far they are.
	maxBehind = 1000
	// listedAt stands before the revisions of all changes, for what there was when the stream began.
	listedAt int64 = 1
)

// queue has the changes that wait for the index, in a lane for each space. The lane that has taken the least time is
// the next, so that who writes much, or what takes long, waits for itself. Nothing stays for spaces without changes.
type queue struct {
	mu    sync.Mutex
	lanes map[tenant.Name]*lane
	// ready are the lanes with jobs that nobody writes yet.
	ready ready
	// size is that of all lanes.
	size int
	// now is what the lane had spent whose turn was last. A lane that comes has spent as much.
	now time.Duration
	// idle is a revision behind which no lane that has gone has had a change.
	idle int64
	// filled and emptied tell that there is something in the queue, and room in it.
	filled, emptied signal.Flag
}

// lane has the changes of one space, in their order.
type lane struct {
	name tenant.Name
	// jobs wait, and taken are being written. They were before the others.
	jobs, taken []*job
	// size is how many bytes of memory jobs have that can be let go.
	size int
	// shed are the jobs by their keys, if their objects were let go. It is nil otherwise.
	shed map[string]*job
	// last is the revision of the last change, and unsure that of the last one that may be of the system space.
	last, unsure int64
	// spent is for how long the lane was written, cost what one of its changes takes, as measured, and weight how many
	// properties one has.
	spent, cost time.Duration
	weight      int
}

// job is a change to be written.
type job struct {
	change *storage.StoredChange
	object runtime.Object // decoded already, or nil
	// since is the revision at which the first change was that it stands for.
	since int64
	size  int
}

func newQueue() *queue {
	return &queue{lanes: map[tenant.Name]*lane{}, filled: signal.NewFlag(), emptied: signal.NewFlag()}
}

// laneOf returns the lane of a change. What all spaces see has one of its own, and is never behind anything else: how
// other objects are read depends on it. Tenants write nothing of it.
func laneOf(change *storage.StoredChange) (n tenant.Name, sure bool) {
	if isShared(change) {
		return index.Shared, true
	}
	return change.Space()
}

// isShared reports whether a change may be one of what all spaces see.
func isShared(change *storage.StoredChange) bool {
	return !change.Custom && change.Object.Space == tenant.System && (change.Resource == clusterRoles || change.Resource == definitions ||
		storage.IsService(objects.Ref{Resource: change.Resource, Namespace: change.Object.Namespace, Name: change.Object.Name}))
}

// add adds a change, decoded if it was.
func (q *queue) add(change *storage.StoredChange, object runtime.Object, since int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, sure := laneOf(change)
	l := q.lanes[n]
	if l == nil {
		l = &lane{name: n, cost: firstCost, weight: firstWeight}
		q.lanes[n] = l
	}
	l.last = max(l.last, change.Revision)
	if !sure {
		l.unsure = l.last
	}
	j := &job{change: change, object: object, since: since, size: jobBytes + len(change.Key) + change.Bytes()}
	if l.shed != nil {
		if known := l.shed[change.Key]; known != nil { // is read as it is then
			known.change.Revision = change.Revision
			return
		}
		j.drop()
		l.shed[change.Key] = j
	}
	l.size += j.size
	q.size += j.size
	if l.jobs = append(l.jobs, j); len(l.jobs) == 1 {
		l.spent = max(l.spent, q.now)
		heap.Push(&q.ready, l)
	}
	if since != listedAt && q.size > queueBytes {
		q.shed()
	}
	q.wake()
}

// drop lets the object of a job go.
func (j *job) drop() {
	j.change.Drop()
	j.object, j.size = nil, 0
}

// shed lets the objects of the largest lane go. Of each key one job stays, the first: it writes the object as it is
// then.
func (q *queue) shed() {
	var largest *lane
	for _, l := range q.lanes {
		if largest == nil || l.size > largest.size {
			largest = l
		}
	}
	largest.shed = make(map[string]*job, len(largest.jobs))
	kept := largest.jobs[:0]
	for _, j := range largest.jobs {
		j.drop()
		if first := largest.shed[j.change.Key]; first != nil {
			first.change.Revision = j.change.Revision
			continue
		}
		largest.shed[j.change.Key] = j
		kept = append(kept, j)
	}
	clear(largest.jobs[len(kept):])
	largest.jobs = kept
	q.size -= largest.size
	largest.size = 0
}

// room waits until there is room for more.
func (q *queue) room(ctx context.Context) error {
	for {
		q.mu.Lock()
		full := q.size > queueBytes
		q.mu.Unlock()
		if !full {
			return nil
		}
		select {
		case <-q.emptied:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// wake has the writer look for what there is to do.
func (q *queue) wake() { q.filled.Raise() }

// take returns the lanes whose turn it is, with what is to be written of each.
func (q *queue) take() []*lane {
	q.mu.Lock()
	defer q.mu.Unlock()
	var turn []*lane
	left := turnWeight
	for n := 0; n < batch && left > 0 && len(q.ready) > 0; n++ {
		l := q.ready[0]
		if len(l.taken) == 0 {
			turn = append(turn, l)
		}
		j := l.jobs[0]
		l.jobs[0] = nil
		l.jobs, l.taken = l.jobs[1:], append(l.taken, j)
		l.size -= j.size
		q.size -= j.size
		delete(l.shed, j.change.Key)
		left -= l.weight
		if l.name != index.Shared {
			q.now = max(q.now, l.spent)
			l.spent += l.cost
		}
		if len(l.jobs) > 0 {
			heap.Fix(&q.ready, 0)
		} else {
			heap.Pop(&q.ready)
			l.jobs, l.shed = nil, nil
		}
	}
	q.emptied.Raise()
	return turn
}

// done says that what was taken is written, how long that took of each lane, and how many properties it had.
func (q *queue) done(turn []*lane, took []time.Duration, weights []int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, l := range turn {
		n := time.Duration(len(l.taken))
		if l.name != index.Shared {
			l.spent += took[i] - n*l.cost
		}
		l.cost = max((l.cost+took[i]/n)/2, leastCost)
		// An object that goes has none, and takes as long as it took to write those that it had: so a lane becomes
		// lighter slowly.
		l.weight = max(weights[i]/len(l.taken), l.weight-l.weight/20, 1)
		l.taken = nil
	}
	heap.Init(&q.ready)
	q.tidy()
}

// tidy forgets the lanes in which nothing is, but for those that have spent more than others.
func (q *queue) tidy() {
	for n, l := range q.lanes {
		if len(l.jobs)+len(l.taken) == 0 && (len(q.ready) == 0 || l.spent <= q.now) {
			q.idle = max(q.idle, l.last)
			delete(q.lanes, n)
		}
	}
}

// begin says that the stream has told of everything up to a revision, of which changes do not say it.
func (q *queue) begin(revision int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.idle = max(q.idle, revision)
}

// since returns the revision of the first change of the lane that is not written, zero if there is none.
func (l *lane) since() int64 {
	for _, jobs := range [][]*job{l.taken, l.jobs} {
		if len(jobs) > 0 {
			return jobs[0].since
		}
	}
	return 0
}

// concerns reports whether changes of the lane, from a revision on, may be ones of what a space has.
func (l *lane) concerns(space tenant.Name, from int64) bool {
	return l.name == space || l.name == index.Shared || space == tenant.System && l.unsure >= from && l.unsure > 0
}

// missing returns the revision of the first change of a space that is not written, zero if there is none.
func (q *queue) missing(space tenant.Name) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	first := int64(0)
	for _, l := range q.lanes {
		if since := l.since(); since > 0 && l.concerns(space, since) && (first == 0 || since < first) {
			first = since
		}
	}
	return first
}

// last returns a revision behind which there is no change of a space.
func (q *queue) last(space tenant.Name) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	last := q.idle
	for _, l := range q.lanes {
		if l.concerns(space, 0) {
			last = max(last, l.last)
		}
	}
	return last
}

// behind returns the lanes of which something is left when all that is taken is written, the ones that are the farthest
// behind first.
func (q *queue) behind() []index.Behind {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := make([]index.Behind, 0, len(q.ready))
	for _, l := range q.ready {
		since := l.jobs[0].since
		all = append(all, index.Behind{Space: l.name, Revision: since - 1, Unsure: l.unsure >= since})
	}
	slices.SortFunc(all, func(a, b index.Behind) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.Space, b.Space))
	})
	return all
}

// forget drops what the index has.
func (q *queue) forget(p *index.Progress) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.lanes {
		written, kept := p.Of(l.name), l.jobs[:0]
		for _, j := range l.jobs {
			if j.change.Revision > written {
				kept = append(kept, j)
				continue
			}
			l.size -= j.size
			q.size -= j.size
			delete(l.shed, j.change.Key)
		}
		clear(l.jobs[len(kept):])
		if l.jobs = kept; len(kept) == 0 {
			l.shed = nil
		}
	}
	q.ready = slices.DeleteFunc(q.ready, func(l *lane) bool { return len(l.jobs) == 0 })
	heap.Init(&q.ready)
	q.tidy()
}

// isEmpty reports whether everything is written.
func (q *queue) isEmpty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.lanes {
		if l.since() > 0 {
			return false
		}
	}
	return true
}

// ready are lanes in the order of their turns, as a heap.
type ready []*lane

// Len implements heap.Interface.
func (r ready) Len() int { return len(r) }

// Less implements heap.Interface.
func (r ready) Less(i, j int) bool {
	if r[i].name == index.Shared || r[j].name == index.Shared {
		return r[i].name == index.Shared && r[j].name != index.Shared
	}
	return r[i].spent < r[j].spent
}

// Swap implements heap.Interface.
func (r ready) Swap(i, j int) { r[i], r[j] = r[j], r[i] }

// Push implements heap.Interface.
func (r *ready) Push(l any) { *r = append(*r, l.(*lane)) } // there is no other type

// Pop implements heap.Interface.
func (r *ready) Pop() any {
	last := len(*r) - 1
	l := (*r)[last]
	(*r)[last] = nil
	*r = (*r)[:last]
	return l
}
