package usage

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// idle is how long the recorder does nothing after each tenant, as a multiple of the
	// time that the tenant took: the more there is to count, the less often it is done.
	// laterIdle is the same for those for whose count nobody waits.
	idle, laterIdle = 19, 49
	// laterPause is how long it does nothing after such a tenant at least: so long that
	// a process rests, and returns memory, while it counts thousands.
	laterPause = 50 * time.Millisecond
)

// Recorder writes into the status of Tenants what they have stored and asked. It
// counts in etcd what was stored by whatever server, and adds what this server was
// asked to what others were. An idle tenant costs nothing here.
type Recorder struct {
	// Period is how often an active tenant is recorded, if there is time.
	Period time.Duration
	// Known returns the usage of a tenant that exists, which may be nil.
	Known func(n tenant.Name) (usage *v1alpha1.TenantUsage, exists bool)
	// Names returns all tenants, and whether they are known yet.
	Names func() ([]tenant.Name, bool)
	// Stored counts the objects of a space and their bytes.
	Stored func(ctx context.Context, n tenant.Name) (objects, bytes int64, err error)
	// Update changes the usage of a tenant in one step. If something else changes it
	// meanwhile, change is called again.
	Update func(ctx context.Context, n tenant.Name, change func(*v1alpha1.TenantUsage)) error

	mu     sync.Mutex
	active map[tenant.Name]*activity
	// later are the tenants for whose count nobody waits: those of which is not known
	// whether they were active, and new ones whose users have not asked for anything.
	later map[tenant.Name]struct{}
}

// activity is what is to be recorded of a tenant.
type activity struct {
	requests int64
	// wrote is whether something may have changed in the space.
	wrote bool
}

// asked notes a request of a tenant's user.
func (r *Recorder) asked(n tenant.Name) { r.note(n, activity{requests: 1}) }

// wrote notes that something has been written to a space.
func (r *Recorder) wrote(n tenant.Name) { r.note(n, activity{wrote: true}) }

func (r *Recorder) note(n tenant.Name, more activity) {
	if r == nil || !n.IsSpace() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.active[n]
	if known == nil {
		known = &activity{}
		if r.active == nil {
			r.active = make(map[tenant.Name]*activity)
		}
		r.active[n] = known
	}
	known.requests += more.requests
	known.wrote = known.wrote || more.wrote
}

func (r *Recorder) take() map[tenant.Name]*activity {
	r.mu.Lock()
	defer r.mu.Unlock()
	active := r.active
	r.active = nil
	return active
}

// Run records until ctx ends. What an earlier process has left unrecorded, and what new
// spaces begin with, is counted when no tenant that is active has to wait for it.
func (r *Recorder) Run(ctx context.Context) {
	if r == nil || wait.PollUntilContextCancel(ctx, r.Period, false, r.begin) != nil {
		return
	}
	for {
		due := time.Now().Add(r.Period)
		for n, a := range r.take() {
			if r.canWait(n, *a) {
				r.later[n] = struct{}{}
				continue
			}
			delete(r.later, n)
			if took := r.attempt(ctx, n, *a); !sleep(ctx, idle*took) {
				return
			}
		}
		for n := range r.later {
			delete(r.later, n)
			if took := r.attempt(ctx, n, activity{wrote: true}); !sleep(ctx, max(laterIdle*took, laterPause)) {
				return
			}
			if time.Now().After(due) {
				break
			}
		}
		if !sleep(ctx, time.Until(due)) {
			return
		}
	}
}

func (r *Recorder) begin(context.Context) (known bool, err error) {
	names, known := r.Names()
	r.later = make(map[tenant.Name]struct{})
	for _, n := range names {
		r.later[n] = struct{}{}
	}
	return known, nil
}

// canWait reports whether nobody waits for what is to be recorded of a tenant.
func (r *Recorder) canWait(n tenant.Name, a activity) bool {
	known, exists := r.Known(n)
	return exists && known == nil && a.requests == 0
}

// attempt records a tenant, and notes again what it could not. It returns how long it
// took.
func (r *Recorder) attempt(ctx context.Context, n tenant.Name, a activity) time.Duration {
	began := time.Now()
	if err := r.record(ctx, n, a); err != nil && ctx.Err() == nil {
		klog.ErrorS(err, "Recording what a tenant uses", "tenant", n)
		r.note(n, a)
	}
	return time.Since(began)
}

// record writes what is new about a tenant.
func (r *Recorder) record(ctx context.Context, n tenant.Name, a activity) error {
	known, exists := r.Known(n)
	if !exists {
		return nil
	}
	isNew := known == nil
	if isNew {
		known, a.wrote = &v1alpha1.TenantUsage{}, true
	}
	counted := *known
	if a.wrote {
		var err error
		if counted.Objects, counted.StoredBytes, err = r.Stored(ctx, n); err != nil {
			return err
		}
	}
	if !isNew && a.requests == 0 && counted == *known {
		return nil
	}
	// Another server that has counted meanwhile may have seen more.
	overtaken := false
	err := r.Update(ctx, n, func(u *v1alpha1.TenantUsage) {
		overtaken = a.wrote && (u.Objects != known.Objects || u.StoredBytes != known.StoredBytes)
		if a.wrote && !overtaken {
			u.Objects, u.StoredBytes = counted.Objects, counted.StoredBytes
		}
		u.Requests += a.requests
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil && overtaken {
		r.wrote(n)
	}
	return err
}

// sleep reports whether the time has passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
