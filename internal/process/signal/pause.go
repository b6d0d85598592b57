package signal

import (
	"context"
	"time"
)

// Pause waits for a time, or until ctx ends, whose error it returns then.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
