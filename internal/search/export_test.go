package search

import "context"

// awaited waits until somebody waits, or ctx ends.
func (r *reached) awaited(ctx context.Context) {
	for !r.Awaited() && ctx.Err() == nil {
	}
}
