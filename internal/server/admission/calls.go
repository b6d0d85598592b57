package admission

import (
	"context"
	"fmt"

	"golang.org/x/sync/semaphore"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/process/memory"
	"github.com/tenantry/tenantry/internal/tenant"
)

// callBytes is how many bytes the calls of a space's validating webhooks hold at once. Upstream calls all that a write matches
// together, and encodes the object, and what it was, for each of them.
const callBytes = 128 << 20

// calls are those of the validating webhooks of spaces.
type calls struct {
	of keyed.Map[tenant.Name, *semaphore.Weighted]
}

// begin waits until the calls for a write have room beside those for others of the space, and returns what to call when they have ended.
// A write that takes more than all the room is alone.
func (c *calls) begin(ctx context.Context, n tenant.Name, bytes int) (end func(), err error) {
	room, _, leave := c.of.Use(n, func() *semaphore.Weighted { return semaphore.NewWeighted(callBytes) })
	taken := int64(min(bytes, callBytes))
	if err := room.Acquire(ctx, taken); err != nil {
		leave()
		return nil, errors.NewTooManyRequests(fmt.Sprintf("calls of the space's webhooks hold %d MiB, which is as much as they may: "+
			"write fewer large objects at once, or have fewer webhooks", callBytes>>20), 1)
	}
	return func() { room.Release(taken); leave() }, nil
}

// webhookBytes returns about how many bytes the calls for a write hold, if it matches all validating webhooks of the space.
func (s *shared) webhookBytes(n tenant.Name, a admission.Attributes) int {
	count := 0
	for _, obj := range s.views.Of(n).Admissionregistration().V1().ValidatingWebhookConfigurations().Informer().GetIndexer().List() {
		if configuration, ok := obj.(*admissionregistrationv1.ValidatingWebhookConfiguration); ok {
			count += len(configuration.Webhooks)
		}
	}
	return count * (memory.Of(a.GetObject()) + memory.Of(a.GetOldObject()))
}
