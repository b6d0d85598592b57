package quota

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	quota "k8s.io/apiserver/pkg/quota/v1"
)

// refunds give back what is no longer used, in one write for all that waits for
// one quota. There is a goroutine for a quota while something waits.
type refunds struct {
	subtract func(from ref, freed corev1.ResourceList) error
	// failed is called with a quota that has not got back all.
	failed func(from ref)

	mu sync.Mutex
	// waiting is, by quota that is being written, what comes next.
	waiting map[ref]*batch
}

// batch is what one write gives back.
type batch struct {
	freed corev1.ResourceList
	done  chan struct{}
}

// giveBack returns when a quota has got back what is freed.
func (r *refunds) giveBack(to ref, freed corev1.ResourceList) {
	if len(freed) > 0 {
		<-r.join(to, freed).done
	}
}

func (r *refunds) join(to ref, freed corev1.ResourceList) *batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	next, writing := r.waiting[to]
	if next == nil {
		next = &batch{freed: corev1.ResourceList{}, done: make(chan struct{})}
		if r.waiting == nil {
			r.waiting = make(map[ref]*batch)
		}
		r.waiting[to] = next
	}
	next.freed = quota.Add(next.freed, freed)
	if !writing {
		go r.write(to)
	}
	return next
}

// write writes batches until none is left.
func (r *refunds) write(to ref) {
	for {
		r.mu.Lock()
		next := r.waiting[to]
		if next == nil {
			delete(r.waiting, to)
			r.mu.Unlock()
			return
		}
		r.waiting[to] = nil
		r.mu.Unlock()
		if err := r.subtract(to, next.freed); err != nil && !apierrors.IsNotFound(err) {
			r.failed(to)
		}
		close(next.done)
	}
}
