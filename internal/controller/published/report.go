package published

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tenantry/tenantry/internal/controller/conditions"
	"github.com/tenantry/tenantry/internal/tenant"
)

// report is how far a published object is copied.
type report struct {
	mu     sync.Mutex
	spaces int
	counts map[outcome]int
	// worked is true if any outcome took a request.
	worked bool
	// keptIn and waiting are the spaces where the tenant's own object is kept, and
	// where something has to go or to come first.
	keptIn, waiting []tenant.Name
	failed          []failure
}

// failure is why a space has no copy.
type failure struct {
	tenant tenant.Name
	err    error
}

func newReport(spaces int) *report { return &report{spaces: spaces, counts: map[outcome]int{}} }

func (r *report) add(n tenant.Name, result outcome, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.failed = append(r.failed, failure{n, err})
		return
	}
	r.counts[result]++
	switch result {
	case kept:
		r.keptIn = append(r.keptIn, n)
	case pending:
		r.waiting = append(r.waiting, n)
	}
}

// err returns an error if something failed that may succeed when it is tried
// again.
func (r *report) err() error {
	for _, f := range r.failed {
		if !isPermanent(f.err) {
			return fmt.Errorf("in %d of %d spaces, such as that of tenant %q: %w", len(r.failed), r.spaces, f.tenant, f.err)
		}
	}
	return nil
}

// problems says what keeps spaces from having a copy, empty if nothing does.
func (r *report) problems() string {
	var parts []string
	if len(r.keptIn) > 0 {
		slices.Sort(r.keptIn)
		parts = append(parts, fmt.Sprintf("%d have an object of their own there, which is kept (%s)",
			len(r.keptIn), conditions.Enumerate(r.keptIn)))
	}
	slices.SortFunc(r.failed, func(a, b failure) int { return cmp.Compare(a.tenant, b.tenant) })
	byReason := map[string][]tenant.Name{}
	var reasons []string
	for _, f := range r.failed {
		reason := f.err.Error()
		if byReason[reason] == nil {
			reasons = append(reasons, reason)
		}
		byReason[reason] = append(byReason[reason], f.tenant)
	}
	for _, reason := range reasons[:min(len(reasons), conditions.Named)] {
		parts = append(parts, fmt.Sprintf("%d failed (%s): %s", len(byReason[reason]), conditions.Enumerate(byReason[reason]), reason))
	}
	if more := len(reasons) - conditions.Named; more > 0 {
		parts = append(parts, fmt.Sprintf("%d failed for other reasons", more))
	}
	return strings.Join(parts, "; ")
}

// String is the status that administrators read.
func (r *report) String() string {
	text := fmt.Sprintf("copied to %d of %d spaces", r.counts[current], r.spaces)
	if len(r.waiting) > 0 {
		slices.Sort(r.waiting)
		text += fmt.Sprintf("; %d wait for a namespace, or for what is there to be deleted (%s)", len(r.waiting), conditions.Enumerate(r.waiting))
	}
	if problems := r.problems(); problems != "" {
		text += "; " + problems
	}
	return text
}
