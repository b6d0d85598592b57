package quota

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	quota "k8s.io/apiserver/pkg/quota/v1"

	"github.com/tenantry/tenantry/internal/tenant"
)

// chargePods does what upstream's evaluator does with a batch that uses so many pods.
func chargePods(t *testing.T, a *accounts, pods string) error {
	t.Helper()
	through := &accessor{read: a.ofTenant, write: a.charge, shown: map[tenant.Flat][]*corev1.ResourceQuota{}}
	quotas, err := through.GetQuotas(keyOf("acme").namespace.String())
	if err != nil || len(quotas) != 1 {
		t.Fatalf("got %d quotas, %v", len(quotas), err)
	}
	defer func() {
		if through.lock(quotas)(); len(through.shown) != 0 {
			t.Errorf("%d namespaces are kept after the decision", len(through.shown))
		}
	}()
	quotas[0].Status.Used = quota.Add(quotas[0].Status.Used, list("pods", pods))
	return through.UpdateQuotaStatus(&quotas[0])
}

// TestChargedByAnother charges while another server does, unseen until the write.
func TestChargedByAnother(t *testing.T) {
	limit := list("pods", "10", "services", "5")
	for name, tc := range map[string]struct {
		other, pods, want string
		conflict          bool
	}{
		"room for both":         {other: "3", pods: "4", want: "8"},
		"room to the last":      {other: "5", pods: "4", want: "10"},
		"room for the other":    {other: "6", pods: "4", want: "7", conflict: true},
		"what the other frees":  {other: "-1", pods: "10", want: "10"},
		"nothing but the other": {other: "9", pods: "1", want: "10", conflict: true},
	} {
		t.Run(name, func(t *testing.T) {
			known := newQuota("1", limit, limit, list("pods", "1", "services", "2"))
			s := &fakeStore{quota: known.DeepCopy()}
			s.before = func(q *corev1.ResourceQuota) {
				q.Status.Used = quota.Add(q.Status.Used, list("pods", tc.other))
				s.before = nil
			}
			a := newTestAccounts(s, latestOf(t, known))
			if err := chargePods(t, a, tc.pods); apierrors.IsConflict(err) != tc.conflict {
				t.Errorf("got error %v, want conflict %t", err, tc.conflict)
			}
			if got := s.used("pods"); got != tc.want {
				t.Errorf("%s pods are used, want %s", got, tc.want)
			}
			if got := a.known("acme").Status.Used.Pods().String(); got != tc.want {
				t.Errorf("%s pods are known to be used, want %s", got, tc.want)
			}
		})
	}
}

// TestNewLimit checks that nothing is charged to a limit that is not counted, and
// that it is counted first.
func TestNewLimit(t *testing.T) {
	for name, q := range map[string]*corev1.ResourceQuota{
		"no status":      newQuota("1", list("pods", "10"), nil, nil),
		"another limit":  newQuota("1", list("pods", "10"), list("pods", "5"), list("pods", "3")),
		"no use":         newQuota("1", list("pods", "10"), list("pods", "10"), nil),
		"one more limit": newQuota("1", list("pods", "10", "services", "5"), list("pods", "10"), list("pods", "3")),
	} {
		t.Run(name, func(t *testing.T) {
			counted := newQuota("2", q.Spec.Hard, q.Spec.Hard, list("pods", "3", "services", "0"))
			counts := 0
			a := newTestAccounts(&fakeStore{quota: q.DeepCopy()}, latestOf(t, q))
			a.count = func(context.Context, tenant.Name) (*corev1.ResourceQuota, error) {
				counts++
				return counted, nil
			}
			quotas, err := a.ofTenant(keyOf("acme").namespace)
			if err != nil || counts != 1 {
				t.Fatalf("counted %d times, %v", counts, err)
			}
			if diff := cmp.Diff(counted.Status, quotas[0].Status); diff != "" {
				t.Error(diff)
			}
		})
	}
	errCount := errors.New("etcd does not answer")
	a := newTestAccounts(&fakeStore{quota: newQuota("1", list("pods", "1"), nil, nil)}, latestOf(t))
	a.count = func(context.Context, tenant.Name) (*corev1.ResourceQuota, error) { return nil, errCount }
	if _, err := a.ofTenant(keyOf("acme").namespace); !errors.Is(err, errCount) {
		t.Errorf("a quota that cannot be counted: %v", err)
	}
}

// TestSubtractFromTooMuch checks that nothing is given back of what is more than can be stored: what others use would
// be free.
func TestSubtractFromTooMuch(t *testing.T) {
	limit := list("pods", "2")
	s := &fakeStore{quota: newQuota("1", limit, limit, list("pods", "9223372036854775807"))} // and more, which is not there any more
	a := newTestAccounts(s, latestOf(t, s.quota))
	if err := a.subtract(refOf(s.quota), list("pods", "9223372036854775806")); err == nil || s.used("pods") != "9223372036854775807" {
		t.Errorf("got %v, and %s are used", err, s.used("pods"))
	}
	if err := a.subtract(refOf(s.quota), list("services", "1")); err != nil {
		t.Errorf("of something else: %v", err)
	}
}

func TestAddAndSubtract(t *testing.T) {
	limit := list("pods", "2")
	s := &fakeStore{quota: newQuota("1", limit, limit, list("pods", "1"))}
	a := newTestAccounts(s, latestOf(t, s.quota))
	add := func(by corev1.ResourceList) error { return a.add(refOf(s.quota), by) }
	subtract := func(by corev1.ResourceList) error { return a.subtract(refOf(s.quota), by) }
	for _, step := range []struct {
		do   func(corev1.ResourceList) error
		by   corev1.ResourceList
		want string
	}{
		{add, list("pods", "4"), "5"}, // beyond the limit
		{subtract, list("pods", "2", "services", "7"), "3"},
		{subtract, list("pods", "9"), "0"},
	} {
		if err := step.do(step.by); err != nil {
			t.Fatal(err)
		}
		if got := s.used("pods"); got != step.want {
			t.Errorf("%s pods are used, want %s", got, step.want)
		}
		if got := s.used("services"); got != "unknown" {
			t.Errorf("%s services are used, which have no limit", got)
		}
	}
}

// newTestAccounts returns the accounts of a store.
func newTestAccounts(s store, latest *latest) *accounts {
	a := &accounts{store: s, latest: latest}
	a.advances = newAdvances(SettleTime, func(to ref, freed corev1.ResourceList) { _ = a.subtract(to, freed) })
	return a
}
