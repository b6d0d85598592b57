package election

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Timing says how long a lease is good. Zero values are defaults, which are those of Kubernetes.
type Timing struct {
	// Lease is how long others wait for the next renewal before they take the lease over: 15 seconds. It is
	// written in whole seconds.
	Lease time.Duration
	// RenewDeadline is after how long without a renewal the work is told to end: 10 seconds. What is left of
	// Lease is for it to end.
	RenewDeadline time.Duration
	// RetryPeriod is how often the lease is renewed, and asked for: 2 seconds.
	RetryPeriod time.Duration
	// Grace is how long work that was told to end is waited for: 30 seconds.
	Grace time.Duration
}

func (t Timing) orDefaults() Timing {
	return Timing{
		Lease:         cmp.Or(t.Lease, 15*time.Second),
		RenewDeadline: cmp.Or(t.RenewDeadline, 10*time.Second),
		RetryPeriod:   cmp.Or(t.RetryPeriod, 2*time.Second),
		Grace:         cmp.Or(t.Grace, 30*time.Second),
	}
}

// Config says which lease is asked for, and how.
type Config struct {
	// Client reaches the Lease. It is not one behind Term.Fence.
	Client          kubernetes.Interface
	Namespace, Name string
	// Identity tells those who ask for the lease apart. A process that asks again by the same one need not wait until
	// the lease that it has lost is over. It is from NewIdentity, which is the default.
	Identity string
	Timing   Timing
	// From is closed when the lease may be taken, nil if it may at once. Until then it is watched, so that one whose
	// holder is gone is not waited for twice as long by those that need another lease first.
	From <-chan struct{}
}

// NewIdentity returns an identity that no other process has.
func NewIdentity() string { return string(uuid.NewUUID()) }

// ErrLost is of a process that must not go on with what it has held the lease for.
var ErrLost = errors.New("the lease was lost")

// Run waits for the lease, and does the work once, until ctx ends or the lease is lost: the context of the work ends
// then. It returns the error of the work; ErrLost if the lease was lost; or the error of ctx. The work has ended by
// then, unless it took longer than Timing.Grace.
func Run(ctx context.Context, c Config, work func(context.Context, *Term) error) error {
	c.Timing, c.Identity = c.Timing.orDefaults(), cmp.Or(c.Identity, NewIdentity())
	lease, err := resourcelock.New(resourcelock.LeasesResourceLock, c.Namespace, c.Name, c.Client.CoreV1(), c.Client.CoordinationV1(),
		resourcelock.ResourceLockConfig{Identity: c.Identity})
	if err != nil {
		return fmt.Errorf("creating the lease %s/%s: %w", c.Namespace, c.Name, err)
	}
	// The lease is renewed until the work has ended, also when ctx has.
	electing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	term := newTerm(ctx, c.Timing)
	defer term.close()
	defer context.AfterFunc(ctx, func() {
		if !term.isHeld() {
			stop()
		}
	})()
	defer context.AfterFunc(term.abandoned, stop)()
	var result error
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &lock{Interface: lease, term: term, from: c.From}, Name: c.Name, ReleaseOnCancel: true,
		LeaseDuration: c.Timing.Lease, RenewDeadline: c.Timing.RenewDeadline, RetryPeriod: c.Timing.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				defer stop()
				defer close(term.done)
				if !term.isOver() { // as it may be if the lease was slow to get
					result = work(term.ctx, term)
				}
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("asking for the lease %s/%s: %w", c.Namespace, c.Name, err)
	}
	elector.Run(electing)
	if !term.isHeld() {
		return ctx.Err()
	}
	term.lose() // or the work has ended
	select {
	case <-term.done:
	case <-term.abandoned.Done():
		return fmt.Errorf("%s/%s: %w; what it was held for has not ended in %v, and can send nothing any more", c.Namespace, c.Name, ErrLost, c.Timing.Grace)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case term.wasLost():
		return fmt.Errorf("%s/%s: %w", c.Namespace, c.Name, ErrLost)
	default:
		return result
	}
}
