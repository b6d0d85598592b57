package search

import "context"

// awaited waits until somebody waits, or ctx ends.
func (r *reached) awaited(ctx context.Context) {
	for waits := false; !waits && ctx.Err() == nil; {
		r.mu.Lock()
		waits = r.next != nil
		r.mu.Unlock()
	}
}
