package admission

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"

	"golang.org/x/sync/semaphore"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/process/memory"
	"github.com/tenantry/tenantry/internal/process/stack"
	"github.com/tenantry/tenantry/internal/server/egress"
	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// callRoom is how many bytes the calls of a space's validating webhooks hold at once. Upstream calls all that a
	// write matches together, and encodes the object, and what it was, for each of them. Calls of up to smallCall have
	// as much for themselves, so that they do not wait behind large ones.
	callRoom  = 64 << 20
	smallCall = 512 << 10
	// callCopies is how often a call has in memory what it sends: as JSON of the object, in the review, and as the body.
	callCopies = 5
	// escaped is how many bytes of JSON a byte can become.
	escaped = 6
	// conversionRoom is how much memory the objects of a space take that are converted for its validating webhooks at
	// once. Upstream converts one to each version that a webhook is for, before it calls any.
	conversionRoom = 64 << 20
	// conversionGrowth is how many times as much an object takes that a conversion webhook has made: about what egress
	// lets it.
	conversionGrowth = 4
)

// calls are those of the validating webhooks of spaces.
type calls struct {
	of keyed.Map[tenant.Name, rooms]
}

// rooms are those for large and for small calls, and for what is converted.
type rooms struct{ large, small, converted *semaphore.Weighted }

func newRooms() rooms {
	return rooms{semaphore.NewWeighted(callRoom), semaphore.NewWeighted(callRoom), semaphore.NewWeighted(conversionRoom)}
}

// acquire waits for room as long as a call may take.
func acquire(ctx context.Context, room *semaphore.Weighted, bytes int64) bool {
	if limit := egress.CallTimeout(ctx); limit > 0 {
		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		ctx = limited
	}
	return room.Acquire(ctx, bytes) == nil
}

// bounded validates a write, of which so many bytes of memory are converted. It waits until there is room for them, and
// each of its calls until there is room beside those for this and other writes of the space; what takes more than all
// the room is alone.
func (c *calls) bounded(ctx context.Context, n tenant.Name, a admission.Attributes, converted int64, validate func(context.Context, admission.Attributes) error) error {
	rooms, _, leave := c.of.Use(n, newRooms)
	defer leave()
	if converted = min(converted, conversionRoom); converted > smallCall {
		if !acquire(ctx, rooms.converted, converted) {
			return apierrors.NewTooManyRequests("webhooks of the space are called for other large objects, which are converted to all versions of their definitions; try again", 1)
		}
		defer rooms.converted.Release(converted)
	}
	w := &called{Attributes: a, ctx: ctx, rooms: rooms, size: sync.OnceValue(func() int64 { return min(callCopies*sentBytes(a), callRoom) })}
	defer w.end()
	return validate(egress.WithCallEnd(ctx, w.give), w)
}

// called are the attributes of a write that webhooks are called for.
type called struct {
	admission.Attributes
	ctx   context.Context
	rooms rooms
	size  func() int64 // of one call

	mu    sync.Mutex
	calls int64 // that have room
}

// requests is the package that makes what a webhook is asked, once for each call, before it is encoded.
const requests = "k8s.io/apiserver/pkg/admission/plugin/webhook/request."

// GetUserInfo implements admission.Attributes. It is asked for each call, in a goroutine of its own. That ends here if
// the request has ended; upstream's handler of panics makes an error of it.
func (c *called) GetUserInfo() user.Info {
	if stack.Within(requests) && !c.take() {
		panic(http.ErrAbortHandler)
	}
	return c.Attributes.GetUserInfo()
}

func (c *called) room() *semaphore.Weighted {
	if c.size() <= smallCall {
		return c.rooms.small
	}
	return c.rooms.large
}

// take waits for room.
func (c *called) take() bool {
	if !acquire(c.ctx, c.room(), c.size()) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	return true
}

// give gives back the room of a call that has ended.
func (c *called) give() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls > 0 {
		c.calls--
		c.room().Release(c.size())
	}
}

// end gives back the room of calls that have come to nothing before anything was sent.
func (c *called) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls > 0 {
		c.room().Release(c.calls * c.size())
		c.calls = 0
	}
}

// conversionBytes returns about how much memory it takes to convert a write in the space of n to all other versions of
// its definition.
func (s *shared) conversionBytes(n tenant.Name, a admission.Attributes) (bytes int64) {
	for _, obj := range []runtime.Object{a.GetObject(), a.GetOldObject()} {
		if custom, ok := obj.(*unstructured.Unstructured); ok {
			bytes += int64(memory.Of(custom))
		}
	}
	if bytes == 0 || s.Definition == nil {
		return 0
	}
	definition, err := s.Definition(n, a.GetResource().GroupResource())
	if err != nil {
		return 0 // and not served
	}
	if bytes *= int64(len(definition.Spec.Versions) - 1); definition.Spec.Conversion != nil && definition.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter {
		bytes *= conversionGrowth
	}
	return bytes
}

// sentBytes returns about how many bytes a webhook is sent.
func sentBytes(a admission.Attributes) int64 {
	var sent counter
	for _, obj := range []runtime.Object{a.GetObject(), a.GetOldObject()} {
		if obj != nil && json.NewEncoder(&sent).Encode(obj) != nil {
			sent += counter(escaped * memory.Of(obj))
		}
	}
	return int64(sent)
}

// counter counts what is written.
type counter int64

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
