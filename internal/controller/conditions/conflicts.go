package conditions

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Conflicts paces what is tried again after conflicts, for which the cache is behind, or a server that conflicts
// always. It counts those that each object has had in a row.
type Conflicts struct {
	limiter workqueue.TypedRateLimiter[reconcile.Request]
}

// NewConflicts returns a pace that begins with a period, and doubles it up to a limit.
func NewConflicts(period, limit time.Duration) Conflicts {
	return Conflicts{workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](period, limit)}
}

// Again returns when to try again.
func (c Conflicts) Again(request reconcile.Request) reconcile.Result {
	return reconcile.Result{RequeueAfter: c.limiter.When(request)}
}

// Forget is called when there has been no conflict.
func (c Conflicts) Forget(request reconcile.Request) { c.limiter.Forget(request) }
