package quota

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	quota "k8s.io/apiserver/pkg/quota/v1"

	"github.com/tenantry/tenantry/internal/tenant"
)

// returns gives back what is no longer used, in one write for all that waits for
// one tenant. There is a goroutine for a tenant while something waits.
type returns struct {
	subtract func(n tenant.Name, freed corev1.ResourceList) error
	// failed is told of a tenant that has not got back all.
	failed func(n tenant.Name)

	mu sync.Mutex
	// waiting is, by tenant that is being written to, what comes next.
	waiting map[tenant.Name]*batch
}

// batch is what one write gives back.
type batch struct {
	freed corev1.ResourceList
	done  chan struct{}
}

// giveBack returns when the quota of n has got back what is freed.
func (r *returns) giveBack(n tenant.Name, freed corev1.ResourceList) {
	<-r.join(n, freed).done
}

func (r *returns) join(n tenant.Name, freed corev1.ResourceList) *batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	next, writing := r.waiting[n]
	if next == nil {
		next = &batch{freed: corev1.ResourceList{}, done: make(chan struct{})}
		if r.waiting == nil {
			r.waiting = make(map[tenant.Name]*batch)
		}
		r.waiting[n] = next
	}
	next.freed = quota.Add(next.freed, freed)
	if !writing {
		go r.write(n)
	}
	return next
}

// write writes batches until none is left.
func (r *returns) write(n tenant.Name) {
	for {
		r.mu.Lock()
		next := r.waiting[n]
		if next == nil {
			delete(r.waiting, n)
			r.mu.Unlock()
			return
		}
		r.waiting[n] = nil
		r.mu.Unlock()
		if err := r.subtract(n, next.freed); err != nil && !apierrors.IsNotFound(err) {
			r.failed(n)
		}
		close(next.done)
	}
}
