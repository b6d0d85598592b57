package tenant

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestWaitBeyondTheSecondOfADeletion(t *testing.T) {
	for name, tc := range map[string]struct {
		deleted string
		ends    bool // the context
		want    time.Duration
	}{
		"in this second":    {deleted: "2000-01-01T00:00:00Z", want: 600 * time.Millisecond},
		"in the last":       {deleted: "1999-12-31T23:59:59Z"},
		"by a clock ahead":  {deleted: "2000-01-01T00:10:00Z", want: time.Second},
		"nobody waits":      {deleted: "2000-01-01T00:00:00Z", ends: true},
		"no time is stored": {deleted: "yesterday"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // begins at 2000-01-01T00:00:00Z
				<-time.After(400 * time.Millisecond)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tc.ends {
					cancel()
				}
				began := time.Now()
				waitBeyond(ctx, tc.deleted)
				if waited := time.Since(began); waited != tc.want {
					t.Errorf("waited %v, want %v", waited, tc.want)
				}
			})
		})
	}
}
