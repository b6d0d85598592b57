package storage

import (
	"context"
	"fmt"
	"math"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/internal/process/ratelimit"
	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// expiringBytes is how much a tenant may write at once of objects that expire, and as much again in each
	// expiringPeriod: the time after which events expire by default.
	expiringBytes  = 64 << 20
	expiringPeriod = time.Hour
)

// writer is a tenant, and not the next one of its name. The UID is empty where nobody was admitted.
type writer struct {
	name tenant.Name
	uid  types.UID
}

// EventBudget bounds what tenants store of objects that expire: Events. No quota counts them, because nobody is asked
// when they go.
type EventBudget struct{ written ratelimit.Limits[writer] }

// NewEventBudget returns what nobody has written to yet.
func NewEventBudget() *EventBudget {
	return &EventBudget{ratelimit.Limits[writer]{PerSecond: rate.Limit(expiringBytes / expiringPeriod.Seconds()), AtOnce: expiringBytes}}
}

// take accounts for a write, or refuses it.
func (e *EventBudget) take(by writer, size int64) error {
	wait := e.written.Take(time.Now(), by, int(size))
	if wait == 0 {
		return nil
	}
	return apierrors.NewTooManyRequests(fmt.Sprintf("tenant %q has written too many bytes of events, which no quota counts: it may write %d, and as many again in each %v",
		by.name, expiringBytes, expiringPeriod), int(math.Ceil(min(wait, expiringPeriod).Seconds())))
}

// expires accounts for a write of an object that expires after ttl seconds, or refuses it. Those that do not are the
// ledger's.
func (s *Space) expires(ctx context.Context, n tenant.Name, obj runtime.Object, ttl uint64) error {
	if s.options.Events == nil || ttl == 0 || !n.IsSpace() {
		return nil
	}
	size, err := s.size(obj)
	if err != nil {
		return err
	}
	uid, _ := tenant.UIDFrom(ctx, n)
	return s.options.Events.take(writer{n, uid}, size)
}
