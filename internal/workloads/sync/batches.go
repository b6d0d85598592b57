package sync

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"

	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// batchPeriod is how long changes of the slices of a Service wait for each other. The first one after that time
	// goes at once.
	batchPeriod = time.Second
	// maxLabelSets is how many sets of labels are known that a pod has had: beyond, the slices of all Services of its
	// namespace are looked at.
	maxLabelSets = 8
)

// batches has the slices of a Service wait that have been looked at of late, so that changes of pods that follow each
// other are one. It knows those of the last while.
type batches struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	byItem map[item]batch
	swept  time.Time
}

// batch says when slices were last looked at, and whether they are to be again.
type batch struct {
	at    time.Time
	waits bool
}

func newBatches(c clock.PassiveClock) *batches { return &batches{clock: c, byItem: map[item]batch{}} }

// next returns after which time slices are to be looked at, unless they wait for that already.
func (b *batches) next(i item) (after time.Duration, waits bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	of := b.byItem[i]
	b.byItem[i] = batch{of.at, true}
	return batchPeriod - b.clock.Since(of.at), of.waits
}

// begin says that slices are looked at, for all that has changed until now.
func (b *batches) begin(i item) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if of := b.byItem[i]; b.isOver(of) {
		delete(b.byItem, i)
	} else {
		b.byItem[i] = batch{at: of.at}
	}
}

// note says that slices are compared with their pods, and forgets old ones.
func (b *batches) note(i item) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.Now()
	b.byItem[i] = batch{now, b.byItem[i].waits}
	if now.Sub(b.swept) > time.Minute {
		b.swept = now
		maps.DeleteFunc(b.byItem, func(_ item, of batch) bool { return !of.waits && b.isOver(of) })
	}
}

func (b *batches) isOver(of batch) bool { return b.clock.Since(of.at) >= batchPeriod }

func (b *batches) forget(i item) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.byItem, i)
}

// enqueueSlices has the slices of a Service looked at: at once, or with the next changes if they have been of late.
func (s *syncer) enqueueSlices(i item) {
	if !i.tenant.IsSpace() {
		return
	}
	if after, waits := s.batches.next(i); !waits {
		s.queue.AddAfter(i, after)
	}
}

// selected knows the labels that pods have had since it was last looked at which Services select them.
type selected struct {
	keyed.Values[item, []labels.Set]
}

// note notes labels that a pod had. Nil stands for all that there are.
func (s *selected) note(i item, had labels.Set) {
	s.Change(i, func(before []labels.Set) []labels.Set {
		if slices.ContainsFunc(before, func(set labels.Set) bool { return set == nil || maps.Equal(set, had) }) {
			return before
		}
		if len(before) == maxLabelSets {
			before, had = nil, nil
		}
		return append(before, had)
	})
}

// enqueueSelectors has the slices looked at of the Services that have selected a pod of a space by labels that it had,
// or that do now.
func (s *syncer) enqueueSelectors(i item, had labels.Set) {
	if !i.tenant.IsSpace() {
		return
	}
	if len(had) > 0 { // otherwise none has
		s.selected.note(i, had)
	}
	s.queue.Add(i)
}

// enqueueSelecting has the slices looked at for which an item of enqueueSelectors stands.
func (s *syncer) enqueueSelecting(i item) error {
	had := s.selected.Delete(i)
	pod, err := orNil(s.pods.Pods(i.namespace.String()).Get(i.name))
	if err != nil {
		return err
	}
	if pod != nil && len(pod.Labels) > 0 {
		had = append(had, pod.Labels)
	}
	services, err := s.services.Services(i.namespace.String()).List(labels.Everything())
	for _, service := range services {
		selector := labels.ValidatedSetSelector(service.Spec.Selector)
		if leads(service) && slices.ContainsFunc(had, func(set labels.Set) bool { return set == nil || selector.Matches(set) }) {
			s.enqueueSlices(itemFor(slicesItem, tenant.Flat(service.Namespace), service.Name))
		}
	}
	return err
}
