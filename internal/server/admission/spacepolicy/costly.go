package spacepolicy

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/admission"

	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/tenant"
)

// costly bounds what objects of a kind cost, in fields that are all numbers.
type costly[C any] struct {
	bounds costBounds[C]
	// there returns what those cost that are known of in a space, by their keys, in a map that the caller may change.
	there func(n tenant.Name) map[string]C

	mu sync.Mutex
	// pending are objects that were admitted a short while ago. A webhook of their space may hold many between admission
	// and the write, and those that are written are known of a moment later.
	pending map[tenant.Name]map[*admitted[C]]bool
}

// costBounds are those of each object, and of all in a space.
type costBounds[C any] struct{ each, all []costBound[C] }

// costBound is the most of one of the costs. text is what users are told of more, with both numbers.
type costBound[C any] struct {
	of   func(C) int
	most int
	text string
}

type admitted[C any] struct {
	key   string
	costs C
}

// pendingTime is how long an object is pending after its request has ended.
const pendingTime = 10 * time.Second

// check refuses an object that costs more than before in what is beyond a bound then, and notes any other.
func (l *costly[C]) check(ctx context.Context, a admission.Attributes, n tenant.Name, key string, costs, before C) error {
	grows := func(b costBound[C]) bool { return b.of(costs) > b.of(before) }
	exceeded := func(bounds []costBound[C], by C) error {
		if i := slices.IndexFunc(bounds, func(b costBound[C]) bool { return grows(b) && b.of(by) > b.most }); i >= 0 {
			return forbidden(a, fmt.Sprintf(bounds[i].text, bounds[i].of(by), bounds[i].most))
		}
		return nil
	}
	if err := exceeded(l.bounds.each, costs); err != nil || l.there == nil || !slices.ContainsFunc(l.bounds.all, grows) {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	others, with := l.there(n), costs
	l.include(n, others)
	delete(others, key)
	for _, other := range others {
		combine(&with, other, func(a, b int64) int64 { return a + b })
	}
	if err := exceeded(l.bounds.all, with); err != nil {
		return err
	}
	if !a.IsDryRun() && a.GetName() != "" { // a name that is generated is known when it is validated
		l.add(ctx, n, key, costs)
	}
	return nil
}

// combine replaces each of some costs by what of makes of it and of that of others.
func combine[C any](costs *C, others C, of func(a, b int64) int64) {
	to, from := reflect.ValueOf(costs).Elem(), reflect.ValueOf(others)
	for i := range to.NumField() {
		to.Field(i).SetInt(of(to.Field(i).Int(), from.Field(i).Int()))
	}
}

// include adds what is pending in a space to what is there. Of objects with one key the largest counts, in each
// respect: a write may have no effect. It is called with the lock.
func (l *costly[C]) include(n tenant.Name, all map[string]C) {
	for object := range l.pending[n] {
		largest := all[object.key]
		combine(&largest, object.costs, func(a, b int64) int64 { return max(a, b) })
		all[object.key] = largest
	}
}

// add notes an object until some time after its request. It is called with the lock.
func (l *costly[C]) add(ctx context.Context, n tenant.Name, key string, costs C) {
	if l.pending == nil {
		l.pending = map[tenant.Name]map[*admitted[C]]bool{}
	}
	object := &admitted[C]{key, costs}
	keyed.Set(l.pending, n, object, true)
	context.AfterFunc(ctx, func() { time.AfterFunc(pendingTime, func() { l.remove(n, object) }) })
}

func (l *costly[C]) remove(n tenant.Name, object *admitted[C]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	keyed.Delete(l.pending, n, object)
}
