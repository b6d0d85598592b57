package quota

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/internal/tenant"
)

// space is what is in a space, in pods.
type space struct {
	mu   sync.Mutex
	pods string
}

func (s *space) measure(_ context.Context, _ tenant.Name, limits corev1.ResourceList) (corev1.ResourceList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pods == "" {
		return nil, errors.New("etcd does not answer")
	}
	counted := list("pods", s.pods, "services", "0")
	for name := range counted {
		if _, ok := limits[name]; !ok {
			delete(counted, name)
		}
	}
	return counted, nil
}

func TestCount(t *testing.T) {
	for name, tc := range map[string]struct {
		quota, want *corev1.ResourceQuota
	}{
		"a new quota": {
			newQuota("1", list("pods", "10"), nil, nil),
			newQuota("2", list("pods", "10"), list("pods", "10"), list("pods", "7")),
		},
		"another limit of what is charged": {
			newQuota("1", list("pods", "3"), list("pods", "10"), list("pods", "8")),
			newQuota("2", list("pods", "3"), list("pods", "3"), list("pods", "8")),
		},
		"a new limit beside another": {
			newQuota("1", list("pods", "3", "services", "5"), list("pods", "3"), list("pods", "8")),
			newQuota("2", list("pods", "3", "services", "5"), list("pods", "3", "services", "5"), list("pods", "8", "services", "0")),
		},
		"a limit that is gone": {
			newQuota("1", list("services", "5"), list("pods", "3", "services", "5"), list("pods", "8", "services", "1")),
			newQuota("2", list("services", "5"), list("services", "5"), list("services", "1")),
		},
		"nothing new": {
			newQuota("1", list("pods", "3"), list("pods", "3"), list("pods", "1")),
			newQuota("1", list("pods", "3"), list("pods", "3"), list("pods", "1")),
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &fakeStore{quota: tc.quota}
			r := newRecounter(s, (&space{pods: "7"}).measure, nil, 0)
			got, err := r.count(t.Context(), "acme")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestCountAgain lets the limits change while they are counted.
func TestCountAgain(t *testing.T) {
	s := &fakeStore{quota: newQuota("1", list("pods", "10"), nil, nil)}
	s.before = func(q *corev1.ResourceQuota) {
		q.Spec.Hard = list("pods", "20")
		s.before = nil
	}
	got, err := newRecounter(s, (&space{pods: "7"}).measure, nil, 0).count(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(newQuota("3", list("pods", "20"), list("pods", "20"), list("pods", "7")), got); diff != "" {
		t.Error(diff)
	}
	s.before = func(q *corev1.ResourceQuota) { q.Spec.Hard = list("pods", s.quota.ResourceVersion) }
	s.quota.Spec.Hard = list("pods", "1")
	if got, err := newRecounter(s, (&space{pods: "7"}).measure, nil, 0).count(t.Context(), "acme"); err == nil || got != nil {
		t.Errorf("limits that never rest: %v, %v", got, err)
	}
}

// TestRecount lets a tenant do things and be quiet, in a time of its own.
func TestRecount(t *testing.T) {
	const settle = time.Minute
	limit := list("pods", "10")
	for name, tc := range map[string]struct {
		used, stored string
		// during is done while the tenant is watched.
		during func(s *fakeStore, r *recounter, space *space)
		// after and want are what is used then.
		after time.Duration
		want  string
	}{
		"right":                     {used: "4", stored: "4", after: 5 * settle, want: "4"},
		"too little":                {used: "4", stored: "6", after: settle + time.Second, want: "6"},
		"too much, not yet":         {used: "6", stored: "4", after: settle + time.Second, want: "6"},
		"too much, twice as long":   {used: "6", stored: "4", after: 2*settle + time.Second, want: "4"},
		"too much of a busy tenant": {used: "6", stored: "4", during: busy(settle, 5), after: 5 * settle, want: "6"},
		"once it is quiet":          {used: "6", stored: "4", during: busy(settle, 5), after: 8 * settle, want: "4"},
		"a doubt":                   {used: "6", stored: "6", during: doubt(settle), after: 5 * settle, want: "5"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &fakeStore{quota: newQuota("1", limit, limit, list("pods", tc.used))}
				held := &space{pods: tc.stored}
				r := newRecounter(s, held.measure, nil, settle)
				ctx, cancel := context.WithCancel(t.Context())
				go r.run(ctx)
				r.changed(s.quota)
				if tc.during != nil {
					go tc.during(s, r, held)
				}
				time.Sleep(tc.after)
				synctest.Wait()
				if got := s.used("pods"); got != tc.want {
					t.Errorf("%s pods are used, want %s", got, tc.want)
				}
				cancel()
				synctest.Wait()
			})
		})
	}
}

// busy changes the quota, and nothing of what is used, again and again.
func busy(settle time.Duration, times int) func(*fakeStore, *recounter, *space) {
	return func(s *fakeStore, r *recounter, _ *space) {
		for range 2 * times {
			time.Sleep(settle / 2)
			s.mu.Lock()
			s.touch()
			changed := s.quota.DeepCopy()
			s.mu.Unlock()
			r.changed(changed)
		}
	}
}

// doubt is about a deletion that was not charged, long after the tenant was right.
func doubt(settle time.Duration) func(*fakeStore, *recounter, *space) {
	return func(_ *fakeStore, r *recounter, held *space) {
		time.Sleep(settle * 3 / 2)
		held.mu.Lock()
		held.pods = "5"
		held.mu.Unlock()
		r.doubt("acme")
	}
}

// TestForgotten checks that nothing is kept of a tenant that is recounted or gone.
func TestForgotten(t *testing.T) {
	for name, gone := range map[string]bool{"recounted": false, "gone": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limit := list("pods", "10")
				s := &fakeStore{quota: newQuota("1", limit, limit, list("pods", "4"))}
				r := newRecounter(s, (&space{pods: "4"}).measure, nil, time.Minute)
				ctx, cancel := context.WithCancel(t.Context())
				go r.run(ctx)
				r.changed(s.quota)
				if gone {
					s.mu.Lock()
					s.quota = nil
					s.mu.Unlock()
				}
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if len(r.observed) != 0 || r.quiet.Len() != 0 {
					t.Errorf("%d tenants are observed, %d wait", len(r.observed), r.quiet.Len())
				}
				cancel()
				synctest.Wait()
			})
		})
	}
}

// spacedStore has quotas of several spaces.
type spacedStore map[flatName]*fakeStore

func (s spacedStore) Get(ctx context.Context, key flatName) (*corev1.ResourceQuota, error) {
	return s[key].Get(ctx, key)
}

func (s spacedStore) Update(ctx context.Context, key flatName, change func(*corev1.ResourceQuota) error) (*corev1.ResourceQuota, error) {
	return s[key].Update(ctx, key, change)
}

// TestTurnsOfCounts has as many tenants as there are workers make many quotas, each of which takes a second to be
// counted. That of another comes after the first of theirs, and that of a new tenant waits for none.
func TestTurnsOfCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		custom := list("count/a.x.io", "5", "count/b.x.io", "5", "pods", "1")
		s, names := spacedStore{}, []flatName(nil)
		add := func(namespace tenant.Flat, name string, q *corev1.ResourceQuota) *corev1.ResourceQuota {
			q.Namespace, q.Name = namespace.String(), name
			s[nameOf(q)] = &fakeStore{quota: q}
			names = append(names, nameOf(q))
			return q
		}
		var changed []*corev1.ResourceQuota
		for i := range 10 * countWorkers {
			changed = append(changed, add(tenant.Flatten(tenant.Name(fmt.Sprint("evil", i%countWorkers)), "default"), fmt.Sprint(i), newQuota("1", custom, custom, list("pods", "0"))))
		}
		of := add("acme|default", "theirs", newQuota("1", custom, custom, list("pods", "0")))
		own := newQuota("1", list("pods", "10"), nil, nil)
		own = add("globex|default", own.Name, own)
		changed = append(changed, of, own)

		var together atomic.Int64
		r := newRecounter(s, (&space{pods: "7"}).measure, func(_ context.Context, n tenant.Name, resources []schema.GroupResource, namespace string) (map[schema.GroupResource]int64, error) {
			if together.Store(max(together.Load(), int64(len(resources)))); namespace != "default" {
				t.Errorf("counts in %q of %q", namespace, n)
			}
			time.Sleep(time.Second)
			return map[schema.GroupResource]int64{{Group: "x.io", Resource: "a"}: 3, {Group: "x.io", Resource: "b"}: 0}, nil
		}, time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		for _, q := range changed {
			r.changed(q)
		}
		go r.run(ctx)
		synctest.Wait()
		if got := s[nameOf(own)].used("pods"); got != "7" {
			t.Errorf("of the new tenant %s pods are used, want 7", got)
		}
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		if got := s[nameOf(of)].used("count/a.x.io"); got != "3" {
			t.Errorf("of the other tenant %s are used, want 3", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, key := range names {
			if key != nameOf(own) && (s[key].used("count/a.x.io") != "3" || s[key].used("count/b.x.io") != "0" || s[key].used("pods") != "0") {
				t.Errorf("of %s are used %v", key, s[key].quota.Status.Used)
			}
		}
		if got := together.Load(); got != 2 {
			t.Errorf("counts %d resources at once, want all of a quota", got)
		}
		cancel()
		synctest.Wait()
	})
}
