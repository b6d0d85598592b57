package usage

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/clock"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

// space is what a fake recorder records about.
type space struct {
	objects, bytes int64
	usage          *v1alpha1.TenantUsage
	// counts and updates are how often it was counted and recorded.
	counts, updates int
	// during is called while the space is counted.
	during func()
	err    error
}

func newRecorder(spaces map[tenant.Name]*space) *Recorder {
	return &Recorder{
		Known: func(n tenant.Name) (*v1alpha1.TenantUsage, bool) {
			s, exists := spaces[n]
			if !exists || s.usage == nil {
				return nil, exists
			}
			known := *s.usage
			return &known, true
		},
		Stored: func(_ context.Context, n tenant.Name) (int64, int64, error) {
			s := spaces[n]
			s.counts++
			objects, bytes := s.objects, s.bytes
			if s.during != nil {
				s.during()
			}
			return objects, bytes, s.err
		},
		Update: func(_ context.Context, n tenant.Name, change func(*v1alpha1.TenantUsage)) error {
			s, exists := spaces[n]
			if !exists {
				return apierrors.NewNotFound(schema.GroupResource{}, string(n))
			}
			s.updates++
			var usage v1alpha1.TenantUsage
			if s.usage != nil {
				usage = *s.usage
			}
			stale := v1alpha1.TenantUsage{Objects: -1}
			change(&stale) // as if it had changed meanwhile
			change(&usage)
			s.usage = &usage
			return nil
		},
	}
}

// recordAll records what is noted, once, and returns what is noted then.
func (r *Recorder) recordAll(t *testing.T) map[tenant.Name]*activity {
	t.Helper()
	for n, a := range r.take() {
		if err := r.record(t.Context(), n, *a); err != nil {
			t.Error(err)
		}
	}
	return r.take()
}

func TestRecord(t *testing.T) {
	before := func() *v1alpha1.TenantUsage {
		return &v1alpha1.TenantUsage{Objects: 5, StoredBytes: 500, Requests: 50}
	}
	for name, tc := range map[string]struct {
		space           space
		requests        int
		wrote           bool
		want            *v1alpha1.TenantUsage
		counts, updates int
	}{
		"idle": {space: space{objects: 6, bytes: 600, usage: before()}, want: before()},
		"asked": {
			space: space{objects: 6, bytes: 600, usage: before()}, requests: 3,
			want: &v1alpha1.TenantUsage{Objects: 5, StoredBytes: 500, Requests: 53}, updates: 1,
		},
		"wrote": {
			space: space{objects: 6, bytes: 600, usage: before()}, requests: 1, wrote: true,
			want: &v1alpha1.TenantUsage{Objects: 6, StoredBytes: 600, Requests: 51}, counts: 1, updates: 1,
		},
		"wrote the same": {space: space{objects: 5, bytes: 500, usage: before()}, wrote: true, want: before(), counts: 1},
		"new and empty":  {want: &v1alpha1.TenantUsage{}, requests: 0, wrote: true, counts: 1, updates: 1},
		"somebody else wrote": {
			space: space{objects: 4, bytes: 400, usage: before()}, wrote: true,
			want: &v1alpha1.TenantUsage{Objects: 4, StoredBytes: 400, Requests: 50}, counts: 1, updates: 1,
		},
		"new": {
			space: space{objects: 6, bytes: 600}, requests: 2,
			want: &v1alpha1.TenantUsage{Objects: 6, StoredBytes: 600, Requests: 2}, counts: 1, updates: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecorder(map[tenant.Name]*space{"a": &tc.space})
			for range tc.requests {
				r.asked("a")
			}
			if tc.wrote {
				r.wrote("a")
			}
			if left := r.recordAll(t); len(left) > 0 {
				t.Errorf("%v is noted again", left)
			}
			if diff := cmp.Diff(tc.want, tc.space.usage); diff != "" {
				t.Error(diff)
			}
			if tc.space.counts != tc.counts || tc.space.updates != tc.updates {
				t.Errorf("counted %d and recorded %d times, want %d and %d", tc.space.counts, tc.space.updates, tc.counts, tc.updates)
			}
		})
	}
}

// TestOvertaken checks that a count that another server has overtaken is not
// recorded over a newer one, but taken again.
func TestOvertaken(t *testing.T) {
	s := &space{objects: 5, bytes: 500, usage: &v1alpha1.TenantUsage{Objects: 1, StoredBytes: 100}}
	r := newRecorder(map[tenant.Name]*space{"a": s})
	s.during = func() { // the other writes, counts and records
		s.during = nil
		s.objects, s.usage = 6, &v1alpha1.TenantUsage{Objects: 6, StoredBytes: 500, Requests: 7}
	}
	r.asked("a")
	r.wrote("a")
	left := r.recordAll(t)
	if a := left["a"]; a == nil || !a.wrote || a.requests != 0 {
		t.Errorf("noted again: %v, want that it was written", a)
	}
	if diff := cmp.Diff(&v1alpha1.TenantUsage{Objects: 6, StoredBytes: 500, Requests: 8}, s.usage); diff != "" {
		t.Error(diff)
	}
}

func TestRecordFails(t *testing.T) {
	s := &space{objects: 5, err: errors.New("etcd is away"), usage: &v1alpha1.TenantUsage{}}
	r := newRecorder(map[tenant.Name]*space{"a": s})
	r.asked("a")
	r.wrote("a")
	for n, a := range r.take() {
		r.attempt(t.Context(), n, *a)
	}
	s.err = nil
	r.recordAll(t)
	if diff := cmp.Diff(&v1alpha1.TenantUsage{Objects: 5, Requests: 1}, s.usage); diff != "" {
		t.Error(diff)
	}
}

// TestLater checks that nobody who is active waits for new tenants and for those that
// an earlier process may have left, and that these are counted with pauses.
func TestLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spaces := map[tenant.Name]*space{"left": {usage: &v1alpha1.TenantUsage{}, objects: 2}, "active": {objects: 3}}
		for i := range 10 {
			spaces[tenant.Name(fmt.Sprintf("new-%d", i))] = &space{objects: 1}
		}
		r := newRecorder(spaces)
		r.Period = time.Minute
		r.Names = func() ([]tenant.Name, bool) { return []tenant.Name{"left", "active"}, true }
		for n := range spaces {
			if n != "left" {
				r.wrote(n)
			}
		}
		r.asked("active")
		var mu sync.Mutex
		stored := r.Stored
		r.Stored = func(ctx context.Context, n tenant.Name) (int64, int64, error) {
			mu.Lock()
			defer mu.Unlock()
			return stored(ctx, n)
		}
		waiting := func() (waiting int) {
			mu.Lock()
			defer mu.Unlock()
			for _, s := range spaces {
				if s.counts == 0 {
					waiting++
				}
			}
			return waiting
		}
		ctx, cancel := context.WithCancel(t.Context())
		go r.Run(ctx)
		time.Sleep(r.Period)
		synctest.Wait()
		if waiting() != len(spaces)-2 || spaces["active"].counts == 0 {
			t.Errorf("%d tenants are not counted in the beginning, want all but the active one and one more", waiting())
		}
		time.Sleep(4 * laterPause)
		synctest.Wait()
		if want := len(spaces) - 2 - 4; waiting() != want {
			t.Errorf("%d tenants are not counted after four pauses, want %d", waiting(), want)
		}
		time.Sleep(r.Period)
		cancel()
		synctest.Wait()
		for n, s := range spaces {
			if s.counts != 1 || s.usage.Objects != s.objects {
				t.Errorf("%s was counted %d times and has %d objects, want once and %d", n, s.counts, s.usage.Objects, s.objects)
			}
		}
	})
}

func TestNoSpace(t *testing.T) {
	r := newRecorder(nil)
	for _, n := range []tenant.Name{"", tenant.System, tenant.Name(tenant.All), tenant.Name(tenant.Everything)} {
		r.asked(n)
		r.wrote(n)
	}
	if len(r.active) > 0 {
		t.Errorf("%v are noted, which are no tenants with a space", r.active)
	}
	r.wrote("gone")
	if left := r.recordAll(t); len(left) > 0 {
		t.Errorf("%v is noted again, which is no tenant any more", left)
	}
	var off *Recorder
	off.asked("a")
	off.wrote("a")
	off.Run(t.Context())
}

// TestNoting checks whose requests are noted and in which space something is written.
func TestNoting(t *testing.T) {
	for name, tc := range map[string]struct {
		verb, subresource string
		resource          bool
		own, space        tenant.Name
		want              map[tenant.Name]activity
	}{
		"read":             {verb: "get", resource: true, own: "a", want: map[tenant.Name]activity{"a": {requests: 1}}},
		"list":             {verb: "list", resource: true, own: "a", want: map[tenant.Name]activity{"a": {requests: 1}}},
		"watch":            {verb: "watch", resource: true, own: "a", want: map[tenant.Name]activity{"a": {requests: 1}}},
		"write":            {verb: "create", resource: true, own: "a", want: map[tenant.Name]activity{"a": {requests: 1, wrote: true}}},
		"deletecollection": {verb: "deletecollection", resource: true, own: "a", want: map[tenant.Name]activity{"a": {requests: 1, wrote: true}}},
		"no resource":      {verb: "post", own: "a", want: map[tenant.Name]activity{"a": {requests: 1}}},
		"the system": {
			verb: "update", resource: true, own: tenant.System, space: "a", want: map[tenant.Name]activity{"a": {wrote: true}},
		},
		"the system at home": {verb: "update", resource: true, own: tenant.System, want: map[tenant.Name]activity{}},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Recorder{}
			handler := WithOpen(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				if r.active != nil {
					t.Error("noted before it is done")
				}
			}), func(*http.Request, *request.RequestInfo) bool { return false })
			handler = WithAnswers(handler, NewMeter(1, everybody, clock.RealClock{}), r)
			ctx := tenant.WithRequest(t.Context(), &tenant.Request{Requested: tc.space.Scope(), Authenticated: tc.own})
			ctx = request.WithUser(ctx, &user.DefaultInfo{Name: "u", Extra: map[string][]string{tenant.UserExtraKey: {string(tc.own)}}})
			ctx = request.WithRequestInfo(ctx, &request.RequestInfo{Verb: tc.verb, IsResourceRequest: tc.resource})
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx))
			got := map[tenant.Name]activity{}
			for n, a := range r.take() {
				got[n] = *a
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(activity{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}
