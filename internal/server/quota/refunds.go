package quota

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	quota "k8s.io/apiserver/pkg/quota/v1"
)

// refunds give back what is no longer used, in one write for all that waits for
// one quota. There is a goroutine for a quota while something waits.
type refunds struct {
	subtract func(key types.NamespacedName, freed corev1.ResourceList) error
	// failed is told of a quota that has not got back all.
	failed func(key types.NamespacedName)

	mu sync.Mutex
	// waiting is, by quota that is being written, what comes next.
	waiting map[types.NamespacedName]*batch
}

// batch is what one write gives back.
type batch struct {
	freed corev1.ResourceList
	done  chan struct{}
}

// giveBack returns when a quota has got back what is freed.
func (r *refunds) giveBack(key types.NamespacedName, freed corev1.ResourceList) {
	if len(freed) > 0 {
		<-r.join(key, freed).done
	}
}

func (r *refunds) join(key types.NamespacedName, freed corev1.ResourceList) *batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	next, writing := r.waiting[key]
	if next == nil {
		next = &batch{freed: corev1.ResourceList{}, done: make(chan struct{})}
		if r.waiting == nil {
			r.waiting = make(map[types.NamespacedName]*batch)
		}
		r.waiting[key] = next
	}
	next.freed = quota.Add(next.freed, freed)
	if !writing {
		go r.write(key)
	}
	return next
}

// write writes batches until none is left.
func (r *refunds) write(key types.NamespacedName) {
	for {
		r.mu.Lock()
		next := r.waiting[key]
		if next == nil {
			delete(r.waiting, key)
			r.mu.Unlock()
			return
		}
		r.waiting[key] = nil
		r.mu.Unlock()
		if err := r.subtract(key, next.freed); err != nil && !apierrors.IsNotFound(err) {
			r.failed(key)
		}
		close(next.done)
	}
}
