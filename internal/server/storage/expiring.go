package storage

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// expiringBytes is how much a tenant may write at once of objects that expire, and as much again in each expiringPeriod:
	// the time after which events expire by default.
	expiringBytes  = 64 << 20
	expiringPeriod = time.Hour
	// maxWriters is of how many tenants that is remembered, the latest.
	maxWriters = 8192
)

// writer is a tenant, and not the next one of its name. The UID is empty where nobody was admitted.
type writer struct {
	name tenant.Name
	uid  types.UID
}

// EventBudget bounds what tenants store of objects that expire: Events. No quota counts them, because nobody is asked when they go.
type EventBudget struct {
	mu      sync.Mutex
	written *lru.Cache
}

// NewEventBudget returns what nobody has written to yet.
func NewEventBudget() *EventBudget { return &EventBudget{written: lru.New(maxWriters)} }

// take accounts for a write, or refuses it.
func (e *EventBudget) take(by writer, size int64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	of, ok := e.written.Get(by)
	if !ok {
		of = rate.NewLimiter(rate.Limit(expiringBytes/expiringPeriod.Seconds()), expiringBytes)
		e.written.Add(by, of)
	}
	now := time.Now()
	wait := of.(*rate.Limiter).ReserveN(now, int(size))
	if delay := wait.DelayFrom(now); delay > 0 {
		wait.CancelAt(now)
		return apierrors.NewTooManyRequests(fmt.Sprintf("tenant %q has written too many bytes of events, which no quota counts: it may write %d, and as many again in each %v",
			by.name, expiringBytes, expiringPeriod), int(math.Ceil(min(delay, expiringPeriod).Seconds())))
	}
	return nil
}

// expires accounts for a write of an object that expires after ttl seconds, or refuses it. Those that do not are the ledger's.
func (s *Space) expires(ctx context.Context, n tenant.Name, obj runtime.Object, ttl uint64) error {
	if s.expiring == nil || ttl == 0 || !n.IsSpace() {
		return nil
	}
	size, err := s.size(obj)
	if err != nil {
		return err
	}
	uid, _ := tenant.UIDFrom(ctx, n)
	return s.expiring.take(writer{n, uid}, size)
}
